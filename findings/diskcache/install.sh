#!/bin/sh
# Installs diskcache.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env diskcache diskcache==5.6.3
