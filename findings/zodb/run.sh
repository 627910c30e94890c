#!/bin/sh
# Crash-tests ZODB with FileStorage.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test --fs ext4 --size 64M -- "$cache/zodb/bin/python" "$here/workload.py"
