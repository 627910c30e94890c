#!/bin/sh
# Installs the Python package of delta-rs, tables of Delta Lake.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env deltalake deltalake==1.6.6 pyarrow==22.0.0
