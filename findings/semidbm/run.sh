#!/bin/sh
# Crash-tests semidbm with a call of sync after each row.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/semidbm/bin/python" "$here/workload.py"
