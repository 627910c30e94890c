#!/bin/sh
# Builds the Go workloads twice: go/go.mod pins goleveldb 1.0.0, go/go-2022.mod a later commit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build go.mod
go_build go-2022.mod
