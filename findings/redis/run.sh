#!/bin/sh
# Crash-tests Redis with an append-only file and appendfsync always.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env ROOT="$cache/redis" "$(command -v "${PYTHON:-python3}")" "$here/workload.py"
