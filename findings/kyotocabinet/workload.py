"""The hash database of Kyoto Cabinet, one row a hard transaction: setup, run and check.

usage: ROOT=DIRECTORY workload.py setup|run|check DIRECTORY
"""

import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import native
import rows

ROWS = rows.count(5)
# KCOWRITER and KCOCREATE.
MODE = 1 << 1 | 1 << 2

kc = native.library("libkyotocabinet.so.16")
kc.kcdbnew.restype = ctypes.c_void_p
kc.kcdbget.restype = ctypes.c_void_p
kc.kcdbcount.restype = ctypes.c_int64
kc.kcdbemsg.restype = ctypes.c_char_p
SIZE = ctypes.c_size_t


def database(directory):
    """Opens the database, and makes it if it is not there."""
    db = ctypes.c_void_p(kc.kcdbnew())
    path = os.path.join(directory, "d.kch").encode()
    native.expect(kc.kcdbopen(db, path, MODE), f"kcdbopen: {kc.kcdbemsg(db).decode()}: open")
    return db


def setup(directory):
    """Makes an empty database."""
    native.expect(kc.kcdbclose(database(directory)), "kcdbclose")


def run(directory):
    """Commits one row at a time; a hard transaction synchronizes with the device."""
    db = database(directory)
    for number in range(1, ROWS + 1):
        native.expect(kc.kcdbbegintran(db, 1), "kcdbbegintran")
        key, value = b"%08d" % number, rows.content(number).encode()
        put = kc.kcdbset(db, key, SIZE(len(key)), value, SIZE(len(value)))
        native.expect(put, "kcdbset")
        native.expect(kc.kcdbendtran(db, 1), "kcdbendtran")
        rows.acknowledge(number)
    native.expect(kc.kcdbclose(db), "kcdbclose")


def value(db, number):
    """The content of a row, or None."""
    size = SIZE()
    there = kc.kcdbget(db, b"%08d" % number, SIZE(8), ctypes.byref(size))
    return ctypes.string_at(there, size.value).decode() if there else None


def read(directory):
    """All rows."""
    db = database(directory)
    found = [(number, value(db, number)) for number in range(1, 100)]
    found = [(number, content) for number, content in found if content is not None]
    count = kc.kcdbcount(db)
    native.expect(len(found) == count, f"to find the {count} records that the header counts")
    return found


rows.main(setup, run, read)
