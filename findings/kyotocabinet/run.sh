#!/bin/sh
# Crash-tests the hash database of Kyoto Cabinet with hard transactions.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env ROOT="$cache/kyotocabinet" "$(command -v "${PYTHON:-python3}")" "$here/workload.py"
