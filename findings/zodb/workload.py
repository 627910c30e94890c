"""ZODB with FileStorage and one row a transaction, opened several times: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import logging
import os
import sys

import transaction
import ZODB
import ZODB.FileStorage

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

OPENS = 2
ROWS_PER_OPEN = rows.count(3)


def database(directory):
    """Opens the database."""
    logging.disable()
    return ZODB.DB(ZODB.FileStorage.FileStorage(os.path.join(directory, "d.fs")))


def setup(directory):
    """Makes an empty database."""
    database(directory).close()


def run(directory):
    """Commits one row at a time, and opens the database again after a few."""
    number = 0
    for _ in range(OPENS):
        db = database(directory)
        connection = db.open()
        for _ in range(ROWS_PER_OPEN):
            number += 1
            connection.root()[number] = rows.content(number)
            transaction.commit()
            rows.acknowledge(number)
        connection.close()
        db.close()


def read(directory):
    """All rows."""
    return list(database(directory).open().root().items())


rows.main(setup, run, read)
