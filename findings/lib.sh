# Shell functions for the scripts of findings. A script sets `here` to its own directory, then reads
# this file. Everything that is installed goes below $cache, outside of the source tree.

set -eu
findings=$(cd "$here/.." && pwd)
name=$(basename "$here")
cache="${XDG_CACHE_HOME:-$HOME/.cache}/seekless-findings"
SEEKLESS="${SEEKLESS:-seekless}"

# Prints words, each quoted for a shell where that is necessary.
quote() {
    between=""
    for word in "$@"; do
        case $word in
        "" | *[!A-Za-z0-9_./:=,+@-]*) word="'$(printf '%s' "$word" | sed "s/'/'\\\\''/g")'" ;;
        esac
        printf '%s%s' "$between" "$word"
        between=" "
    done
}

# Ends with a message unless a program is there.
need() {
    command -v "$1" >/dev/null || { echo "$name: $1 is missing; install $2" >&2; exit 77; }
}

# Makes a virtual environment with pinned packages, once. Prints nothing.
# python_env ENVIRONMENT PACKAGE==VERSION...
python_env() {
    env="$cache/$1"
    shift
    need "${PYTHON:-python3}" "Python 3.11"
    if [ "$(cat "$env/pinned" 2>/dev/null)" != "$*" ]; then
        { "${PYTHON:-python3}" -m venv --clear "$env" &&
            "$env/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$@"; } ||
            { echo "$name: cannot install $*" >&2; exit 77; }
        echo "$*" >"$env/pinned"
    fi
}

# Builds the Rust programs, and sets `rust` to their binary.
rust_build() {
    need cargo "Rust"
    CARGO_TARGET_DIR="$cache/rust" cargo build --quiet --locked \
        --manifest-path "$findings/rust/Cargo.toml"
    rust="$cache/rust/debug/seekless-findings"
}

# Builds the Go programs with the versions of a module file, and sets `go` to their binary.
# go_build [MODULE-FILE]
go_build() {
    need go "Go 1.25"
    modules="${1:-go.mod}"
    go="$cache/go/${modules%.mod}"
    mkdir -p "$cache/go"
    (cd "$findings/go" && command go build -modfile="$modules" -o "$go" .)
}

# Installs pinned npm packages, once.
# node_env PACKAGE@VERSION...
node_env() {
    env="$cache/$name"
    need npm "Node.js 20"
    if [ "$(cat "$env/pinned" 2>/dev/null)" != "$*" ]; then
        mkdir -p "$env"
        npm install --silent --no-audit --no-fund --prefix "$env" "$@"
        echo "$*" >"$env/pinned"
    fi
}

# Runs `seekless crash-test` on a program that knows `setup`, `run` and `check`, each followed by a
# directory. Options come before `--`; more options come from SEEKLESS_OPTIONS.
# crash_test OPTION... -- PROGRAM ARGUMENT...
crash_test() {
    options=""
    while [ "$1" != "--" ]; do
        options="$options $(quote "$1")"
        shift
    done
    shift
    program=$(quote "$@")
    judge=$(quote sh "$findings/lib/judge.sh")
    eval "exec $(quote "$SEEKLESS") crash-test$options ${SEEKLESS_OPTIONS:-} \
        --setup \"\$program setup {dir}\" --run \"\$program run {dir}\" \
        --check \"\$judge \$program check {dir}\""
}
