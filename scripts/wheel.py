#!/usr/bin/env python3
"""Puts a static program and the Python packages of the repository into a wheel.

usage: wheel.py PROGRAM OUT-DIR NOTICES

A static program runs with every C library, so one wheel has the tags of glibc and of musl. The bytes depend on the inputs
and on SOURCE_DATE_EPOCH only.
"""

import base64
import hashlib
import os
import sys
import time
import tomllib
import zipfile
from pathlib import Path

TAGS = ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64")
ROOT = Path(__file__).resolve().parent.parent


def metadata(project):
    extras = project["optional-dependencies"]
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [f"Summary: {project['description']}", f"License: {project['license']['text']}"]
    lines += [f"Requires-Python: {project['requires-python']}", "Description-Content-Type: text/markdown"]
    lines += ["Classifier: Framework :: Pytest", "Classifier: Operating System :: POSIX :: Linux"]
    for extra, requirements in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {one}; extra == "{extra}"' for one in requirements]
    text = (ROOT / "packages/python/README.md").read_text(encoding="utf-8")
    return "\n".join(lines) + "\n\n" + text


def contents(program, notices, project):
    """The name and the bytes of each file."""
    info = f"seekless-{project['version']}.dist-info"
    files = {f"seekless-{project['version']}.data/scripts/seekless": Path(program).read_bytes()}
    for package in ("packages/python/seekless", "packages/pytest/seekless_pytest"):
        for source in sorted((ROOT / package).glob("*.py")):
            files[f"{Path(package).name}/{source.name}"] = source.read_bytes()
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        files[f"{info}/licenses/{licence}"] = (ROOT / licence).read_bytes()
    files[f"{info}/licenses/{Path(notices).name}"] = Path(notices).read_bytes()
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in TAGS)
    wheel = f"Wheel-Version: 1.0\nGenerator: seekless dist\nRoot-Is-Purelib: false\n{tags}"
    files[f"{info}/METADATA"] = metadata(project).encode()
    files[f"{info}/WHEEL"] = wheel.encode()
    files[f"{info}/entry_points.txt"] = b"[pytest11]\nseekless = seekless_pytest.plugin\n"
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    return files


def record(files, own):
    def row(name, data):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(data)}\n"

    return ("".join(row(*one) for one in files.items()) + f"{own},,\n").encode()


def main():
    program, out, notices = sys.argv[1:]
    project = tomllib.loads((ROOT / "packages/python/pyproject.toml").read_text(encoding="utf-8"))["project"]
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    path = Path(out) / f"seekless-{project['version']}-py3-none-{'.'.join(TAGS)}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in contents(program, notices, project).items():
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            wheel.writestr(entry, data, compresslevel=9)
    print(path)


if __name__ == "__main__":
    main()
