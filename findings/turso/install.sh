#!/bin/sh
# Installs Turso, the rewrite of SQLite in Rust: the pyturso package contains the library.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env turso pyturso==0.8.3
