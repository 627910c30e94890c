#!/bin/sh
# Installs pickleDB, a key-value store in a JSON file.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env pickledb pickledb==1.6
