#!/bin/sh
# Installs Whoosh, a search index.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env whoosh whoosh==2.7.4
