#!/bin/sh
# Unpacks DBM::Deep, a database of Perl.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need perl "Perl"
debian_env libdbm-deep-perl=2.0016-2
