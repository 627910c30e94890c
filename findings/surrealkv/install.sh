#!/bin/sh
# Builds the workloads of surrealkv and okaywal; Cargo.toml pins the versions.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build surrealkv seekless-findings-logs
