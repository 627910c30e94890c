#!/bin/sh
# Crash-tests bbolt with synchronous commits; the workload is in go/bbolt.go.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
crash_test -- "$go" bbolt
