"""RocksDB, opened several times: setup, run and check.

Each open writes a new MANIFEST, flushes the memtable to a table file and lets CURRENT point on.

usage: workload.py sync|nosync setup|run|check DIRECTORY
"""

import os
import sys

from rocksdict import Options, Rdict, WriteOptions

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

OPENS = 2
ROWS_PER_OPEN = rows.count(3)


def database(directory):
    """Opens the database."""
    options = Options(raw_mode=True)
    options.set_paranoid_checks(True)
    options.set_keep_log_file_num(1)
    db = Rdict(os.path.join(directory, "db"), options)
    how = WriteOptions()
    how.sync = sys.argv[1] == "sync"
    db.set_write_options(how)
    return db


def setup(directory):
    """Makes an empty database."""
    database(directory).close()


def run(directory):
    """Writes rows and opens the database again after a few."""
    number = 0
    for _ in range(OPENS):
        db = database(directory)
        for _ in range(ROWS_PER_OPEN):
            number += 1
            db[b"%08d" % number] = rows.content(number).encode()
            rows.acknowledge(number)
        db.close()


def read(directory):
    """All rows."""
    return [(int(key), value.decode()) for key, value in database(directory).items()]


rows.main(setup, run, read)
