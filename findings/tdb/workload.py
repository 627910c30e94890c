"""tdb with one row a transaction: setup, run and check.

usage: ROOT=DIRECTORY workload.py setup|run|check DIRECTORY
"""

import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import native
import rows

ROWS = rows.count(4)
DEFAULT = 0

tdb = native.library("libtdb.so.1")
tdb.tdb_open.restype = ctypes.c_void_p
tdb.tdb_store.argtypes = [ctypes.c_void_p, native.Datum, native.Datum, ctypes.c_int]
tdb.tdb_fetch.argtypes = [ctypes.c_void_p, native.Datum]
tdb.tdb_fetch.restype = native.Datum


def database(directory):
    """Opens the database, and makes it if it is not there."""
    path = os.path.join(directory, "d.tdb").encode()
    db = tdb.tdb_open(path, 0, DEFAULT, os.O_RDWR | os.O_CREAT, 0o600)
    native.expect(db, "tdb_open")
    return ctypes.c_void_p(db)


def setup(directory):
    """Makes an empty database."""
    tdb.tdb_close(database(directory))


def run(directory):
    """Commits one row at a time."""
    db = database(directory)
    for number in range(1, ROWS + 1):
        native.expect(tdb.tdb_transaction_start(db) == 0, "tdb_transaction_start")
        key, value = b"%08d" % number, rows.content(number).encode()
        stored = tdb.tdb_store(db, native.Datum.of(key), native.Datum.of(value), 0)
        native.expect(stored == 0, "tdb_store")
        native.expect(tdb.tdb_transaction_commit(db) == 0, "tdb_transaction_commit")
        rows.acknowledge(number)
    tdb.tdb_close(db)


def read(directory):
    """All rows. `tdb_check` is left out: it rejects the space that a stopped commit has added."""
    db = database(directory)
    found = []
    for number in range(1, 100):
        value = tdb.tdb_fetch(db, native.Datum.of(b"%08d" % number)).bytes()
        if value is not None:
            found.append((number, value.decode()))
    return found


rows.main(setup, run, read)
