"""Where the program is, and how it is run."""

import importlib.metadata
import json
import os
import shutil
import subprocess
from pathlib import Path


class SeeklessError(RuntimeError):
    """The program failed for another reason than a verdict. `code` is its exit code."""

    def __init__(self, code, said):
        super().__init__(said.strip() or f"seekless ended with {code}")
        self.code = code


def _bundled():
    """The program that the wheel of this package installed, wherever its scripts are."""
    try:
        files = importlib.metadata.files("seekless") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(Path(file.locate()).resolve()) for file in files if file.name == "seekless"), None)


def binary():
    """The path of the program: that of the variable SEEKLESS, of this wheel, or on the search path."""
    for path in (os.environ.get("SEEKLESS"), _bundled(), shutil.which("seekless")):
        if path and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError("seekless is not on the search path; install its wheel, or name it in SEEKLESS")


def _words(options):
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            yield flag
        elif value is None or value is False:
            continue
        elif isinstance(value, (list, tuple)):
            yield from (flag, ",".join(map(str, value)))
        else:
            yield from (flag, str(value))


def run(command, *arguments, good=(0,), **options):
    """Runs a command of the program with --json and gives its report. Exit codes that are not `good` raise."""
    words = [binary(), command, *map(str, arguments), *_words(options), "--json"]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode not in good or not ended.stdout:
        raise SeeklessError(ended.returncode, ended.stderr)
    return json.loads(ended.stdout)
