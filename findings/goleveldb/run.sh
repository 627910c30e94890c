#!/bin/sh
# Crash-tests goleveldb with synchronous writes; the workload is in go/goleveldb.go. The argument is
# the variant: 1.0.0, the last release, or 2022, the commit of July 2022.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
case ${1:-1.0.0} in 2022) go_build go-2022.mod ;; *) go_build ;; esac
crash_test -- "$go" goleveldb
