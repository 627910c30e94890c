#!/bin/sh
# Crash-tests LokiJS with a call of saveDatabase after each row.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env NODE_PATH="$cache/lokijs/node_modules" node "$here/workload.js"
