#!/bin/sh
# Crash-tests surrealkv with durable commits. The argument is the version.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build surrealkv seekless-findings-logs
crash_test -- "$rust" "${1:-1.2.0}"
