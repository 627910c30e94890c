#!/bin/sh
# Installs classic-level: the npm package contains LevelDB as a binary.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env classic-level@3.0.0
