//! No green without evidence: tests that show nothing end with their own exit code and a reason.

use super::bench::{Bench, DURABLE, FORGETFUL, ROWS, ends_with};

#[test]
fn a_workload_that_writes_nothing_is_no_green() {
    let Some(bench) = Bench::new() else { return };
    // As if it wrote into a directory of the machine in place of the disk.
    let elsewhere = format!("echo 1 > {}; echo 1 >> $SEEKLESS_ACKS", bench.shown("elsewhere"));
    let ended = ends_with(&mut bench.test(&elsewhere, ROWS), 3);
    assert!(ended.err.contains("nothing can be lost"), "{}", ended.err);
    assert!(ended.err.contains("hint: did it write to {dir}?"), "{}", ended.err);
    // Nor of consistency: the file system itself writes when it is mounted and unmounted.
    let mut test = bench.test("ls {dir}", "true {dir}");
    let idle = ends_with(test.arg("--consistency-only"), 3);
    assert!(idle.err.contains("--run wrote nothing to the disk"), "{}", idle.err);
    assert!(!ended.out.contains("GREEN"), "{}", ended.out);
    bench.assert_no_leak();
}

#[test]
fn a_raw_workload_that_writes_nothing_is_no_green() {
    let Some(bench) = Bench::new() else { return };
    let mut test = bench.command("crash-test");
    test.args(["--fs", "raw", "--size", "1M", "--run", "echo 1 >> $SEEKLESS_ACKS"]);
    let ended = ends_with(test.args(["--check", "true {device}"]), 3);
    assert!(ended.err.contains("nothing can be lost"), "{}", ended.err);
}

#[test]
fn a_workload_without_acknowledgements_is_no_green() {
    let Some(bench) = Bench::new() else { return };
    let silent = "echo row 1 | dd of={dir}/log conv=fsync status=none";
    let ended = ends_with(&mut bench.test(silent, ROWS), 3);
    assert!(ended.err.contains("acknowledged nothing"), "{}", ended.err);
    assert!(ended.err.contains("SEEKLESS_ACKS"), "{}", ended.err);
    assert!(ended.err.contains("--consistency-only"), "{}", ended.err);
    ends_with(bench.test(silent, ROWS).arg("--consistency-only"), 0);
}

#[test]
fn a_check_that_cannot_fail_is_found_out_before_the_sweep() {
    let Some(bench) = Bench::new() else { return };
    for check in ["true {dir}", "ls {dir}", "cat {dir}/log; true"] {
        let ended = ends_with(&mut bench.test(FORGETFUL, check), 6);
        assert!(ended.err.contains("your check cannot fail"), "{}", ended.err);
        assert!(ended.out.starts_with("NO VERDICT: the check cannot fail"), "{}", ended.out);
        assert!(ended.out.contains("coverage: 0 of"), "{}", ended.out);
    }
    bench.assert_no_leak();
}

#[test]
fn a_check_that_fails_on_the_undamaged_end_is_found_out_before_the_sweep() {
    let Some(bench) = Bench::new() else { return };
    let log = bench.shown("checked");
    let check = format!("echo $SEEKLESS_STATE >> {log}; echo bad luck; test -e {{dir}}/nothing");
    let ended = ends_with(&mut bench.test(DURABLE, &check), 6);
    assert!(ended.err.contains("your check fails on an undamaged disk"), "{}", ended.err);
    assert!(ended.out.starts_with("NO VERDICT"), "{}", ended.out);
    assert!(ended.err.contains("hint: correct the check first"), "{}", ended.err);
    assert!(ended.out.contains("| bad luck"), "{}", ended.out);
    assert_eq!(bench.lines("checked"), ["end state"], "no other state was checked");
}

#[test]
fn a_check_that_fails_at_the_start_is_found_out() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(&mut bench.test(DURABLE, "grep -q 'row 3' {dir}/log"), 6);
    assert!(ended.err.contains("before the workload began"), "{}", ended.err);
    assert!(ended.err.contains("--from"), "{}", ended.err);
    let behind = "grep -q 'row 1' {dir}/log && { test ${SEEKLESS_ACKED:-0} -le 1 || \
         test $(wc -l < {dir}/log) -ge $SEEKLESS_ACKED; }";
    ends_with(bench.test(DURABLE, behind).args(["--from", "1"]), 0);
    let unknown = ends_with(bench.test(DURABLE, ROWS).args(["--from", "nine"]), 2);
    assert!(unknown.err.contains("`nine` was not acknowledged"), "{}", unknown.err);
}

#[test]
fn a_check_that_is_missing_or_crashes_is_no_finding() {
    let Some(bench) = Bench::new() else { return };
    for (check, why) in [
        ("/no/such/check {dir}", "127"),
        ("/etc/passwd {dir}", "126"),
        ("kill -9 $$ # {dir}", "signal 9"),
        ("kill -SEGV $$ # {dir}", "signal 11"),
    ] {
        let ended = ends_with(&mut bench.test(DURABLE, check), 6);
        assert!(ended.err.contains("the check cannot run on the end state"), "{}", ended.err);
        assert!(ended.err.contains(why), "{why}: {}", ended.err);
        assert!(!ended.out.contains("GREEN") && !ended.out.contains("RED"), "{}", ended.out);
    }
    // It works at first, and dies on crash states only.
    let later = format!("case $SEEKLESS_STATE in *state|*data) ;; *) kill -9 $$;; esac; {ROWS}");
    let ended = ends_with(&mut bench.test(DURABLE, &later), 6);
    assert!(ended.out.starts_with("NO VERDICT: the check itself failed"), "{}", ended.out);
}

#[test]
fn a_control_without_a_bad_state_is_no_verdict() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(bench.test(DURABLE, ROWS).args(["--control", DURABLE]), 6);
    assert!(ended.out.starts_with("NO VERDICT: the control has no bad state"), "{}", ended.out);
    let ended = ends_with(bench.test(DURABLE, ROWS).args(["--control", FORGETFUL]), 0);
    assert!(ended.out.contains("control fails as expected"), "{}", ended.out);
    let broken = bench.test(DURABLE, ROWS).args(["--control", "exit 5"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&broken.stderr);
    assert_eq!(broken.status.code(), Some(6), "{said}");
    assert!(said.contains("--control failed: exit code 5"), "{said}");
    bench.assert_no_leak();
}

#[test]
fn options_without_a_meaning_are_refused_before_anything_is_made() {
    let Some(bench) = Bench::new() else { return };
    for (arguments, why) in [
        (&["--run", "x", "--check", "true"][..], "--check does not contain {dir}"),
        (&["--run", "x", "--check", "true {dir}", "--fs", "raw"], "does not contain {device}"),
        (&["--run", "x", "--check", "true {dir}", "--no-tearing"], "--sector 4096"),
        (&["--run", "x", "--check", "true {dir}", "--size", "1M"], "--size 16M or more"),
        (&["--run", "x", "--check", "true {dir}", "--fs", "ntfs"], "known are ext4, xfs"),
        (&["--run", "x", "--check", "true {dir}", "--timeout", "0s"], "above 0"),
        (&["--run", "x", "--check", "true {dir}", "--shard", "3/2"], "is no shard"),
        (&["--run", "x", "--check", "true {dir}", "--sector", "1000"], "4096"),
        (&["--check", "true {dir}"], "--run"),
    ] {
        let ended = ends_with(bench.command("crash-test").args(arguments), 2);
        assert!(ended.err.contains(why), "{arguments:?}: {}", ended.err);
    }
    bench.assert_nothing_left();
}
