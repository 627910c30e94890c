#!/usr/bin/env python3
"""Runs the steps of the templates for build servers here: once on a careful workload, once on one without syncs.

usage: run-templates.py --program SEEKLESS | --wheels DIR

With a program, the steps that install Seekless are left out; with a directory of wheels they install from there. Each
template must say green and red with its exit code, and leave its report and its recording.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WRITE = 'for n in 1 2 3; do echo "row $n" >> "$1/log"; $2 "$1/log"; echo $n >> "$SEEKLESS_ACKS"; done\n'
CHECK = 'n=$(grep -c "^row" "$1/log" 2>/dev/null || true); [ "${n:-0}" -ge "${SEEKLESS_ACKED:-0}" ]\n'
COMMANDS = {"green": "sh write.sh {dir} sync", "red": "sh write.sh {dir} true"}
CODES = {"green": 0, "red": 1}


def indent(line):
    return len(line) - len(line.lstrip())


def below(lines, key):
    """The lines below a key of YAML, up to the next key of its depth."""
    at = next(n for n, line in enumerate(lines) if line.strip() == key)
    rest = lines[at + 1 :]
    ends = (n for n, line in enumerate(rest) if line.strip() and indent(line) <= indent(lines[at]))
    return rest[: next(ends, len(rest))]


def block(lines):
    """The text of a block `key: |`."""
    return "\n".join(line[min(map(indent, filter(str.strip, lines))) :] for line in lines) + "\n"


def items(lines):
    """The items of a list of plain text, whose lines are joined."""
    joined = []
    for line in (line for line in lines if not line.strip().startswith("#")):
        if line.strip().startswith("- "):
            joined.append(line.strip()[2:])
        elif line.strip():
            joined[-1] += " " + line.strip()
    return joined


def shell(script, work, env, *flags):
    return subprocess.run(["bash", *flags, "-c", script], cwd=work, env=env, capture_output=True, text=True)


def defaults(lines):
    """The inputs of an action with their defaults."""
    pattern = r"^  (\w+):\n(?:    (?!default).*\n)*    default: \"?([^\"\n]*)\"?"
    return dict(re.findall(pattern, "\n".join(lines), re.M))


def kept(work, *reports):
    """How many files there are of each kind that a template keeps: a report for each model, and the recording."""
    return [len(list(work.glob(pattern))) for pattern in (*reports, "crash/run.calls")]


def action(work, env, verdict, program):
    """The composite action: each step that has a script, with the inputs in its environment."""
    lines = (ROOT / "packages/github/action.yml").read_text(encoding="utf-8").splitlines()
    inputs = {**defaults(below(lines, "inputs:")), "run": COMMANDS[verdict], "check": "sh check.sh {dir}"}
    output = work / "output"
    env = {**env, "RUNNER_TEMP": str(work), "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(work / "summary")}
    steps = "\n".join(below(lines, "steps:")).split("    - name: ")[1:]
    if program:
        (work / "seekless/bin").mkdir(parents=True)
        (work / "seekless/bin/seekless").symlink_to(program)
        steps = [step for step in steps if not step.startswith("Install")]
    for step in (step.splitlines() for step in steps):
        if not any(line.strip() == "run: |" for line in step):
            continue
        given = dict(re.findall(r"^ +(\w+): \$\{\{ inputs\.(\w+) \}\}$", "\n".join(step), re.M))
        env.update((name, inputs[value]) for name, value in given.items())
        ended = shell(block(below(step, "run: |")), work, env, "--noprofile", "--norc", "-eo", "pipefail")
        if ended.returncode:
            break
    assert output.read_text(encoding="utf-8").strip() == f"verdict={verdict}", ended
    return ended, *kept(work, "crash.*xml", "crash.*html")


def gitlab(work, env, verdict, program):
    """The job of the template: its lists of commands, with its variables."""
    lines = (ROOT / "packages/gitlab/crash-test.gitlab-ci.yml").read_text(encoding="utf-8").splitlines()
    variables = re.findall(r"^ +([A-Z_]+): \"?([^\"]*)\"?$", "\n".join(below(lines, "variables:")), re.M)
    env = {**env, **dict(variables), "RUN": COMMANDS[verdict], "CHECK": "sh check.sh {dir}"}
    commands = items(below(lines, "before_script:")) + items(below(lines, "script:"))
    if program:
        (work / "seekless-venv/bin").mkdir(parents=True)
        (work / "seekless-venv/bin/seekless").symlink_to(program)
        commands = items(below(lines, "script:"))
    ended = shell("\n".join(commands), work, env, "-eo", "pipefail")
    return ended, *kept(work, "crash.*xml", "crash.*html")


def hook(work, env, verdict, program):
    """The pre-commit hook: its entry with the arguments of a user."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entry = re.search(r"^  entry: (.*)$", text, re.M)[1]
    arguments = f"--run '{COMMANDS[verdict]}' --check 'sh check.sh {{dir}}' --dir crash --junit crash.xml"
    ended = shell(f"{entry} {arguments}", work, env)
    return ended, *kept(work, "crash.*xml")


def main():
    kind, path = sys.argv[1:]
    path = Path(path).resolve()
    program = path if kind == "--program" else None
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(path), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for template in (action, gitlab, hook):
        for verdict, code in CODES.items():
            work = Path(tempfile.mkdtemp(prefix="seekless-template-"))
            (work / "write.sh").write_text(WRITE, encoding="utf-8")
            (work / "check.sh").write_text(CHECK, encoding="utf-8")
            if template is hook:
                found = program or shutil.which("seekless")
                assert found, "the hook needs seekless on the search path"
                (work / "bin").mkdir()
                (work / "bin/seekless").symlink_to(found)
                env["PATH"] = f"{work / 'bin'}{os.pathsep}{os.environ['PATH']}"
            ended, *files = template(work, dict(env), verdict, program)
            assert ended.returncode == code, f"{template.__name__} {verdict}: {ended}"
            assert ended.stdout.startswith(verdict.upper()), ended
            assert all(files), f"{template.__name__} {verdict}: a report or the recording is missing: {files}"
            shutil.rmtree(work)
            print(f"{template.__name__}: {verdict}")


if __name__ == "__main__":
    main()
