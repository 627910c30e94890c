#!/bin/sh
# Crash-tests LevelDB with synchronous writes. The argument is its version: 1.22 or 1.23.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/leveldb-${1:-1.22}/bin/python" "$here/workload.py" "${1:-1.22}"
