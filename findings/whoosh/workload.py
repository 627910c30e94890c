"""Whoosh with one document a commit: setup, run and check.

usage: workload.py setup|run|check DIRECTORY
"""

import os
import sys

from whoosh import fields, index

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import rows

ROWS = rows.count(3)
SCHEMA = fields.Schema(number=fields.ID(stored=True, unique=True), content=fields.STORED)


def setup(directory):
    """Makes an empty index."""
    index.create_in(directory, SCHEMA)


def run(directory):
    """Commits one document at a time."""
    target = index.open_dir(directory)
    for number in range(1, ROWS + 1):
        writer = target.writer()
        writer.add_document(number=str(number), content=rows.content(number))
        writer.commit()
        rows.acknowledge(number)


def read(directory):
    """All documents."""
    with index.open_dir(directory).reader() as reader:
        documents = [fields for _, fields in reader.iter_docs()]
        terms = {text.decode() for text in reader.lexicon("number")}
    if terms != {document["number"] for document in documents}:
        raise RuntimeError("terms and documents differ")
    return [(int(document["number"]), document["content"]) for document in documents]


rows.main(setup, run, read)
