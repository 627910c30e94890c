#!/bin/sh
# Crash-tests Whoosh with one document a commit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/whoosh/bin/python" "$here/workload.py"
