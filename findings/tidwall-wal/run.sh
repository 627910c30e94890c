#!/bin/sh
# Crash-tests the log tidwall/wal; the workload is in go/tidwall_wal.go.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
crash_test -- "$go" tidwall-wal
