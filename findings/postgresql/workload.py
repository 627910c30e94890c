"""PostgreSQL with its defaults, one row a transaction: setup, run and check.

usage: ROOT=DIRECTORY workload.py setup|run|check DIRECTORY
"""

import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(2)
START_SECONDS = 50


def program(name, *words):
    """Runs a program of PostgreSQL and returns what it prints."""
    root = os.environ["ROOT"]
    libraries = ":".join(glob.glob(os.path.join(root, "usr/lib/*-linux-gnu")))
    done = subprocess.run(
        [os.path.join(root, "usr/lib/postgresql/15/bin", name), *words],
        env=dict(os.environ, LD_LIBRARY_PATH=libraries),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name}: {done.stdout}")
    return done.stdout


class Server:
    """A server in a directory. A check needs no sync: what it writes is thrown away."""

    def __init__(self, directory, fsync):
        self.data = os.path.join(directory, "d")
        self.socket = tempfile.mkdtemp()
        log = os.path.join(self.socket, "log")
        options = f"-k {self.socket} -c listen_addresses= -c fsync={fsync}"
        try:
            seconds = str(START_SECONDS)
            program("pg_ctl", "start", "-D", self.data, "-w", "-t", seconds, "-l", log, "-o", options)
        except RuntimeError as error:
            with open(log) as lines:
                raise RuntimeError(" ".join(lines.read().splitlines()[-4:]) or error)

    def sql(self, words):
        """Runs a statement and returns its lines."""
        where = ["-X", "-q", "-A", "-t", "-h", self.socket, "-U", "a", "-d", "postgres"]
        return program("psql", *where, "-c", words).splitlines()

    def stop(self, mode):
        """Ends the server."""
        program("pg_ctl", "stop", "-D", self.data, "-w", "-m", mode)


def setup(directory):
    """Makes an empty table."""
    data = os.path.join(directory, "d")
    program("initdb", "-D", data, "-U", "a", "--auth=trust", "--locale=C", "--no-sync")
    server = Server(directory, "on")
    server.sql("CREATE TABLE rows (number int PRIMARY KEY, content text)")
    server.stop("fast")


def run(directory):
    """Commits one row at a time."""
    server = Server(directory, "on")
    for number in range(1, ROWS + 1):
        server.sql(f"INSERT INTO rows VALUES ({number}, '{rows.content(number)}')")
        rows.acknowledge(number)
    server.stop("fast")


def read(directory):
    """All rows."""
    server = Server(directory, "off")
    found = [line.split("|") for line in server.sql("SELECT number, content FROM rows")]
    server.stop("immediate")
    return [(int(number), content) for number, content in found]


rows.main(setup, run, read)
