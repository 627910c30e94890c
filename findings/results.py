"""Judges the log of a crash test, keeps its figures, and writes the tables of docs/findings.md.

usage: results.py judge FINDING EXIT-CODE LOG SECONDS    prints PASS, FAIL with the reason, or SKIP
       results.py smallest                               prints FINDING=ROWS for each defect
       results.py page                                   writes the tables of the page

FINDINGS_FS and ROWS of the environment say how the test was run, as `findings/run` does. Figures
of models go to results.tsv, those of the smallest workloads to smallest.tsv. programs.toml has what
is written by hand.
"""

import os
import re
import sys
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../docs/findings.md")
FULL = os.path.join(HERE, "results.tsv")
SMALLEST = os.path.join(HERE, "smallest.tsv")
MODELS = ["ext4", "xfs", "posix"]
DECIDING = ["ext4", "xfs"]
COLUMNS = ["finding", *MODELS, "seconds", "calls", "why"]
# Exit codes of a program or a machine that lacks something.
SKIPPED = [7, 77]
WORDS = {"RED": "bad", "GREEN": "good"}


def expectations(finding):
    """The lines of the file that says what is expected, as pairs of a word and the rest."""
    name, _, variant = finding.partition("/")
    path = os.path.join(HERE, name, "expected" + ("." + variant if variant else ""))
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [line.rstrip("\n").split(" ", 1) for line in file if line.strip()]


def table(log):
    """Verdict and counts of each model in a log: {model: (word, states, lost, broken)}."""
    row = re.compile(r"^  (ext4|xfs|posix) +(\d+) +(\d+) +(\d+) +\d+  (.+)$", re.MULTILINE)
    return {
        model: (WORDS.get(word, word), int(states), int(lost), int(broken))
        for model, states, lost, broken, word in row.findall(log)
    }


def kernel(log):
    """The verdict of a log without models, good or bad, or what else it says."""
    first = re.search(r"^(RED|GREEN|GREEN SO FAR|NO VERDICT):", log, re.MULTILINE)
    return WORDS.get(first[1], first[1]) if first else "nothing"


def judge(finding, code, log, seconds):
    """What a test is worth. Keeps the figures of a run by models."""
    if code in SKIPPED:
        return f"SKIP {log.splitlines()[-1] if log.strip() else ''}"
    file_system, rows = os.environ.get("FINDINGS_FS"), os.environ.get("ROWS")
    expected = expectations(finding)
    words = {word: rest for word, rest in expected if word in DECIDING}
    if file_system:
        special = dict(expected).get(f"kernel-{file_system}")
        found, words = {file_system: kernel(log)}, {file_system: special or words.get(file_system)}
    else:
        figures = table(log)
        found = {model: figures.get(model, ("nothing",))[0] for model in DECIDING}
        if set(found.values()) <= {"good", "bad"}:
            keep(SMALLEST if rows else FULL, finding, figures, seconds, log)
    if None in words.values() or (not file_system and set(words) != set(DECIDING)):
        return "FAIL no verdict is expected"
    for model, word in words.items():
        if found.get(model) != word:
            return f"FAIL {model} is {found.get(model)}, expected {word}"
    if code != (1 if "bad" in words.values() else 0):
        return f"FAIL exit code {code}"
    if not file_system:
        for word, rest in expected:
            if word == "line" and rest not in log:
                return f"FAIL no line has: {rest}"
    return "PASS " + ", ".join(f"{model} {word}" for model, word in found.items())


def keep(path, finding, figures, seconds, log):
    """Replaces the line of a finding in a file of figures."""
    lines = read(path)
    calls = re.search(r"(\d+) calls and \d+ acknowledgement", log)
    why = re.search(r"^ +why: (.*)$", log, re.MULTILINE)
    why = why or re.search(r"^ +(would have prevented it: .*)$", log, re.MULTILINE)
    line = {"finding": finding, "seconds": str(seconds), "calls": calls[1] if calls else ""}
    line["why"] = why[1] if why else ""
    for model, (word, states, lost, broken) in figures.items():
        line[model] = f"{word} {lost} {broken} {states}"
    lines[finding] = line
    try:
        with open(path, "w") as file:
            file.write("\t".join(COLUMNS) + "\n")
            for name in sorted(lines):
                file.write("\t".join(lines[name].get(column) or "–" for column in COLUMNS) + "\n")
    except PermissionError:
        print(f"results: the figures are not kept: no right to write {path}", file=sys.stderr)


def read(path):
    """The lines of a file of figures by finding."""
    try:
        with open(path) as file:
            rows = [line.rstrip("\n").split("\t") for line in file][1:]
    except FileNotFoundError:
        return {}
    value = lambda field: "" if field == "–" else field
    return {row[0]: dict(zip(COLUMNS, map(value, row))) for row in rows}


def programs():
    """What is written by hand of each finding, in the order of the page."""
    with open(os.path.join(HERE, "programs.toml"), "rb") as file:
        return tomllib.load(file)["finding"]


def counts(cell):
    """A cell of figures as text: `8 broken, 15 lost of 24`, or the number of states."""
    word, lost, broken, states = cell.split()
    if word == "good":
        return f"good, {states}"
    both = ((broken, "broken"), (lost, "lost"))
    parts = [f"{number} {what}" for number, what in both if number != "0"]
    return f"{', '.join(parts)} of {states}"


def of_page(kind):
    """Rows of one kind with their figures."""
    figures = read(FULL)
    those = [one for one in programs() if one["kind"] == kind and one["name"] in figures]
    for one in those:
        bad = any(figures[one["name"]][model].startswith("bad") for model in DECIDING)
        if bad != (kind != "good"):
            sys.exit(f"results: {one['name']} is not {kind}, see programs.toml")
    return [(one, figures[one["name"]]) for one in those]


def rows_of(columns, lines):
    """A table as lines of Markdown."""
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for line in lines:
        yield f"| {' | '.join(line)} |"


def full_table(kind):
    """The table of one kind of findings."""
    columns = ["`findings/run`", "program", "ext4", "xfs", "posix"]
    told = {"defect": ["what happens", "upstream"], "documented": ["what happens"], "good": []}
    columns += told[kind]
    lines = []
    for one, figures in of_page(kind):
        line = [f"`{one['name']}`", one["program"]]
        line += [counts(figures[model]) for model in DECIDING]
        line += [figures["posix"].split()[0] if figures["posix"] else "–"]
        if kind != "good":
            line.append(one["story"])
        if kind == "defect":
            line.append(one["upstream"])
        lines.append(line)
    return rows_of(columns, lines)


def smallest_table():
    """The smallest workload of each defect, and why its worst state is there."""
    columns = ["command", "calls", "what the report says"]
    lines = []
    figures = read(SMALLEST)
    for one in programs():
        if one["kind"] == "defect" and one["name"] in figures:
            line = figures[one["name"]]
            command = f"findings/run --rows {one['rows']} {one['name']}"
            lines.append([f"`{command}`", line["calls"], line["why"].replace("|", "\\|")])
    return rows_of(columns, lines)


def summary():
    """How many programs and findings there are."""
    kinds = {kind: len(of_page(kind)) for kind in ("defect", "documented", "good")}
    missing = [one["name"] for one in programs() if one["name"] not in read(FULL)]
    if missing:
        print(f"results: not measured, so not on the page: {' '.join(missing)}", file=sys.stderr)
    names = {one["name"].split("/")[0] for one in programs() if one["name"] not in missing}
    slow = max((int(one["seconds"]), name) for name, one in read(FULL).items())
    quick = sum(int(one["seconds"]) <= 60 for one in read(FULL).values())
    yield (
        f"{len(names)} programs: {kinds['defect']} defects, "
        f"{kinds['documented']} documented losses, {kinds['good']} good."
    )
    yield (
        f"{quick} of {len(read(FULL))} scripts take at most a minute, "
        f"the longest (`{slow[1]}`) {slow[0]} seconds."
    )


def page():
    """Writes what stands between the markers of the page."""
    with open(PAGE) as file:
        text = file.read()
    kinds = ("defect", "documented", "good")
    parts = {kind: (lambda kind=kind: full_table(kind)) for kind in kinds}
    parts |= {"smallest": smallest_table, "summary": summary}
    for name, lines in parts.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, rest = text.split(begin, 1)
        after = rest.split(end, 1)[1]
        text = before + begin + "\n".join(lines()) + "\n" + end + after
    with open(PAGE, "w") as file:
        file.write(text)


def main():
    """Does what the command line says."""
    match sys.argv[1:]:
        case ["judge", finding, code, path, seconds]:
            with open(path, errors="replace") as file:
                print(judge(finding, int(code), file.read(), int(seconds)))
        case ["smallest"]:
            for one in programs():
                if one["kind"] == "defect":
                    print(f"{one['name']}={one['rows']}")
        case ["page"]:
            page()
        case _:
            sys.exit(__doc__)


main()
