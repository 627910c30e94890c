"""pickleDB with a call of `save` after each row: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

from pickledb import PickleDB

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(4)


def database(directory):
    """Opens the database."""
    target = PickleDB(os.path.join(directory, "d.json"))
    target.load()
    return target


def setup(directory):
    """Makes an empty database."""
    database(directory).save()


def run(directory):
    """Saves one row at a time."""
    db = database(directory)
    for number in range(1, ROWS + 1):
        db.set(str(number), rows.content(number))
        if not db.save():
            raise RuntimeError("save returns False")
        rows.acknowledge(number)


def read(directory):
    """All rows."""
    db = database(directory)
    return [(int(key), db.get(key)) for key in db.all()]


rows.main(setup, run, read)
