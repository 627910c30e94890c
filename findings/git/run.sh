#!/bin/sh
# Crash-tests git. The argument is the value of core.fsync, such as all; default leaves it unset.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
git --version
crash_test -- "$(command -v "${PYTHON:-python3}")" "$here/workload.py" "${1:-default}"
