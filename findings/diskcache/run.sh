#!/bin/sh
# Crash-tests diskcache with its defaults.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/diskcache/bin/python" "$here/workload.py"
