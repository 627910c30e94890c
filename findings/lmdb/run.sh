#!/bin/sh
# Crash-tests LMDB: with synchronous commits (sync), or with the flag MDB_NOSYNC (nosync).
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/lmdb/bin/python" "$here/workload.py" "${1:-sync}"
