#!/bin/sh
# Installs node-json-db, a database in a JSON file.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env node-json-db@3.0.0
