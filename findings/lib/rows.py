"""Rows with content that follows from their number, for workloads and checks in Python.

A workload commits the rows 1, 2, 3, ... and acknowledges each when its commit has returned. A check
reads all rows of the state and hands them to `judge`. The same scheme is in `rust/src/rows.rs`,
`go/rows.go` and `lib/rows.js`.
"""

import hashlib
import os
import sys

# Exit codes of a check, both bad to `seekless crash-test`.
LOST = 1
DAMAGED = 3


def count(usual):
    """How many rows a workload commits: ROWS of the environment, else the usual number."""
    return int(os.environ.get("ROWS") or usual)


def content(number):
    """The 512 characters of row `number`."""
    parts = (hashlib.sha256(b"row %d part %d" % (number, part)) for part in range(8))
    return "".join(part.hexdigest() for part in parts)


def acknowledge(number):
    """Records that row `number` is committed."""
    with open(os.environ["SEEKLESS_ACKS"], "a") as marks:
        marks.write(f"{number}\n")


def acknowledged():
    """The last row that the state must hold, 0 if none."""
    return int(os.environ.get("SEEKLESS_ACKED") or 0)


def fail(code, message):
    """Ends the check at once, without destructors, which may block on damaged files."""
    sys.stdout.flush()
    print(message, flush=True)
    os._exit(code)


def judge(rows):
    """Ends the check with the verdict about `rows`, pairs of a number and its content."""
    found = dict(rows)
    count = len(found)
    for number in range(1, count + 1):
        if number not in found:
            fail(DAMAGED, f"damaged: row {number} is missing, but a later row is there")
        if found[number] != content(number):
            fail(DAMAGED, f"damaged: row {number} has other content")
    if count < acknowledged():
        fail(LOST, f"lost: row {acknowledged()} is acknowledged, row {count} is the last one there")
    fail(0, f"good: {count} rows")


def check(read):
    """Judges the rows that `read()` returns. An exception means a database that does not open."""
    try:
        rows = list(read())
    # Some bindings turn a panic into an exception outside of `Exception`.
    except BaseException as error:
        text = " ".join(str(error).split())
        fail(DAMAGED, f"damaged: {type(error).__name__}: {text}"[:300])
    judge(rows)


def main(setup, run, read):
    """Does what the last two words of the command line say: an action, and a directory."""
    action, directory = sys.argv[-2:]
    if action == "check":
        check(lambda: read(directory))
    {"setup": setup, "run": run}[action](directory)
