"""Seekless from Python: each function runs the program once and gives its report as rows.

>>> import seekless
>>> rows = seekless.sim(layout=["inplace", "vlog"], disk="st19101")
>>> [(row["layout"], row["mean_ms"]) for row in rows]

Options are those of the command, with underscores: `read_share=0.5` is `--read-share 0.5`, `empty=True` is `--empty`, a
list is joined by commas. `seekless sim --help` explains them.
"""

import shlex

from ._program import SeeklessError, binary, run
from ._rows import Rows, flat

__all__ = [
    "Rows", "SeeklessError", "binary", "crash_test", "prove", "reproduce", "run", "sim", "what_if",
]


def sim(**options):
    """Runs a workload on simulated disks: a row for each layout, disk and utilisation."""
    report = run("sim", **options)
    if "rows" in report:
        return Rows(map(flat, report["rows"]), report)
    # The report of a single simulation names the same figures otherwise.
    latency = report["latency_ms"]
    return Rows([{**flat(report), "mean_ms": latency["mean"], "p99_ms": latency["p99"]}], report)


def what_if(change, by="mean_ms", **options):
    """Simulates with these options, and again with those that `change` replaces.

    Each row of the second run has the figure of the first as `base_<by>` and their ratio as `factor`: above 1 the change
    is quicker. The rows of both runs must pair up, so `change` gives as many alternatives as it replaces, or the first
    run has one row.
    """
    before, after = sim(**options), sim(**{**options, **change})
    if len(before) not in (1, len(after)):
        raise ValueError(f"{len(before)} rows to compare {len(after)} with; give one alternative for each, or one base")
    pairs = zip(after, before * len(after) if len(before) == 1 else before)
    rows = [{**row, f"base_{by}": base[by], "factor": base[by] / row[by] if row[by] else None} for row, base in pairs]
    return Rows(rows, after.report)


def crash_test(run, check, setup=None, **options):
    """Records what a command writes and checks each state that a power cut may have left.

    A command is text for a shell, or a list of words; `{dir}` stands for the directory. Without `fs` the states are those of
    models of ext4 and XFS, which needs no root. The rows are the groups of bad states; `verdict` is `green`, `red` or, where
    the time ended first, `green_so_far`.
    """
    if "fs" not in options:
        options.setdefault("model", ["ext4", "xfs"])
    commands = {"run": _command(run), "check": _command(check), "setup": _command(setup)}
    report = _run("crash-test", good=(0, 1, 8), **commands, **options)
    # Of models, each has a report of its own.
    parts = report.get("models", [report])
    rows = [{"model": part.get("model"), **flat(group)} for part in parts for group in part["groups"]]
    return Rows(rows, report, report["verdict"])


def prove(**options):
    """Cuts the power at every step of a layout or a file system: one row of counts. `verdict` is `red` if a promise broke."""
    report = run("prove", good=(0, 1), **options)
    return Rows([flat(report)], report, "red" if report["violations"] else "green")


def reproduce(figure, **options):
    """Measures a figure of the papers again: a row for each claim, with its own verdict in the column `verdict`."""
    report = run("reproduce", figure, good=(0, 1), **options)
    return Rows([{"figure": report["figure"], **flat(claim)} for claim in report["claims"]], report)


def _command(words):
    return shlex.join(words) if isinstance(words, (list, tuple)) else words


_run = run
