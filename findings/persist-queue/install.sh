#!/bin/sh
# Installs persist-queue, queues in files.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
python_env persist-queue persist-queue==1.1.0
