#!/bin/sh
# Crash-tests the file queue of persist-queue with autosave.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/persist-queue/bin/python" "$here/workload.py"
