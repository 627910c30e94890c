#!/bin/sh
# Crash-tests Turso with its defaults. With a version as the argument: its first commits.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh" "$@"
case $# in
0) script=workload.py ;;
*) script=first_commits.py ;;
esac
crash_test -- "$cache/turso-${1:-0.8.3}/bin/python" "$here/$script"
