#!/bin/sh
# Crash-tests NeDB with one row an insert.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env NODE_PATH="$cache/nedb/node_modules" node "$here/workload.js"
