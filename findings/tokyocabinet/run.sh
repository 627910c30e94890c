#!/bin/sh
# Crash-tests the hash database of Tokyo Cabinet with HDBOTSYNC.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- env ROOT="$cache/tokyocabinet" "$(command -v "${PYTHON:-python3}")" "$here/workload.py"
