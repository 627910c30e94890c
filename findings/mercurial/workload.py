"""Mercurial with one file a commit: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(2)


def hg(directory, *words):
    """Runs a command of Mercurial and returns what it prints."""
    program = os.path.join(os.path.dirname(sys.executable), "hg")
    where = ["--cwd", os.path.join(directory, "r"), "--config", "ui.username=A"]
    environment = dict(os.environ, HGPLAIN="1", HGRCPATH="")
    command = [program, *where, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        said = (done.stderr or done.stdout or "it says nothing").splitlines()
        raise RuntimeError(f"hg {words[0]}: {said[0]}")
    return done.stdout


def setup(directory):
    """Makes a repository with one commit."""
    os.mkdir(os.path.join(directory, "r"))
    hg(directory, "init")
    add(directory, "begin", "")


def add(directory, name, text):
    """Commits a file."""
    with open(os.path.join(directory, "r", name), "w") as file:
        file.write(text)
    hg(directory, "commit", "--addremove", "--quiet", "--message", name)


def run(directory):
    """Commits one file at a time."""
    for number in range(1, ROWS + 1):
        add(directory, f"{number:08d}", rows.content(number))
        rows.acknowledge(number)


def read(directory):
    """All committed files, after the check of Mercurial. It first completes what was stopped."""
    if os.path.exists(os.path.join(directory, "r/.hg/store/journal")):
        hg(directory, "recover")
    hg(directory, "verify", "--quiet")
    names = hg(directory, "files", "--rev", "tip").split()
    names.remove("begin")
    return [(int(name), hg(directory, "cat", "--rev", "tip", name)) for name in names]


rows.main(setup, run, read)
