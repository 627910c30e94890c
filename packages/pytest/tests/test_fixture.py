"""The fixture from a test to its verdict. pytest runs in pytest, so that failures can be expected."""

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def outcome(pytester, request):
    """Runs a test file whose test calls the fixture like this."""
    stores = request.path.parent / "stores.py"
    pytester.makepyfile(stores=stores.read_text(encoding="utf-8"))

    def run(call, *options):
        pytester.makepyfile(
            test_it=f"import stores\n\ndef test_it(crash_test):\n    {call}\n"
        )
        return pytester.runpytest_subprocess("-p", "seekless_pytest.plugin", *options)

    return run


def test_synced_rows_survive(outcome):
    outcome("crash_test(run=stores.careful, check=stores.rows_are_there)").assert_outcomes(passed=1)


def test_rows_without_a_sync_are_lost(outcome):
    result = outcome("crash_test(run=stores.hasty, check=stores.rows_are_there)")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RED: bad states on ext4, xfs*", "*fsync of \"log\"*missing*"])


def test_a_setup_is_durable(outcome):
    call = "crash_test(setup=stores.make, run=stores.careful, check=stores.rows_are_there, model='posix')"
    outcome(call).assert_outcomes(passed=1)
    # Without it, POSIX does not promise the name of the new file.
    call = "crash_test(run=stores.careful, check=stores.rows_are_there, model='posix')"
    outcome(call).assert_outcomes(failed=1)


def test_a_check_that_cannot_fail_is_refused(outcome):
    result = outcome("crash_test(run=stores.careful, check=stores.anything)")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*your check cannot fail*"])


def test_a_workload_that_acknowledges_nothing_is_refused(outcome):
    result = outcome("crash_test(run=stores.silent, check=stores.rows_are_there)")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the workload acknowledged nothing*"])
    call = "crash_test(run=stores.silent, check=stores.anything, consistency_only=True)"
    outcome(call).assert_outcomes(passed=1)


def test_functions_that_no_process_can_find_are_refused(outcome):
    result = outcome("crash_test(run=lambda dir, ack: None, check=stores.anything)")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*at the top of a module*"])


def test_a_missing_program_fails_or_skips(outcome, monkeypatch):
    monkeypatch.delenv("SEEKLESS", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    call = "crash_test(run=stores.careful, check=stores.rows_are_there)"
    outcome(call).assert_outcomes(failed=1)
    outcome(call, "--seekless-missing=skip").assert_outcomes(skipped=1)
