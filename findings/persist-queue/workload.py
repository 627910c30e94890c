"""The file queue of persist-queue with autosave: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

import persistqueue

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(4)


def queue(directory):
    """The queue, which saves each change as its documentation says."""
    return persistqueue.Queue(os.path.join(directory, "q"), tempdir=directory, autosave=True)


def setup(directory):
    """Makes an empty queue."""
    queue(directory)


def run(directory):
    """Puts one row at a time."""
    target = queue(directory)
    for number in range(1, ROWS + 1):
        target.put((number, rows.content(number)))
        rows.acknowledge(number)


def read(directory):
    """All rows in the queue."""
    source = queue(directory)
    return [source.get(block=False) for _ in range(source.qsize())]


rows.main(setup, run, read)
