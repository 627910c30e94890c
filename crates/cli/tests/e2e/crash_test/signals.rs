//! SIGINT, SIGTERM and SIGHUP in each phase: a clear message, its exit code, nothing left but the
//! recording.

use super::bench::{Bench, DURABLE, FORGETFUL, ROWS, ends_with, expect_code};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// A line that says where it is and then waits.
fn waiting(bench: &Bench) -> String {
    format!("echo x > {}; sleep 1000", bench.shown("started"))
}

#[test]
fn a_signal_in_setup_leaves_nothing() {
    let Some(bench) = Bench::new() else { return };
    for (signal, code) in [(SIGINT, 130), (SIGTERM, 143), (SIGHUP, 129)] {
        let mut test = bench.test(DURABLE, ROWS);
        test.args(["--setup", &format!("cd {{dir}}; {}", waiting(&bench))]);
        let ended = bench.interrupted(test, "started", signal);
        expect_code(&ended, code);
        assert!(ended.err.contains(&format!("ended by signal {signal}")), "{}", ended.err);
        assert!(!ended.err.contains("failed"), "{}", ended.err);
        bench.assert_nothing_left();
        std::fs::remove_file(bench.path("started")).expect("removed");
    }
}

#[test]
fn a_signal_in_the_workload_keeps_a_usable_recording() {
    let Some(bench) = Bench::new() else { return };
    let workload = format!("cd {{dir}}; {DURABLE}; {}", waiting(&bench));
    let ended = bench.interrupted(bench.test(&workload, ROWS), "started", SIGINT);
    expect_code(&ended, 130);
    assert!(ended.err.contains("ended by signal 2"), "{}", ended.err);
    bench.assert_no_leak();
    let dir = bench.kept_one();
    assert!(ended.err.contains(&dir.display().to_string()), "{}", ended.err);
    let again = ends_with(&mut bench.replay(&dir, ROWS), 0);
    assert!(again.out.contains("3 acknowledgements checked"), "{}", again.out);
}

#[test]
fn a_signal_in_the_questions_keeps_the_recording() {
    let Some(bench) = Bench::new() else { return };
    let check = format!("{}; {ROWS}", waiting(&bench));
    let ended = bench.interrupted(bench.test(DURABLE, &check), "started", SIGTERM);
    expect_code(&ended, 143);
    assert!(ended.err.contains("ended by signal 15"), "{}", ended.err);
    assert!(bench.kept_one().join("run.tape").exists());
    bench.assert_no_leak();
}

#[test]
fn a_signal_in_the_sweep_tells_what_was_found() {
    let Some(bench) = Bench::new() else { return };
    // Every state is good until the third one, which takes long.
    let check = format!(
        "case $SEEKLESS_STATE in *state|*data) ;; *) echo x >> {count}; \
         test $(wc -l < {count}) -lt 3 || {{ {wait}; }};; esac; {ROWS}",
        count = bench.shown("count"),
        wait = waiting(&bench)
    );
    let mut test = bench.test(DURABLE, &check);
    test.args(["--jobs", "1"]);
    let ended = bench.interrupted(test, "started", SIGINT);
    expect_code(&ended, 130);
    assert!(ended.out.starts_with("NO VERDICT: SIGINT ended the test after "), "{}", ended.out);
    assert!(ended.out.contains("none of them is bad"), "{}", ended.out);
    assert!(!ended.out.contains("after 0 states"), "{}", ended.out);
    assert!(ended.err.contains("not all were tried"), "{}", ended.err);
    assert!(bench.kept_one().join("run.tape").exists());
    bench.assert_no_leak();
}

#[test]
fn bad_states_before_a_signal_are_reported() {
    let Some(bench) = Bench::new() else { return };
    let check = format!(
        "case $SEEKLESS_STATE in *state|*data) ;; *) echo x >> {count}; \
         test $(wc -l < {count}) -lt 12 || {{ {wait}; }};; esac; {ROWS}",
        count = bench.shown("count"),
        wait = waiting(&bench)
    );
    let mut test = bench.thorough(FORGETFUL, &check);
    test.args(["--jobs", "1"]);
    let ended = bench.interrupted(test, "started", SIGTERM);
    expect_code(&ended, 143);
    assert!(ended.out.starts_with("RED"), "{}", ended.out);
    assert!(ended.out.contains("SIGTERM ended the test early"), "{}", ended.out);
    bench.assert_no_leak();
}

#[test]
fn a_signal_in_the_control_keeps_the_recording() {
    let Some(bench) = Bench::new() else { return };
    let control = format!("{FORGETFUL}; {}", waiting(&bench));
    let mut test = bench.test(DURABLE, ROWS);
    test.args(["--control", &control]);
    let ended = bench.interrupted(test, "started", SIGINT);
    expect_code(&ended, 130);
    assert!(bench.kept_one().join("run.tape").exists());
    bench.assert_no_leak();
}
