#!/bin/sh
# Crash-tests classic-level with synchronous writes.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env NODE_PATH="$cache/classic-level/node_modules" node "$here/workload.js"
