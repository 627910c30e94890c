#!/bin/sh
# Installs node-persist, a key-value store with a file a key.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env node-persist@4.0.4
