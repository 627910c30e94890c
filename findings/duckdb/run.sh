#!/bin/sh
# Crash-tests DuckDB. The argument is the variant: checkpoint, with CHECKPOINT after some commits,
# or wal, without any.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test --fs ext4 --size 64M --sector 4096 -- \
    "$cache/duckdb/bin/python" "$here/workload.py" "${1:-checkpoint}"
