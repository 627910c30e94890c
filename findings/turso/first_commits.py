"""Turso before its first checkpoint: the table and the rows are in the log only.

usage: first_commits.py setup|run|check DIRECTORY
"""

import os
import sys

import turso

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(3)


def path(directory):
    """The database."""
    return os.path.join(directory, "d.db")


def setup(directory):
    """Leaves the disk empty: what is committed first is the subject."""


def run(directory):
    """Makes a table and commits one row at a time."""
    connection = turso.connect(path(directory))
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, content TEXT)")
    connection.commit()
    for number in range(1, ROWS + 1):
        connection.execute("INSERT INTO rows VALUES (?, ?)", (number, rows.content(number)))
        connection.commit()
        rows.acknowledge(number)


def read(directory):
    """All rows, after the integrity check; none where the table is not there."""
    if not os.path.exists(path(directory)):
        return []
    cursor = turso.connect(path(directory)).cursor()
    result = cursor.execute("PRAGMA integrity_check").fetchall()
    if result != [("ok",)]:
        rows.fail(rows.DAMAGED, f"damaged: integrity_check: {result[0][0]}")
    tables = cursor.execute("SELECT name FROM sqlite_schema WHERE name = 'rows'").fetchall()
    return cursor.execute("SELECT number, content FROM rows").fetchall() if tables else []


rows.main(setup, run, read)
