"""LMDB with one row a transaction: setup, run and check.

usage: workload.py sync|nosync setup|run|check DIRECTORY
"""

import os
import sys

import lmdb

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(8)
MAP_BYTES = 8 << 20


def database(directory):
    """Opens the database; `nosync` never flushes."""
    path = os.path.join(directory, "db")
    return lmdb.open(path, map_size=MAP_BYTES, sync=sys.argv[1] == "sync")


def setup(directory):
    """Makes an empty database."""
    database(directory).close()


def run(directory):
    """Commits one row at a time."""
    with database(directory) as environment:
        for number in range(1, ROWS + 1):
            with environment.begin(write=True) as transaction:
                transaction.put(b"%08d" % number, rows.content(number).encode())
            rows.acknowledge(number)


def read(directory):
    """All rows, and all pages of the tree on the way."""
    with database(directory).begin() as transaction:
        pairs = [(int(key), value.decode()) for key, value in transaction.cursor()]
        if transaction.stat()["entries"] != len(pairs):
            rows.fail(rows.DAMAGED, "damaged: the number of entries is not the one in the header")
    return pairs


rows.main(setup, run, read)
