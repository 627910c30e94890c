#!/bin/sh
# Builds the Go workloads, the queue dque among them; go/go.mod pins its version.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
