#!/bin/sh
# Crash-tests okaywal; the workload is in surrealkv/src/main.rs.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
sh "$findings/surrealkv/install.sh"
crash_test --fs ext4 --size 64M -- "$cache/rust-logs/debug/seekless-findings-logs" okaywal
