"""Mongita on disk, one document an insert: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

from mongita import MongitaClientDisk

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(4)


def collection(directory):
    """The collection, in a database of the client."""
    return MongitaClientDisk(os.path.join(directory, "m")).d.rows


def setup(directory):
    """Makes the directory; the first insert makes the collection."""
    collection(directory)


def run(directory):
    """Inserts one document at a time."""
    target = collection(directory)
    for number in range(1, ROWS + 1):
        target.insert_one({"number": number, "content": rows.content(number)})
        rows.acknowledge(number)


def read(directory):
    """All documents."""
    return [(row["number"], row["content"]) for row in collection(directory).find({})]


rows.main(setup, run, read)
