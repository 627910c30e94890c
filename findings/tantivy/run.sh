#!/bin/sh
# Crash-tests tantivy; the workload is in rust/src/engines/tantivy.rs.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
rust_build
crash_test -- "$rust" tantivy
