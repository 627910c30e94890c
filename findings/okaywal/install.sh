#!/bin/sh
# Builds the workload of okaywal with those of surrealkv.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need cargo "Rust"
CARGO_TARGET_DIR="$cache/rust-logs" cargo build --quiet --locked \
    --manifest-path "$findings/surrealkv/Cargo.toml"
