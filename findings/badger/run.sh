#!/bin/sh
# Crash-tests badger with synchronous commits; the workload is in go/badger.go.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
crash_test -- "$go" badger
