#!/bin/sh
# Crash-tests RocksDB: with synchronous writes (sync), or without (nosync).
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/rocksdb/bin/python" "$here/workload.py" "${1:-sync}"
