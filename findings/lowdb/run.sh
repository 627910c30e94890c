#!/bin/sh
# Crash-tests lowdb, a database in a JSON file.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env MODULES="$cache/lowdb/node_modules" node "$here/workload.mjs"
