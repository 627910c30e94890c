#!/bin/sh
# Installs pylance, the Python package of the Lance table format.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env lance pylance==14.0.2 pyarrow==22.0.0
