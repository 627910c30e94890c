"""A log of rows, with its syncs and without them."""

import os


def append(dir, ack, sync):
    with open(dir / "log", "a", encoding="utf-8") as log:
        for row in range(3):
            log.write(f"row {row}\n")
            log.flush()
            if sync:
                os.fsync(log.fileno())
            ack(row)


def careful(dir, ack):
    append(dir, ack, sync=True)


def hasty(dir, ack):
    append(dir, ack, sync=False)


def silent(dir, ack):
    append(dir, lambda row: None, sync=True)


def make(dir):
    (dir / "log").write_text("", encoding="utf-8")


def rows_are_there(dir, acked):
    path = dir / "log"
    rows = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    assert len(rows) >= len(acked), f"{len(rows)} rows of {len(acked)}"


def anything(dir, acked):
    pass
