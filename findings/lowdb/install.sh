#!/bin/sh
# Installs lowdb, a database in a JSON file.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env lowdb@7.0.1
