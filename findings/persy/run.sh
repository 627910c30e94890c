#!/bin/sh
# Crash-tests persy; the workload is in rust/src/engines/persy.rs.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build
crash_test -- "$rust" persy
