#!/bin/sh
# Crash-tests lowdb on XFS, which does not write a file before a rename that replaces another one.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need mkfs.xfs xfsprogs
sh "$here/install.sh"
crash_test --fs xfs --size 320M -- env MODULES="$cache/lowdb/node_modules" \
    node "$here/workload.mjs"
