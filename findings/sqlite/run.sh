#!/bin/sh
# Crash-tests SQLite. The argument is the variant: journal mode, hyphen, value of PRAGMA
# synchronous.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/sqlite/bin/python" "$here/workload.py" "${1:-wal-full}"
