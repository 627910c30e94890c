"""SQLite in one journal mode and with one value of PRAGMA synchronous: setup, run and check.

usage: workload.py MODE-SYNCHRONOUS setup|run|check DIRECTORY
"""

import os
import sys

import apsw

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(8)


def database(directory):
    """Opens the database and says how it is to write."""
    mode, synchronous = sys.argv[1].split("-")
    connection = apsw.Connection(os.path.join(directory, "d.db"))
    connection.execute(f"PRAGMA journal_mode={mode}").fetchall()
    connection.execute(f"PRAGMA synchronous={synchronous}")
    return connection


def setup(directory):
    """Makes an empty table."""
    connection = database(directory)
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, content TEXT)")
    connection.close()


def run(directory):
    """Commits one row at a time."""
    connection = database(directory)
    for number in range(1, ROWS + 1):
        connection.execute("INSERT INTO rows VALUES (?, ?)", (number, rows.content(number)))
        rows.acknowledge(number)
    connection.close()


def read(directory):
    """All rows, after the integrity check of SQLite."""
    connection = apsw.Connection(os.path.join(directory, "d.db"), apsw.SQLITE_OPEN_READWRITE)
    result = connection.execute("PRAGMA integrity_check").fetchall()
    if result != [("ok",)]:
        rows.fail(rows.DAMAGED, f"damaged: integrity_check: {result[0][0]}")
    return connection.execute("SELECT number, content FROM rows").fetchall()


rows.main(setup, run, read)
