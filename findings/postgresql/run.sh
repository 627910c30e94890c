#!/bin/sh
# Crash-tests PostgreSQL with its defaults.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env ROOT="$cache/postgresql" "$(command -v "${PYTHON:-python3}")" "$here/workload.py"
