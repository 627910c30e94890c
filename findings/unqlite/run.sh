#!/bin/sh
# Crash-tests UnQLite with one row a transaction.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
# The usual bounds leave out the few states of XFS that lose rows.
bounds="--exhaustive 6 --samples 64"
crash_test -- "$cache/unqlite/bin/python" "$here/workload.py"
