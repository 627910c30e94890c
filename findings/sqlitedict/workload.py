"""sqlitedict with a call of `commit` after each row: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

from sqlitedict import SqliteDict

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(4)


def database(directory):
    """Opens the dictionary with its defaults."""
    return SqliteDict(os.path.join(directory, "d.sqlite"))


def setup(directory):
    """Makes an empty dictionary."""
    database(directory).close()


def run(directory):
    """Commits one row at a time; `commit` waits until SQLite has returned."""
    with database(directory) as db:
        for number in range(1, ROWS + 1):
            db[number] = rows.content(number)
            db.commit()
            rows.acknowledge(number)


def read(directory):
    """All rows."""
    with database(directory) as db:
        return [(int(number), content) for number, content in db.items()]


rows.main(setup, run, read)
