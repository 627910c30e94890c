"""Lance with one row a commit: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

import lance
import pyarrow

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(3)
SCHEMA = pyarrow.schema([("number", pyarrow.int64()), ("content", pyarrow.string())])


def write(directory, numbers, mode):
    """Commits rows in one transaction."""
    data = {"number": numbers, "content": [rows.content(number) for number in numbers]}
    table = pyarrow.table(data, schema=SCHEMA)
    lance.write_dataset(table, os.path.join(directory, "t.lance"), mode=mode)


def setup(directory):
    """Makes an empty table."""
    write(directory, [], "create")


def run(directory):
    """Commits one row at a time."""
    for number in range(1, ROWS + 1):
        write(directory, [number], "append")
        rows.acknowledge(number)


def read(directory):
    """All rows."""
    table = lance.dataset(os.path.join(directory, "t.lance")).to_table()
    return [(row["number"], row["content"]) for row in table.to_pylist()]


rows.main(setup, run, read)
