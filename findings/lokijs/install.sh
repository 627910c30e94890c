#!/bin/sh
# Installs LokiJS, a database in memory that saves itself to a file.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
node_env lokijs@1.5.12
