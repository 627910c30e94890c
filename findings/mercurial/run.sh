#!/bin/sh
# Crash-tests Mercurial with one file a commit.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/mercurial/bin/python" "$here/workload.py"
