"""diskcache with one row a call of `set`: setup, run and check.

Every third row is large, so that diskcache stores it in a file of its own.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

import diskcache

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(6)
LARGE_EVERY = 3
# diskcache stores a value of 32 KiB or more in a file.
REPEAT = 80


def value(number):
    """What the cache holds for a row."""
    return rows.content(number) * (REPEAT if number % LARGE_EVERY == 0 else 1)


def database(directory):
    """Opens the cache with its defaults."""
    return diskcache.Cache(os.path.join(directory, "cache"))


def setup(directory):
    """Makes an empty cache."""
    database(directory).close()


def run(directory):
    """Sets one row at a time."""
    with database(directory) as cache:
        for number in range(1, ROWS + 1):
            cache.set(number, value(number))
            rows.acknowledge(number)


def read(directory):
    """All rows; the content of a large row counts once, if all of it is right."""
    found = []
    with database(directory) as cache:
        for number in list(cache):
            there = cache.get(number)
            found.append((number, rows.content(number) if there == value(number) else there))
    return found


rows.main(setup, run, read)
