#!/bin/sh
# Installs PGlite, PostgreSQL in WebAssembly.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env @electric-sql/pglite@0.5.16
