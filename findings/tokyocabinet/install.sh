#!/bin/sh
# Unpacks Tokyo Cabinet, a key-value store.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need "${PYTHON:-python3}" "Python 3.11"
debian_env libtokyocabinet9=1.4.48-15
