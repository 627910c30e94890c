#!/bin/sh
# Installs sqlitedict, a dictionary in an SQLite database.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
SOURCES=yes python_env sqlitedict sqlitedict==2.1.0
