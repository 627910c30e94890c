#!/bin/sh
# Builds the workload of okaywal with those of surrealkv.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build surrealkv seekless-findings-logs
