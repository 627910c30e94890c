#!/bin/sh
# Crash-tests Lance with one row a commit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test --exhaustive 2 --samples 6 -- "$cache/lance/bin/python" "$here/workload.py"
