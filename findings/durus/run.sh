#!/bin/sh
# Crash-tests Durus with one row a transaction.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- "$cache/durus/bin/python" "$here/workload.py"
