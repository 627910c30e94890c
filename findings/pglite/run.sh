#!/bin/sh
# Crash-tests PGlite in a directory, with one row a commit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env NODE_PATH="$cache/pglite/node_modules" node "$here/workload.js"
