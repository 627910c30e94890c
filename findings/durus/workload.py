"""Durus with a file storage, one row a transaction: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

from durus.connection import Connection
from durus.file_storage import FileStorage
from durus.persistent_dict import PersistentDict

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(5)
PACK_AFTER = 3


def connection(directory):
    """A connection to the database."""
    return Connection(FileStorage(os.path.join(directory, "d.durus")))


def setup(directory):
    """Makes an empty dictionary."""
    target = connection(directory)
    target.get_root()["rows"] = PersistentDict()
    target.commit()
    target.get_storage().close()


def run(directory):
    """Commits one row at a time, and packs the file once."""
    target = connection(directory)
    for number in range(1, ROWS + 1):
        target.get_root()["rows"][number] = rows.content(number)
        target.commit()
        rows.acknowledge(number)
        if number == PACK_AFTER:
            target.pack()
    target.get_storage().close()


def read(directory):
    """All rows."""
    return list(connection(directory).get_root()["rows"].items())


rows.main(setup, run, read)
