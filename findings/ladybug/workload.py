"""LadybugDB with one row a commit, and a checkpoint after some: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

import ladybug

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(4)
CHECKPOINT_AFTER = 2
POOL_BYTES = 64 << 20


def connection(directory):
    """A connection to the database."""
    database = ladybug.Database(os.path.join(directory, "d.lbug"), buffer_pool_size=POOL_BYTES)
    return ladybug.Connection(database, num_threads=1)


def setup(directory):
    """Makes an empty table of nodes."""
    create = "CREATE NODE TABLE Row(number INT64 PRIMARY KEY, content STRING)"
    connection(directory).execute(create)


def run(directory):
    """Commits one node at a time."""
    target = connection(directory)
    for number in range(1, ROWS + 1):
        row = {"number": number, "content": rows.content(number)}
        target.execute("CREATE (:Row {number: $number, content: $content})", row)
        rows.acknowledge(number)
        if number == CHECKPOINT_AFTER:
            target.execute("CHECKPOINT")


def read(directory):
    """All nodes."""
    result = connection(directory).execute("MATCH (r:Row) RETURN r.number, r.content")
    found = []
    while result.has_next():
        found.append(tuple(result.get_next()))
    return found


rows.main(setup, run, read)
