#!/bin/sh
# Crash-tests etcd with one member; the workload is in go/etcd.go.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
crash_test -- "$go" etcd
