"""TinyDB with one row an insert: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

from tinydb import TinyDB

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(4)


def database(directory):
    """Opens the database with its defaults."""
    return TinyDB(os.path.join(directory, "d.json"))


def setup(directory):
    """Makes an empty database."""
    database(directory).close()


def run(directory):
    """Inserts one row at a time."""
    with database(directory) as db:
        for number in range(1, ROWS + 1):
            db.insert({"number": number, "content": rows.content(number)})
            rows.acknowledge(number)


def read(directory):
    """All rows."""
    with database(directory) as db:
        return [(row["number"], row["content"]) for row in db.all()]


rows.main(setup, run, read)
