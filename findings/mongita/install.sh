#!/bin/sh
# Installs Mongita, an embedded document database.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
SOURCES=yes python_env mongita mongita==1.2.0
