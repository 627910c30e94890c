#!/bin/sh
# Crash-tests surrealkv with durable commits. The argument is the version.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$here/install.sh"
crash_test --fs ext4 --size 64M -- \
    "$cache/rust-logs/debug/seekless-findings-logs" "${1:-1.2.0}"
