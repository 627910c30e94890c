#!/bin/sh
# Crash-tests AceBase with its own file format.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env NODE_PATH="$cache/acebase/node_modules" node "$here/workload.js"
