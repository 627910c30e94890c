#!/bin/sh
# Unpacks tdb, the database of Samba.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need "${PYTHON:-python3}" "Python 3.11"
debian_env libtdb1=1.4.8-2
