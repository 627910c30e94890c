#!/bin/sh
# Crash-tests TinyDB with its default storage.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/tinydb/bin/python" "$here/workload.py"
