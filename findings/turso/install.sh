#!/bin/sh
# Installs Turso, the rewrite of SQLite in Rust: the pyturso package contains the library. The
# argument is the version.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
version="${1:-0.8.3}"
python_env "turso-$version" "pyturso==$version"
