#!/bin/sh
# Builds the Rust workloads, sled among them; rust/Cargo.toml pins its version.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build
