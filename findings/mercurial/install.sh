#!/bin/sh
# Installs Mercurial.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env mercurial mercurial==7.2.4
