#!/bin/sh
# Crash-tests GDBM with a call of gdbm_sync after each row.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env ROOT="$cache/gdbm" "$(command -v "${PYTHON:-python3}")" "$here/workload.py"
