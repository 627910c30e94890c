"""Redis with an append-only file and `appendfsync always`, one row a SET: setup, run and check.

usage: ROOT=DIRECTORY workload.py setup|run|check DIRECTORY
"""

import glob
import os
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(5)
REWRITE_AFTER = 3
START_SECONDS = 30


class Server:
    """A server in a directory, and a client of it."""

    def __init__(self, directory):
        root = os.environ["ROOT"]
        path = os.path.join(tempfile.mkdtemp(), "socket")
        data = os.path.join(directory, "d")
        os.makedirs(data, exist_ok=True)
        words = f"--port 0 --unixsocket {path} --dir {data} --save NOTHING --appendonly yes"
        words += " --appendfsync always --loglevel warning"
        words = [word.replace("NOTHING", "") for word in words.split()]
        libraries = ":".join(glob.glob(os.path.join(root, "usr/lib/*-linux-gnu")))
        self.process = subprocess.Popen(
            [os.path.join(root, "usr/bin/redis-server"), *words],
            env=dict(os.environ, LD_LIBRARY_PATH=libraries),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stream = self.connect(path)
        while self.answers_loading():
            time.sleep(0.01)

    def connect(self, path):
        """A stream to the server, once it listens."""
        for _ in range(START_SECONDS * 100):
            if self.process.poll() is not None:
                lines = self.process.stdout.read().splitlines()
                raise RuntimeError(f"does not start: {lines[-1] if lines else 'no message'}")
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(path)
                return connection.makefile("rwb")
            except OSError:
                time.sleep(0.01)
        raise RuntimeError("does not listen")

    def answers_loading(self):
        """True while the server reads its files."""
        try:
            self.call("PING")
            return False
        except RuntimeError as error:
            if "LOADING" in str(error):
                return True
            raise

    def call(self, *words):
        """Sends a command and returns the answer."""
        command = f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)
        self.stream.write(command.encode())
        self.stream.flush()
        return self.answer()

    def answer(self):
        """Reads one answer."""
        line = self.stream.readline().decode().rstrip()
        if not line or line[0] == "-":
            raise RuntimeError(line or "the server is gone")
        if line[0] == "*":
            return [self.answer() for _ in range(int(line[1:]))]
        if line[0] == "$":
            size = int(line[1:])
            return self.stream.read(size + 2)[:size].decode() if size >= 0 else None
        return line[1:]

    def stop(self):
        """Ends the server, which syncs its file."""
        self.stream.write(b"*1\r\n$8\r\nSHUTDOWN\r\n")
        self.stream.flush()
        self.process.wait()


def setup(directory):
    """Makes an empty append-only file."""
    Server(directory).stop()


def run(directory):
    """Sets one row at a time, and lets the server rewrite its file once."""
    server = Server(directory)
    for number in range(1, ROWS + 1):
        server.call("SET", str(number), rows.content(number))
        rows.acknowledge(number)
        if number == REWRITE_AFTER:
            server.call("BGREWRITEAOF")
            while "aof_rewrite_in_progress:0" not in server.call("INFO", "persistence"):
                time.sleep(0.05)
    server.stop()


def read(directory):
    """All rows."""
    server = Server(directory)
    found = [(int(key), server.call("GET", key)) for key in server.call("KEYS", "*")]
    server.process.kill()
    return found


rows.main(setup, run, read)
