#!/bin/sh
# Crash-tests BuntDB with the policy Always; the workload is in go/buntdb.go.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
crash_test -- "$go" buntdb
