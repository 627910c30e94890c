#!/bin/sh
# Crash-tests DuckDB. The argument is the variant: checkpoint, with CHECKPOINT after some commits,
# or wal, without any.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/duckdb/bin/python" "$here/workload.py" "${1:-checkpoint}"
