#!/bin/sh
# Crash-tests Turso with its defaults.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test --fs ext4 --size 64M -- "$cache/turso/bin/python" "$here/workload.py"
