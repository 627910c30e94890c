"""git with one file a commit and one value of core.fsync: setup, run and check.

Another program flushes a file of its own after each commit, before the next one. That makes ext4
commit its journal, in which the new names of git are, but not the data of git.

usage: workload.py default|COMPONENTS setup|run|check DIRECTORY
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(2)


def git(directory, *words):
    """Runs a command of git and returns what it prints."""
    settings = ["-c", "safe.directory=*", "-c", "gc.auto=0"]
    settings += ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    if sys.argv[1] != "default":
        settings += ["-c", f"core.fsync={sys.argv[1]}"]
    where = ["-C", os.path.join(directory, "repository")]
    done = subprocess.run(["git", *settings, *where, *words], capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout or "it says nothing").splitlines()
        raise RuntimeError(f"git {words[0]}: {said[0]}")
    return done.stdout


def setup(directory):
    """Makes a repository with one commit."""
    os.mkdir(os.path.join(directory, "repository"))
    git(directory, "init", "--quiet", "--template=", "--initial-branch=main", ".")
    git(directory, "commit", "--quiet", "--allow-empty", "--message=begin")


def flush_another_file(directory):
    """What an editor or a mail program does now and then."""
    with open(os.path.join(directory, "another"), "a") as file:
        file.write("another line\n")
        file.flush()
        os.fsync(file.fileno())


def run(directory):
    """Commits one file at a time."""
    for number in range(1, ROWS + 1):
        name = f"{number:08d}"
        with open(os.path.join(directory, "repository", name), "w") as file:
            file.write(rows.content(number))
        git(directory, "add", name)
        git(directory, "commit", "--quiet", f"--message={name}")
        rows.acknowledge(number)
        flush_another_file(directory)


def read(directory):
    """All committed files, after the check of git."""
    git(directory, "fsck", "--strict", "--no-dangling")
    listing = git(directory, "ls-tree", "-r", "main").splitlines()
    names = [line.split("\t")[1] for line in listing]
    text = git(directory, "grep", "-h", "", "main", "--", *names) if names else ""
    git(directory, "status", "--short")
    return list(zip(map(int, names), text.splitlines()))


rows.main(setup, run, read)
