#!/bin/sh
# Crash-tests sqlitedict with a call of commit after each row.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/sqlitedict/bin/python" "$here/workload.py"
