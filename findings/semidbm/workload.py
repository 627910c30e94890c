"""semidbm with a call of `sync` after each row: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

import semidbm

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(6)
COMPACT_AFTER = 3


def database(directory):
    """Opens the database, and makes it if it is not there."""
    return semidbm.open(os.path.join(directory, "d"), "c", verify_checksums=True)


def setup(directory):
    """Makes an empty database."""
    database(directory).close()


def run(directory):
    """Stores one row at a time, and compacts the file once."""
    db = database(directory)
    for number in range(1, ROWS + 1):
        db[b"%08d" % number] = rows.content(number).encode()
        db.sync()
        rows.acknowledge(number)
        if number == COMPACT_AFTER:
            db.compact()
    db.close()


def read(directory):
    """All rows."""
    db = database(directory)
    return [(int(key), db[key].decode()) for key in db.keys()]


rows.main(setup, run, read)
