#!/bin/sh
# Crash-tests DBM::Deep with one row a transaction.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test -- perl -I "$findings/lib" -I "$cache/dbm-deep/usr/share/perl5" "$here/workload.pl"
