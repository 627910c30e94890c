#!/bin/sh
# Crash-tests Berkeley DB with one row a transaction.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
for modules in "$cache"/bdb/usr/lib/*/perl5/*; do :; done
crash_test -- env LD_LIBRARY_PATH="${modules%/perl5/*}" \
    perl -I "$findings/lib" -I "$modules" "$here/workload.pl"
