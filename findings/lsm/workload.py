"""The LSM engine of SQLite 4 with full safety, one row a transaction: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

import lsm

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(6)


def database(directory):
    """Opens the database with full safety."""
    path = os.path.join(directory, "d.lsm")
    return lsm.LSM(path, transaction_log=True, write_safety=lsm.SAFETY_FULL)


def setup(directory):
    """Makes a database with one key."""
    with database(directory) as db:
        db["begin"] = "0"


def run(directory):
    """Commits one row at a time."""
    with database(directory) as db:
        for number in range(1, ROWS + 1):
            with db.transaction():
                db[f"{number:08d}"] = rows.content(number)
            rows.acknowledge(number)


def read(directory):
    """All rows."""
    with database(directory) as db:
        pairs = [(key.decode(), value.decode()) for key, value in db[:]]
    return [(int(key), value) for key, value in pairs if key != "begin"]


rows.main(setup, run, read)
