#!/bin/sh
# Crash-tests SQLite of node-sqlite3-wasm, with one row a transaction.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env NODE_PATH="$cache/sqlite-wasm/node_modules" node "$here/workload.js"
