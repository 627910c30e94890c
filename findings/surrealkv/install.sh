#!/bin/sh
# Builds the workloads of surrealkv and okaywal; Cargo.toml pins the versions.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
need cargo "Rust"
CARGO_TARGET_DIR="$cache/rust-logs" cargo build --quiet --locked \
    --manifest-path "$findings/surrealkv/Cargo.toml"
