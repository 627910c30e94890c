#!/bin/sh
# Crash-tests dbm.dumb of Python, with a call of sync after each row.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$(command -v "${PYTHON:-python3}")" "$here/workload.py"
