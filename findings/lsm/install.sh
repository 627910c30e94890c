#!/bin/sh
# Installs lsm-db, the LSM engine of SQLite 4.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env lsm lsm-db==0.7.3
