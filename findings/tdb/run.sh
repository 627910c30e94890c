#!/bin/sh
# Crash-tests tdb, the database of Samba, with one row a transaction.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env ROOT="$cache/tdb" "$(command -v "${PYTHON:-python3}")" "$here/workload.py"
