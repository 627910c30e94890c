#!/bin/sh
# Installs UnQLite, an embedded key-value and document store.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env unqlite unqlite==1.2.0
