#!/bin/sh
# Crash-tests lmdb-js with its defaults. It keeps the boot id in its file, and flushes less as long as
# the machine has not been started anew.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env NODE_PATH="$cache/lmdb-js/node_modules" node "$here/workload.js"
