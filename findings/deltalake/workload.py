"""delta-rs with one row a commit: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

import pyarrow
from deltalake import DeltaTable, write_deltalake

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(3)
SCHEMA = pyarrow.schema([("number", pyarrow.int64()), ("content", pyarrow.string())])


def append(directory, numbers):
    """Commits rows in one transaction."""
    data = {"number": numbers, "content": [rows.content(number) for number in numbers]}
    table = pyarrow.table(data, schema=SCHEMA)
    write_deltalake(os.path.join(directory, "t"), table, mode="append")


def setup(directory):
    """Makes an empty table."""
    append(directory, [])


def run(directory):
    """Commits one row at a time."""
    for number in range(1, ROWS + 1):
        append(directory, [number])
        rows.acknowledge(number)


def read(directory):
    """All rows."""
    table = DeltaTable(os.path.join(directory, "t")).to_pyarrow_table()
    return [(row["number"], row["content"]) for row in table.to_pylist()]


rows.main(setup, run, read)
