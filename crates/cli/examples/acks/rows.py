#!/usr/bin/env python3
"""Rows with checksums: append a row, sync, acknowledge it. The check wants every acknowledged row.

    rows.py run DIR COUNT    appends rows 1 to COUNT to DIR/rows
    rows.py check DIR        rows 1 to $SEEKLESS_ACKED must be there and whole
"""

import os
import socket
import stat
import sys
import zlib


def row(n):
    return b"%d %08x\n" % (n, zlib.crc32(b"row %d" % n))


def ack(value):
    """Returns once the value is recorded. For a file, one line does: open(path, "a").write(...)."""
    path = os.environ["SEEKLESS_ACKS"]
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        with open(path, "a") as acks:
            print(value, file=acks)
        return
    with socket.socket(socket.AF_UNIX) as acks:
        acks.connect(path)
        acks.sendall(b"%d\n" % value)
        if acks.makefile().readline() != "ok\n":
            sys.exit("the recorder refused %d" % value)


def run(directory, count):
    rows = os.open(os.path.join(directory, "rows"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    # The name of the file must be durable, too.
    os.fsync(os.open(directory, os.O_RDONLY))
    for n in range(1, count + 1):
        os.write(rows, row(n))
        os.fsync(rows)
        ack(n)


def check(directory):
    acked = int(os.environ.get("SEEKLESS_ACKED") or 0)
    path = os.path.join(directory, "rows")
    found = open(path, "rb").readlines() if os.path.exists(path) else []
    for n in range(1, acked + 1):
        if found[n - 1:n] != [row(n)]:
            sys.exit("row %d is lost or damaged" % n)


if sys.argv[1:2] == ["run"] and len(sys.argv) == 4:
    run(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
    check(sys.argv[2])
else:
    print("usage: rows.py run DIR COUNT | rows.py check DIR", file=sys.stderr)
    sys.exit(2)
