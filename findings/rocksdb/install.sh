#!/bin/sh
# Installs RocksDB: the rocksdict package contains the library.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env rocksdb rocksdict==0.3.29
