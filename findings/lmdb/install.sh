#!/bin/sh
# Installs LMDB: the lmdb package contains the library.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env lmdb lmdb==3.0.0
