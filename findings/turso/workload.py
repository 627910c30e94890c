"""Turso with one row a commit, opened several times: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

import turso

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

OPENS = 2
ROWS_PER_OPEN = rows.count(3)


def database(directory):
    """Opens the database with its defaults."""
    return turso.connect(os.path.join(directory, "d.db"))


def setup(directory):
    """Makes an empty table."""
    connection = database(directory)
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, content TEXT)")
    connection.commit()
    connection.close()


def run(directory):
    """Commits one row at a time, and opens the database again after a few."""
    number = 0
    for _ in range(OPENS):
        connection = database(directory)
        for _ in range(ROWS_PER_OPEN):
            number += 1
            connection.execute("INSERT INTO rows VALUES (?, ?)", (number, rows.content(number)))
            connection.commit()
            rows.acknowledge(number)
        connection.close()


def read(directory):
    """All rows, after the integrity check."""
    cursor = database(directory).cursor()
    result = cursor.execute("PRAGMA integrity_check").fetchall()
    if result != [("ok",)]:
        rows.fail(rows.DAMAGED, f"damaged: integrity_check: {result[0][0]}")
    return cursor.execute("SELECT number, content FROM rows").fetchall()


rows.main(setup, run, read)
