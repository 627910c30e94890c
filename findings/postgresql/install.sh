#!/bin/sh
# Unpacks PostgreSQL.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need "${PYTHON:-python3}" "Python 3.11"
debian_env postgresql-15=15.20-0+deb12u1 postgresql-client-15=15.20-0+deb12u1 libpq5=15.20-0+deb12u1
