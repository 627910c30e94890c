#!/bin/sh
# Installs node-sqlite3-wasm, SQLite in WebAssembly with access to files.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env node-sqlite3-wasm@0.8.60
