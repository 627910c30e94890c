#!/bin/sh
# Crash-tests fjall; the workload is in rust/src/engines/fjall.rs.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build
crash_test -- "$rust" fjall
