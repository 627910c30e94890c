#!/bin/sh
# Crash-tests pickleDB with a call of save after each row.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/pickledb/bin/python" "$here/workload.py"
