#!/bin/sh
# Crash-tests delta-rs with one row a commit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/deltalake/bin/python" "$here/workload.py"
