#!/bin/sh
# Unpacks GDBM.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need "${PYTHON:-python3}" "Python 3.11"
debian_env libgdbm6=1.23-3
