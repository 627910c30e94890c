#!/bin/sh
# Crash-tests redb; the workload is in rust/src/engines/redb.rs.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build
crash_test -- "$rust" redb
