#!/bin/sh
# Crash-tests okaywal; the workload is in surrealkv/src/main.rs.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build surrealkv seekless-findings-logs
crash_test -- "$rust" okaywal
