#!/bin/sh
# Unpacks Berkeley DB and its module for Perl.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need perl "Perl"
debian_env libberkeleydb-perl=0.64-2+b1 libdb5.3=5.3.28+dfsg2-1
