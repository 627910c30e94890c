"""DuckDB with one row a commit: setup, run and check.

With `checkpoint` a CHECKPOINT follows every third commit, with `wal` none, not even at the close.

usage: workload.py checkpoint|wal setup|run|check DIRECTORY
"""

import os
import sys

import duckdb

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(6)
ROWS_PER_CHECKPOINT = 3


def database(directory):
    """Opens the database."""
    return duckdb.connect(os.path.join(directory, "d.duckdb"), config={"threads": 1})


def setup(directory):
    """Makes an empty table."""
    connection = database(directory)
    connection.execute("CREATE TABLE rows (number INTEGER, content VARCHAR)")
    connection.close()


def run(directory):
    """Commits one row at a time."""
    connection = database(directory)
    if sys.argv[1] == "wal":
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    for number in range(1, ROWS + 1):
        connection.execute("INSERT INTO rows VALUES (?, ?)", (number, rows.content(number)))
        rows.acknowledge(number)
        if sys.argv[1] == "checkpoint" and number % ROWS_PER_CHECKPOINT == 0:
            connection.execute("CHECKPOINT")
    connection.close()


def read(directory):
    """All rows."""
    return database(directory).execute("SELECT number, content FROM rows").fetchall()


rows.main(setup, run, read)
