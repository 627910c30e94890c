#!/bin/sh
# Installs ZODB.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env zodb zodb==6.4
