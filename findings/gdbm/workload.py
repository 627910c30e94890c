"""GDBM with a call of `gdbm_sync` after each row: setup, run and check.

usage: ROOT=DIRECTORY workload.py setup|run|check DIRECTORY
"""

import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import native
import rows

ROWS = rows.count(12)
# GDBM_WRCREAT.
MODE = 2
# The least that GDBM takes: so a few rows split buckets.
BLOCK_BYTES = 512

gdbm = native.library("libgdbm.so.6")
gdbm.gdbm_open.restype = ctypes.c_void_p
gdbm.gdbm_store.argtypes = [ctypes.c_void_p, native.Datum, native.Datum, ctypes.c_int]
gdbm.gdbm_fetch.argtypes = [ctypes.c_void_p, native.Datum]
gdbm.gdbm_fetch.restype = native.Datum


def database(directory):
    """Opens the database, and makes it if it is not there."""
    path = os.path.join(directory, "d.gdbm").encode()
    db = gdbm.gdbm_open(path, BLOCK_BYTES, MODE, 0o600, None)
    native.expect(db, "gdbm_open")
    return ctypes.c_void_p(db)


def setup(directory):
    """Makes an empty database."""
    gdbm.gdbm_close(database(directory))


def run(directory):
    """Stores one row at a time."""
    db = database(directory)
    for number in range(1, ROWS + 1):
        key, value = b"%08d" % number, rows.content(number).encode()
        stored = gdbm.gdbm_store(db, native.Datum.of(key), native.Datum.of(value), 0)
        native.expect(stored == 0, "gdbm_store")
        native.expect(gdbm.gdbm_sync(db) == 0, "gdbm_sync")
        rows.acknowledge(number)
    gdbm.gdbm_close(db)


def read(directory):
    """All rows."""
    db = database(directory)
    found = []
    for number in range(1, 100):
        value = gdbm.gdbm_fetch(db, native.Datum.of(b"%08d" % number)).bytes()
        if value is not None:
            found.append((number, value.decode()))
    return found


rows.main(setup, run, read)
