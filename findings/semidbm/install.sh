#!/bin/sh
# Installs semidbm, a key-value store.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env semidbm semidbm==0.5.1
