#!/bin/sh
# Crash-tests the LSM engine of SQLite 4 with full safety.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/lsm/bin/python" "$here/workload.py"
