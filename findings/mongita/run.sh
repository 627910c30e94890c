#!/bin/sh
# Crash-tests Mongita on disk.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/mongita/bin/python" "$here/workload.py"
