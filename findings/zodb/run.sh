#!/bin/sh
# Crash-tests ZODB with FileStorage.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/zodb/bin/python" "$here/workload.py"
