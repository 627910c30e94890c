#!/bin/sh
# Crash-tests jammdb; the workload is in rust/src/engines/jammdb.rs.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build
crash_test -- "$rust" jammdb
