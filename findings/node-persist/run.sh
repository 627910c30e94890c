#!/bin/sh
# Crash-tests node-persist with one row a call of setItem.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env NODE_PATH="$cache/node-persist/node_modules" node "$here/workload.js"
