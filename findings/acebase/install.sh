#!/bin/sh
# Installs AceBase, an embedded document database.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env acebase@1.29.13
