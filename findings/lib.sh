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

# True if an environment was made from these words. `made ENVIRONMENT WORD...` notes them.
is_made() { [ "$(cat "$cache/$1/pinned" 2>/dev/null)" = "$*" ]; }
made() { echo "$*" >"$cache/$1/pinned"; }

# Ends with a message: an installation failed.
cannot() { echo "$name: cannot install $*" >&2; exit 77; }

# Makes a virtual environment with pinned packages, once. Prints nothing.
# python_env ENVIRONMENT PACKAGE==VERSION...
python_env() {
    is_made "$@" && return
    need "${PYTHON:-python3}" "Python 3.11"
    env="$cache/$1"
    binary="--only-binary :all:"
    case ${SOURCES:-} in yes) binary="" ;; esac
    (shift && "${PYTHON:-python3}" -m venv --clear "$env" &&
        "$env/bin/pip" install --quiet --disable-pip-version-check $binary "$@") || cannot "$@"
    made "$@"
}

# Unpacks Debian packages, once, and sets `root` to the directory: no right of root is needed.
# debian_env PACKAGE=VERSION...
debian_env() {
    root="$cache/$name"
    need apt-get "apt" && need dpkg-deb "dpkg"
    is_made "$name" "$@" && return
    rm -rf "$root" && mkdir -p "$root"
    (cd "$root" && apt-get download --quiet "$@" >/dev/null &&
        for package in *.deb; do dpkg-deb --extract "$package" . || exit 1; done) || cannot "$@"
    rm -f "$root"/*.deb
    made "$name" "$@"
}

# A word that changes with the sources of a directory.
state_of() {
    (cd "$findings/$1" && find . -name '*.rs' -o -name 'Cargo.*' -o -name '*.go' -o -name '*.mod' \
        -o -name '*.sum' -o -name '*.java' -o -name pom.xml | sort | xargs cksum | cksum | tr ' ' -)
}

# Builds the Rust programs of a directory, once, and sets `rust` to the binary.
# rust_build [DIRECTORY BINARY]
rust_build() {
    of="${1:-rust}"
    rust="$cache/$of/debug/${2:-seekless-findings}"
    is_made "$of" "$(state_of "$of")" && return
    need cargo "Rust"
    CARGO_TARGET_DIR="$cache/$of" cargo build --quiet --locked \
        --manifest-path "$findings/$of/Cargo.toml" || cannot "the Rust programs"
    made "$of" "$(state_of "$of")"
}

# Builds the Go programs of a directory, once, and sets `go` to their binary.
# go_build [MODULE-FILE [DIRECTORY]]
go_build() {
    modules="${1:-go.mod}"
    of="${2:-go}"
    go="$cache/$of-${modules%.mod}/findings"
    is_made "$of-${modules%.mod}" "$(state_of "$of")" && return
    need go "Go 1.25"
    mkdir -p "${go%/*}"
    (cd "$findings/$of" && command go build -modfile="$modules" -o "$go" .) ||
        cannot "the Go programs"
    made "$of-${modules%.mod}" "$(state_of "$of")"
}

# Installs pinned npm packages, once, and sets `modules` to their directory.
# node_env PACKAGE@VERSION...
node_env() {
    modules="$cache/$name/node_modules"
    is_made "$name" "$@" && return
    need npm "Node.js 20"
    mkdir -p "$cache/$name"
    npm install --silent --no-audit --no-fund --prefix "$cache/$name" "$@" || cannot "$@"
    made "$name" "$@"
}

# Fetches pinned Java libraries with what they need, once, compiles java/*.java and sets `classes`.
java_env() {
    classes="$cache/java/classes:$cache/java/jars/*"
    is_made java "$(state_of java)" && return
    need mvn "Maven" && need javac "JDK 17"
    mkdir -p "$cache/java"
    mvn --quiet --batch-mode --file "$findings/java/pom.xml" \
        -Dmaven.repo.local="$cache/java/repository" dependency:copy-dependencies \
        -DoutputDirectory="$cache/java/jars" >&2 || cannot "the Java libraries"
    javac -nowarn -d "$cache/java/classes" -cp "$cache/java/jars/*" "$findings"/java/*.java ||
        cannot "the Java programs"
    made java "$(state_of java)"
}

# Runs `seekless crash-test` on a program that knows `setup`, `run` and `check`, each followed by a
# directory. Options come before `--`; more options come from SEEKLESS_OPTIONS. The bounds by models
# are small, so that most tests take a minute; a script may set others in `bounds`. FINDINGS_FS names
# a file system of the kernel to test on, which needs root; FINDINGS_SIZE is the size of its disk, and
# FINDINGS_MODELS names the models in place of a file system.
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
    on="--model ${FINDINGS_MODELS:-ext4,xfs,posix} ${bounds:---exhaustive 3 --samples 8}"
    [ -z "${FINDINGS_FS:-}" ] || on="--fs $FINDINGS_FS --size ${FINDINGS_SIZE:-320M}"
    eval "exec $(quote "$SEEKLESS") crash-test $on$options ${SEEKLESS_OPTIONS:-} \
        --setup \"\$program setup {dir}\" --run \"\$program run {dir}\" \
        --check \"\$judge \$program check {dir}\""
}

# Judges logs, keeps their figures and writes the tables of the page: see results.py.
results() { "${PYTHON:-python3}" "$findings/results.py" "$@"; }
