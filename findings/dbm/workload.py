"""dbm.dumb of Python with a call of `sync` after each row: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import dbm.dumb
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(4)


def database(directory):
    """Opens the database, and makes it if it is not there."""
    return dbm.dumb.open(os.path.join(directory, "d"), "c")


def setup(directory):
    """Makes an empty database."""
    database(directory).close()


def run(directory):
    """Stores one row at a time."""
    with database(directory) as db:
        for number in range(1, ROWS + 1):
            db[b"%08d" % number] = rows.content(number).encode()
            db.sync()
            rows.acknowledge(number)


def read(directory):
    """All rows."""
    with database(directory) as db:
        return [(int(key), db[key].decode()) for key in db.keys()]


rows.main(setup, run, read)
