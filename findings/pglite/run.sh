#!/bin/sh
# Crash-tests PGlite in a directory, with one row a commit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test --exhaustive 1 --samples 2 -- env NODE_PATH="$cache/pglite/node_modules" node "$here/workload.js"
