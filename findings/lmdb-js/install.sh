#!/bin/sh
# Installs lmdb-js: the npm package contains LMDB as a binary.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env lmdb@3.5.6
