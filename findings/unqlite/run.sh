#!/bin/sh
# Crash-tests UnQLite with one row a transaction.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/unqlite/bin/python" "$here/workload.py"
