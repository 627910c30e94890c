#!/bin/sh
# Installs LevelDB twice: plyvel 1.5.1 contains LevelDB 1.22, plyvel-ci 1.5.1 contains 1.23.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env leveldb-1.22 plyvel==1.5.1
python_env leveldb-1.23 plyvel-ci==1.5.1
