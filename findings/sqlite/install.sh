#!/bin/sh
# Installs SQLite: the apsw package contains the library of the version in its own version number.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env sqlite apsw==3.54.1.0
