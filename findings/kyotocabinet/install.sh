#!/bin/sh
# Unpacks Kyoto Cabinet, a key-value store.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need "${PYTHON:-python3}" "Python 3.11"
debian_env libkyotocabinet16v5=1.2.79-2+b1 liblzo2-2=2.10-2
