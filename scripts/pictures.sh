#!/usr/bin/env bash
# Makes the picture of a red report that README shows: rows that SQLite has acknowledged without a
# sync. Needs sqlite3, chromium, and what `seekless crash-test` needs. SEEKLESS names the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seekless="${SEEKLESS:-$PWD/target/release/seekless}"
out="$PWD/docs/pictures/red-report.png"
work="$(mktemp -d)"
trap 'rm -rf -- "$work"' EXIT
cd "$work"

cat >insert.sh <<'END'
for n in 1 2 3 4 5; do
    sqlite3 "$1/d.db" "PRAGMA synchronous=$2; INSERT INTO t VALUES ($n);"
    echo $n >> "$SEEKLESS_ACKS"
done
END
cat >verify.sh <<'END'
last=$(sqlite3 "$1/d.db" 'SELECT coalesce(max(n), 0) FROM t') || exit 1
[ "$last" -ge "${SEEKLESS_ACKED:-0}" ] || { echo "row $SEEKLESS_ACKED is lost"; exit 1; }
END
"$seekless" crash-test --dir off --setup "sqlite3 {dir}/d.db 'CREATE TABLE t(n)'" \
  --run 'sh insert.sh {dir} OFF' --check 'sh verify.sh {dir}' --html report.html >log 2>&1 &&
  { echo "pictures: no state is bad" >&2; exit 1; }
grep -q '^RED' log || { cat log >&2; exit 1; }
mkdir -p "$(dirname "$out")"
chromium --headless --no-sandbox --disable-gpu --disable-sync --disable-background-networking \
  --no-first-run --user-data-dir="$work/browser" --hide-scrollbars --window-size=1100,700 \
  --screenshot="$out" "file://$work/report.html" >/dev/null 2>&1
echo "pictures: $out"
