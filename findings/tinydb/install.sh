#!/bin/sh
# Installs TinyDB, a database in a JSON file.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env tinydb tinydb==4.9.0
