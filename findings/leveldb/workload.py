"""LevelDB with synchronous writes, in several new databases: setup, run and check.

The creation of a database writes a MANIFEST and lets CURRENT point to it, and so does each later
open.

usage: workload.py VERSION setup|run|check DIRECTORY
"""

import os
import sys

import plyvel

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

DATABASES = 1
OPENS = 2
ROWS_PER_OPEN = rows.count(2)


def path(directory, index):
    """The directory of one database."""
    return os.path.join(directory, f"db{index}")


def database(directory, index):
    """Opens a database, and creates it if it is not there."""
    if plyvel.__leveldb_version__ != sys.argv[1]:
        sys.exit(f"this is LevelDB {plyvel.__leveldb_version__}, not {sys.argv[1]}")
    return plyvel.DB(path(directory, index), create_if_missing=True, paranoid_checks=True)


def setup(directory):
    """Makes an empty directory for each database."""
    for index in range(DATABASES):
        os.mkdir(path(directory, index))


def run(directory):
    """Creates the databases, and writes rows to each, every row synchronously."""
    number = 0
    for index in range(DATABASES):
        for _ in range(OPENS):
            db = database(directory, index)
            for _ in range(ROWS_PER_OPEN):
                number += 1
                db.put(b"%08d" % number, rows.content(number).encode(), sync=True)
                rows.acknowledge(number)
            db.close()


def read(directory):
    """All rows of all databases, with the checksums of blocks verified."""
    pairs = []
    for index in range(DATABASES):
        with database(directory, index) as db:
            pairs += db.iterator(verify_checksums=True)
    return [(int(key), value.decode()) for key, value in pairs]


rows.main(setup, run, read)
