#!/bin/sh
# Crash-tests Lance with one row a commit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/lance/bin/python" "$here/workload.py"
