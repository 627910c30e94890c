"""Each function of the package against the program. Runs with pytest, and without it as a script."""

import shutil
import sys
import tempfile
from pathlib import Path

import seekless

SMALL = {"disk": "st19101", "requests": 200}
WRITE = 'for n in 1 2 3; do echo "row $n" >> "$1/log"; $2 "$1/log"; echo $n >> "$SEEKLESS_ACKS"; done\n'
CHECK = 'n=$(grep -c "^row" "$1/log" 2>/dev/null || true); [ "${n:-0}" -ge "${SEEKLESS_ACKED:-0}" ]\n'


def are_flat(rows):
    assert rows and all(not isinstance(value, dict) for row in rows for value in row.values()), rows


def test_simulations_are_rows():
    rows = seekless.sim(layout=["inplace", "vlog"], **SMALL)
    assert [row["layout"] for row in rows] == ["inplace", "vlog"]
    assert rows[0]["mean_ms"] > rows[1]["mean_ms"] > 0
    are_flat(rows)
    one = seekless.sim(layout="vlog", **SMALL)
    assert len(one) == 1 and one[0]["mean_ms"] == rows[1]["mean_ms"], one
    are_flat(one)


def test_what_another_layout_would_do():
    rows = seekless.what_if({"layout": ["vlog", "loge"]}, layout="inplace", **SMALL)
    assert [row["layout"] for row in rows] == ["vlog", "loge"]
    assert all(row["factor"] > 1 for row in rows), rows
    assert rows[0]["factor"] == rows[0]["base_mean_ms"] / rows[0]["mean_ms"]


def test_a_proof_is_a_row_with_a_verdict():
    rows = seekless.prove(layout="vlog", states=300)
    assert rows.verdict == "green" and rows[0]["violations"] == 0 and rows[0]["states"] >= 300
    are_flat(rows)


def test_a_figure_is_a_row_for_each_claim():
    rows = seekless.reproduce("vlog/small", quick=True)
    assert len(rows) > 1 and rows[0]["figure"] == "vlog/small" and "verdict" in rows[0], rows
    are_flat(rows)


def crash_test(sync):
    work = Path(tempfile.mkdtemp())
    (work / "write.sh").write_text(WRITE)
    (work / "check.sh").write_text(CHECK)
    run = ["sh", str(work / "write.sh"), "{dir}", sync]
    rows = seekless.crash_test(run=run, check=f"sh {work}/check.sh {{dir}}", dir=work / "crash")
    shutil.rmtree(work)
    return rows


def test_a_crash_test_has_a_verdict():
    assert crash_test("sync").verdict == "green"
    red = crash_test("true")
    assert red.verdict == "red"
    are_flat(red)


def test_a_wrong_option_is_an_error_with_its_code():
    try:
        seekless.sim(layout="nonsense", **SMALL)
    except seekless.SeeklessError as error:
        assert error.code == 2 and "nonsense" in str(error)
    else:
        raise AssertionError("a layout that does not exist is refused")


def test_rows_become_a_table_of_arrow():
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        print("skipped: pyarrow is not installed", file=sys.stderr)
        return
    table = seekless.sim(layout=["inplace", "vlog"], **SMALL).to_arrow()
    assert table.column("layout").to_pylist() == ["inplace", "vlog"]


if __name__ == "__main__":
    tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        test()
    print(f"{len(tests)} passed")
