"""Calls a function of a test file in a process of its own.

`python -m seekless_pytest.call setup|run|check FILE NAME DIR` is what the fixture gives to
`seekless crash-test` as its commands. Exit code 1 of a check says that the state is bad.
"""

import importlib.util
import os
import sys
import traceback
from pathlib import Path


def function(file, name):
    """The function of this name at the top of a file."""
    sys.path.insert(0, str(Path(file).parent))
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def acknowledge(value):
    """Says that `value` must survive from now on."""
    line = f"{value}\n"
    if line.count("\n") != 1:
        raise ValueError(f"an acknowledgement is one line of text, not {value!r}")
    with open(os.environ["SEEKLESS_ACKS"], "a", encoding="utf-8") as acks:
        acks.write(line)


def acknowledged():
    """What was acknowledged before the power went, in order."""
    with open(os.environ["SEEKLESS_ACKED_FILE"], encoding="utf-8") as acked:
        return acked.read().splitlines()


def main():
    role, file, name, directory = sys.argv[1:]
    called, directory = function(file, name), Path(directory)
    if role == "setup":
        called(directory)
    elif role == "run":
        called(directory, acknowledge)
    else:
        try:
            called(directory, acknowledged())
        except BaseException:  # whatever the check raises, it refuses the state
            traceback.print_exc()
            sys.exit(1)


if __name__ == "__main__":
    main()
