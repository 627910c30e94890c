"""UnQLite with one row a transaction: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

from unqlite import UnQLite

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(4)


def database(directory):
    """Opens the database, and makes it if it is not there."""
    return UnQLite(os.path.join(directory, "d.unqlite"))


def setup(directory):
    """Makes a database with one key, so that the file has its header."""
    with database(directory) as db:
        db["begin"] = "0"


def run(directory):
    """Commits one row at a time."""
    with database(directory) as db:
        for number in range(1, ROWS + 1):
            db.begin()
            db[f"{number:08d}"] = rows.content(number)
            db.commit()
            rows.acknowledge(number)


def read(directory):
    """All rows."""
    with database(directory) as db:
        pairs = [(text(key), text(value)) for key, value in db.items()]
    return [(int(key), value) for key, value in pairs if key != "begin"]


def text(value):
    """Text of what UnQLite returns."""
    return value.decode() if isinstance(value, bytes) else value


rows.main(setup, run, read)
