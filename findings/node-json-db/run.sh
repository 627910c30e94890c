#!/bin/sh
# Crash-tests node-json-db with syncOnSave.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env NODE_PATH="$cache/node-json-db/node_modules" node "$here/workload.js"
