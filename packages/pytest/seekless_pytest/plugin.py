"""The fixture `crash_test`."""

import inspect
import os
import shlex
import shutil
import subprocess
import sys

import pytest

# Exit codes of `seekless crash-test`. All others fail the test, and what it printed says why.
GOOD, LACKING = 0, 7


def pytest_addoption(parser):
    parser.addoption(
        "--seekless-missing",
        choices=["fail", "skip"],
        default="fail",
        help="what becomes of crash tests where the program seekless, or what it needs, is missing",
    )


def program():
    """The program, or None. A wheel puts it beside the interpreter, which need not be on the search path."""
    beside = os.path.dirname(sys.executable)
    return os.environ.get("SEEKLESS") or shutil.which("seekless") or shutil.which("seekless", path=beside)


def command(role, called):
    """The command that calls a function in a process of its own."""
    name, file = called.__qualname__, inspect.getsourcefile(called)
    if "." in name or file is None:
        raise pytest.UsageError(
            f"crash_test: {role} is {name}; let it be a function at the top of a module, "
            "for it runs in a process of its own"
        )
    words = [sys.executable, "-m", "seekless_pytest.call", role, os.path.abspath(file), name]
    return shlex.join(words) + " {dir}"


@pytest.fixture
def crash_test(request, tmp_path):
    """Runs a workload once, and a check on each state that a power cut may have left."""
    missing = request.config.getoption("--seekless-missing")

    def lacking(why):
        (pytest.skip if missing == "skip" else pytest.fail)(why)

    def test(
        run,
        check,
        setup=None,
        model="ext4,xfs",
        consistency_only=False,
        budget=None,
        options=(),
    ):
        seekless = program()
        if seekless is None:
            lacking("seekless is not on the search path; install it, or name it in SEEKLESS")
        words = [seekless, "crash-test", "--model", model]
        words += ["--run", command("run", run), "--check", command("check", check)]
        if setup is not None:
            words += ["--setup", command("setup", setup)]
        if consistency_only:
            words.append("--consistency-only")
        if budget is not None:
            words += ["--budget", str(budget)]
        words += list(options)
        ended = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        if ended.returncode == LACKING:
            lacking(ended.stderr)
        if ended.returncode != GOOD:
            pytest.fail(f"{ended.stdout}\n{ended.stderr}", pytrace=False)
        return ended.stdout

    return test
