#!/bin/sh
# Crash-tests Bleve, one document an index operation; the workload is in go/bleve.go.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
crash_test -- "$go" bleve
