#!/bin/sh
# Installs nothing: it takes the git of the machine.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need git "git"
need "${PYTHON:-python3}" "Python 3.11"
