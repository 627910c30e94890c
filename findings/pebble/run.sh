#!/bin/sh
# Crash-tests pebble with synchronous commits; the workload is in go/pebble.go.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
go_build
crash_test -- "$go" pebble
