#!/bin/sh
# Installs DuckDB.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env duckdb duckdb==2.0.1
