#!/bin/sh
# Crash-tests the queue dque; the workload is in go/dque.go.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
crash_test -- "$go" dque
