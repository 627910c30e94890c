#!/bin/sh
# Crash-tests raft-wal of HashiCorp; the workload is in go/raft_wal.go.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
crash_test -- "$go" raft-wal
