"""The hash database of Tokyo Cabinet with HDBOTSYNC, one row a transaction: setup, run and check.

usage: ROOT=DIRECTORY workload.py setup|run|check DIRECTORY
"""

import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import native
import rows

ROWS = rows.count(5)
# HDBOWRITER, HDBOCREAT and HDBOTSYNC.
MODE = 1 << 1 | 1 << 2 | 1 << 6

tc = native.library("libtokyocabinet.so.9")
tc.tchdbnew.restype = ctypes.c_void_p
tc.tchdbget2.restype = ctypes.c_char_p
tc.tchdbrnum.restype = ctypes.c_uint64


def database(directory):
    """Opens the database, and makes it if it is not there."""
    db = ctypes.c_void_p(tc.tchdbnew())
    path = os.path.join(directory, "d.tch").encode()
    native.expect(tc.tchdbopen(db, path, MODE), f"tchdbopen: error {tc.tchdbecode(db)}: open")
    return db


def setup(directory):
    """Makes an empty database."""
    db = database(directory)
    native.expect(tc.tchdbclose(db), "tchdbclose")


def run(directory):
    """Commits one row at a time."""
    db = database(directory)
    for number in range(1, ROWS + 1):
        native.expect(tc.tchdbtranbegin(db), "tchdbtranbegin")
        put = tc.tchdbput2(db, b"%08d" % number, rows.content(number).encode())
        native.expect(put, "tchdbput2")
        native.expect(tc.tchdbtrancommit(db), "tchdbtrancommit")
        rows.acknowledge(number)
    native.expect(tc.tchdbclose(db), "tchdbclose")


def read(directory):
    """All rows."""
    db = database(directory)
    count = tc.tchdbrnum(db)
    values = [(number, tc.tchdbget2(db, b"%08d" % number)) for number in range(1, 100)]
    found = [(number, value.decode()) for number, value in values if value is not None]
    native.expect(len(found) == count, f"to find the {count} records that the header counts")
    return found


rows.main(setup, run, read)
