#!/bin/sh
# Installs nothing: the module dbm.dumb is a part of Python.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need "${PYTHON:-python3}" "Python 3.11"
