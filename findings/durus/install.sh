#!/bin/sh
# Installs Durus, an object database.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
SOURCES=yes python_env durus durus==4.3
