#!/bin/sh
# Installs LadybugDB, an embedded graph database, the successor of Kuzu.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env ladybug ladybug==0.22.0
