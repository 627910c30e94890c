#!/bin/sh
# Installs the maintained fork of NeDB, an embedded document database.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env @seald-io/nedb@4.1.2
