#!/bin/sh
# Crash-tests LadybugDB with one row a commit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/ladybug/bin/python" "$here/workload.py"
