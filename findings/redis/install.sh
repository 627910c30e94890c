#!/bin/sh
# Unpacks Redis.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need "${PYTHON:-python3}" "Python 3.11"
debian_env redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 libjemalloc2=5.3.0-1 liblzf1=3.6-3
