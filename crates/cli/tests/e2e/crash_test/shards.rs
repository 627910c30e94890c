//! Several processes that replay one recording at once, on one machine.

use super::bench::{Bench, DURABLE, ROWS, ends_with, expect_code, finished};
use std::process::Stdio;

#[test]
fn eight_shards_at_once_have_one_verdict() {
    let Some(bench) = Bench::new() else { return };
    ends_with(bench.test(DURABLE, ROWS).args(["--dir", "run"]), 0);
    let dir = bench.path("run");
    let before = bench.names("run");
    for round in 0..3 {
        let shards: Vec<_> = (1..=8)
            .map(|index| {
                let mut replay = bench.replay(&dir, ROWS);
                replay.args(["--jobs", "1", "--shard", &format!("{index}/8")]);
                replay.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
            })
            .collect();
        for shard in shards {
            let ended = finished(shard);
            expect_code(&ended, 0);
            assert!(ended.out.starts_with("GREEN"), "round {round}: {}", ended.out);
        }
        assert_eq!(bench.names("run"), before, "nothing is left beside the recording");
    }
    bench.assert_no_leak();
}

#[test]
fn a_check_that_failed_for_the_machine_is_run_again() {
    let Some(bench) = Bench::new() else { return };
    ends_with(bench.test(DURABLE, ROWS).args(["--dir", "run"]), 0);
    let dir = bench.path("run");
    // The questions before the sweep are answered.
    let check = format!(
        "case $SEEKLESS_STATE in *state|*data) ;; *) test ! -e $BROKEN || exit 127;; esac; {ROWS}"
    );
    std::fs::write(bench.path("broken"), "").expect("written");
    let sweep = |code| {
        let mut replay = bench.replay(&dir, &check);
        // By a variable: the files that a check names are part of it.
        replay.env("BROKEN", bench.path("broken"));
        ends_with(replay.args(["--results", "verdicts"]), code).out
    };
    let out = sweep(6);
    assert!(out.starts_with("NO VERDICT: the check itself failed on"), "{out}");
    std::fs::remove_file(bench.path("broken")).expect("removed");
    let out = sweep(0);
    assert!(out.starts_with("GREEN: all"), "{out}");
}
