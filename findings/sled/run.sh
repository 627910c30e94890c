#!/bin/sh
# Crash-tests sled; the workload is in rust/src/engines/sled.rs.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build
crash_test -- "$rust" sled
