#!/usr/bin/env bash
# The story of docs/manual/record-and-replay.md: a toy database that forgets one flush is recorded,
# and the smallest crash state that breaks it is found; with the flush it passes.
# SEEKLESS and TOYDB may name the two programs; they are built otherwise.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ -z "${SEEKLESS:-}" || -z "${TOYDB:-}" ]]; then
    cargo build --quiet --release --package seekless --bins --examples
    SEEKLESS="$PWD/target/release/seekless"
    TOYDB="$PWD/target/release/examples/toydb"
fi
work="$(mktemp -d)"
running=()
end() {
    for process in "${running[@]}"; do kill "$process" 2>/dev/null || true; done
    rm -rf -- "$work"
}
trap end EXIT

# Waits for a socket to appear.
appear() {
    for _ in $(seq 200); do
        [[ -S "$1" ]] && return
        sleep 0.05
    done
    echo "$1 does not appear" >&2
    exit 1
}

# Records ten commits of the database; the argument is how it is to behave.
record() {
    "$SEEKLESS" serve --memory 1M --layout inplace --socket "$work/disk.sock" >/dev/null 2>&1 &
    local server=$!
    running+=("$server")
    appear "$work/disk.sock"
    "$SEEKLESS" record --upstream "nbd+unix:///?socket=$work/disk.sock" \
        --socket "$work/tape.sock" --output "$work/run.tape" --force >/dev/null 2>&1 &
    local recorder=$!
    running+=("$recorder")
    appear "$work/tape.sock"
    "$TOYDB" write "$work/tape.sock" 10 "$@"
    kill -TERM "$recorder"
    wait "$recorder"
    kill -TERM "$server"
    wait "$server"
}

echo "== the database that forgets one flush"
record --forget
cd "$work"
code=0
"$SEEKLESS" replay-crashes run.tape --check "$TOYDB check {device}" || code=$?
echo "exit code $code"
cd - >/dev/null
echo
echo "== the same database with the flush"
record
cd "$work"
code=0
"$SEEKLESS" replay-crashes run.tape --check "$TOYDB check {device}" || code=$?
echo "exit code $code"
