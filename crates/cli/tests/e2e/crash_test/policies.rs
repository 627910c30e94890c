//! Programs on FFS of Seekless: under one policy, and under every policy from one run.

use super::bench::{Bench, DURABLE, FORGETFUL, ROWS, ends_with};
use super::verdicts::{again, shell};
use serde_json::Value;
use std::process::Command;

/// Each version has a file of its own, durable with its name before it is acknowledged. Nothing is
/// ever replaced, so no policy may lose it.
const APART: &str = "for n in 1 2 3; do \
     echo version $n > {dir}/v$n; sync {dir}/v$n; sync {dir}; \
     echo $n >> $SEEKLESS_ACKS; done";
/// All versions that were acknowledged are there; the others may be there, or in part.
const ALL_APART: &str = "for n in $(seq 1 ${SEEKLESS_ACKED:-0}); do \
     test \"$(cat {dir}/v$n 2>/dev/null)\" = \"version $n\" || \
     { echo \"version $n is lost\"; exit 1; }; done";
/// Each version replaces the one before it, by the book: file, rename, directory.
const RENAMED: &str = "for n in 1 2 3; do \
     echo version $n > {dir}/new; sync {dir}/new; mv {dir}/new {dir}/config; sync {dir}; \
     echo $n >> $SEEKLESS_ACKS; done";
/// The same without a flush of the file or the directory.
const HASTY: &str = "for n in 1 2 3; do \
     echo version $n > {dir}/new; mv {dir}/new {dir}/config; \
     echo $n >> $SEEKLESS_ACKS; done";
/// A version that is not older than the one acknowledged. Exit code 2 for one that none wrote.
const CONFIG: &str = "test -e {dir}/config || { test -z \"$SEEKLESS_ACKED\" && exit 0; \
     echo config is gone; exit 1; }; \
     n=$(sed -n 's/^version \\([123]\\)$/\\1/p' {dir}/config); \
     test -n \"$n\" || { echo config is garbage; exit 2; }; \
     test $n -ge ${SEEKLESS_ACKED:-0} || { echo \"version $SEEKLESS_ACKED is lost\"; exit 1; }";

fn test(bench: &Bench, policy: &str, workload: &str, check: &str) -> Command {
    let mut command = bench.command("crash-test");
    command.args(["--fs", &format!("seekless:ffs:{policy}"), "--size", "8M"]);
    command.args(["--run", workload, "--check", check]);
    command
}

fn json(command: &mut Command, code: i32) -> Value {
    let ended = ends_with(command.arg("--json"), code);
    serde_json::from_str(&ended.out).expect("JSON")
}

#[test]
fn rows_with_fsync_are_green_and_leave_nothing() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(test(&bench, "async", DURABLE, ROWS).args(["--control", FORGETFUL]), 0);
    assert!(ended.out.starts_with("GREEN: all "), "{}", ended.out);
    assert!(ended.out.contains("8 MiB with seekless:ffs:async"), "{}", ended.out);
    let probes = "missing data fails as expected, control fails as expected";
    assert!(ended.out.contains(probes), "{}", ended.out);
    assert!(ended.err.contains("FUSE, served by this process"), "{}", ended.err);
    bench.assert_nothing_left();
}

#[test]
fn rows_without_fsync_are_lost_and_the_command_in_the_report_shows_it_again() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(&mut test(&bench, "async", FORGETFUL, ROWS), 1);
    assert!(ended.out.contains("lose acknowledged data"), "{}", ended.out);
    // The report names files.
    assert!(ended.out.contains("log bytes 0-18"), "{}", ended.out);
    bench.assert_no_leak();
    let shown = ends_with(&mut shell(&bench, &again(&ended.out)), 1);
    assert!(shown.out.contains("rows of 3"), "{}", shown.out);
    bench.assert_no_leak();
}

#[test]
fn a_version_with_a_file_of_its_own_is_safe_under_every_policy() {
    let Some(bench) = Bench::new() else { return };
    let mut command = test(&bench, "all", APART, ALL_APART);
    // Without a flush the same check finds losses.
    let hasty = APART.replace("sync {dir}/v$n; sync {dir};", "");
    let report = json(command.args(["--control", &hasty, "--setup", "echo set > {dir}/up"]), 0);
    assert_eq!(report["verdict"], "green");
    for one in report["policies"].as_array().expect("policies") {
        let (coverage, probes) = (&one["coverage"], &one["probes"]);
        assert!(coverage["good"].as_u64() > Some(10), "{coverage}");
        assert_eq!(probes[3]["name"], "control", "{probes}");
        assert_eq!(one["warnings"].as_array().map(Vec::len), Some(0), "{one}");
    }
    bench.assert_nothing_left();
}

#[test]
fn a_hasty_rename_loses_what_was_acknowledged() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(&mut test(&bench, "all", HASTY, CONFIG), 1);
    assert!(ended.out.starts_with("RED: bad states under async"), "{}", ended.out);
    assert!(ended.out.contains("LOST - "), "{}", ended.out);
    // Under `async` a name may reach the disk before its content.
    assert!(ended.out.contains("BROKEN - "), "{}", ended.out);
    assert!(ended.out.contains("config is garbage"), "{}", ended.out);
    let shown = ends_with(&mut shell(&bench, &again(&ended.out)), 1);
    assert!(shown.out.contains("config is garbage"), "{}", shown.out);
    bench.assert_no_leak();
}

#[test]
fn a_pause_tries_what_the_syncer_writes_between_calls() {
    let Some(bench) = Bench::new() else { return };
    let policies = |pause: &str| {
        let report = json(test(&bench, "all", RENAMED, CONFIG).args(["--pause", pause]), 1);
        let policies = report["policies"].as_array().expect("a list").clone();
        let writes = |one: &Value| one["tape"]["writes"].as_u64().expect("a number");
        let name = |one: &Value| one["policy"].as_str().expect("a name").to_owned();
        let found = |one: &Value| (name(one), (writes(one), one["verdict"].clone()));
        policies.iter().map(found).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (plain, both) = (policies("0s"), policies("31s"));
    let (few, many) = (both["async"].0, both["async-paused"].0);
    assert!(many > few + 5, "{many} writes, {few} without pauses");
    // Pauses add states: whatever is found without them is found.
    for (policy, (_, verdict)) in &plain {
        assert_eq!(&both[policy].1, verdict, "{policy}");
    }
    assert_eq!(both.len(), 2 * plain.len());
    let refused = ends_with(test(&bench, "async", APART, ALL_APART).args(["--pause", "1s"]), 2);
    assert!(refused.err.contains("give --fs seekless:ffs:all"), "{}", refused.err);
}

#[test]
fn one_run_and_its_replay_find_the_same_kinds() {
    let Some(bench) = Bench::new() else { return };
    let one = json(&mut test(&bench, "async", HASTY, CONFIG), 1);
    let all = json(&mut test(&bench, "all", HASTY, CONFIG), 1);
    let again = &all["policies"][0];
    assert_eq!(again["policy"], "async");
    assert_eq!(one["tape"]["marks"], again["tape"]["marks"]);
    // When the kernel forgets a file that was replaced depends on the host: so do the states.
    for kind in ["lost", "broken"] {
        let found = |report: &Value| report["coverage"][kind].as_u64().expect("a number") > 0;
        assert!(
            found(&one) && found(again),
            "{kind}: {} and {}",
            one["coverage"],
            again["coverage"]
        );
    }
}

#[test]
fn the_calls_of_an_earlier_test_are_tried_again_with_another_check() {
    let Some(bench) = Bench::new() else { return };
    let mut command = test(&bench, "all", HASTY, "test -d {dir}");
    let first = ends_with(command.args(["--dir", "first", "--consistency-only"]), 0);
    assert!(first.out.starts_with("GREEN"), "{}", first.out);
    let again = |dir: &str| {
        let mut command = bench.command("crash-test");
        command.args(["--fs", "seekless:ffs:all", "--calls", dir, "--check", CONFIG]);
        command
    };
    let report = json(&mut again("first"), 1);
    let direct = json(&mut test(&bench, "all", HASTY, CONFIG), 1);
    assert_eq!(report["policies"][0]["title"], "calls of first");
    // Another run of the program has its calls at other times, and so other states.
    let repeated = json(&mut again("first"), 1);
    for field in ["lost", "broken", "good"] {
        let count = |report: &Value| report["policies"][0]["coverage"][field].as_u64();
        assert_eq!(count(&report), count(&repeated), "{field}");
        assert_eq!(count(&report) > Some(0), count(&direct) > Some(0), "{field}");
    }
    let calls = bench.path("first/run.calls");
    let mut bytes = std::fs::read(&calls).expect("a recording");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&calls, bytes).expect("written");
    let damaged = ends_with(&mut again("first"), 3);
    assert!(damaged.err.contains("run.calls is damaged at byte"), "{}", damaged.err);
    let missing = ends_with(&mut again("nowhere"), 1);
    assert!(missing.err.contains("nowhere/base.img"), "{}", missing.err);
    let refused = ends_with(test(&bench, "all", APART, ALL_APART).args(["--calls", "first"]), 2);
    assert!(refused.err.contains("cannot be used with"), "{}", refused.err);
    bench.assert_no_leak();
}

#[test]
fn states_with_equal_trees_are_checked_once() {
    let Some(bench) = Bench::new() else { return };
    // The check notes each time that it runs, outside of the state.
    let noted = format!("echo >> {}; {ALL_APART}", bench.shown("runs"));
    let report = json(&mut test(&bench, "async", APART, &noted), 0);
    let tried = report["coverage"]["tried"].as_u64().expect("a number");
    let runs = bench.lines("runs").len() as u64;
    assert!(runs > 6 && runs < tried, "{runs} checks of {tried} states");
}

#[test]
fn what_says_nothing_has_no_verdict() {
    let Some(bench) = Bench::new() else { return };
    let blind = ends_with(&mut test(&bench, "all", APART, "test -e {dir}"), 6);
    assert!(blind.out.contains("NO VERDICT: the check cannot fail"), "{}", blind.out);
    let silent = ends_with(&mut test(&bench, "all", "echo 1 > {dir}/x", ROWS), 3);
    assert!(silent.err.contains("acknowledged nothing"), "{}", silent.err);
    let idle = "ls {dir}; echo 1 >> $SEEKLESS_ACKS";
    for policy in ["async", "all"] {
        let idle = ends_with(&mut test(&bench, policy, idle, ROWS), 3);
        assert!(idle.err.contains("--run wrote nothing"), "{}", idle.err);
    }
    let device = ends_with(&mut test(&bench, "async", APART, "fsck {device}"), 2);
    assert!(device.err.contains("does not contain {dir}"), "{}", device.err);
    bench.assert_no_leak();
}

#[test]
fn a_check_that_hangs_or_unmounts_leaves_nothing() {
    let Some(bench) = Bench::new() else { return };
    let hang = format!("test -z \"$SEEKLESS_ACKED\" || sleep 1000; {ROWS}");
    let mut command = test(&bench, "async", DURABLE, &hang);
    let hung = ends_with(command.args(["--timeout", "1s", "--consistency-only"]), 0);
    assert!(hung.out.starts_with("GREEN"), "{}", hung.out);
    let mut command = test(&bench, "async", DURABLE, &hang);
    let hung = ends_with(command.args(["--timeout", "1s"]), 6);
    assert!(hung.err.contains("takes longer than its time limit"), "{}", hung.err);
    bench.assert_no_leak();
    let left = format!("{DURABLE}; umount -l {{dir}}; echo 4 >> $SEEKLESS_ACKS");
    let gone = ends_with(&mut test(&bench, "async", &left, ROWS), 6);
    assert!(gone.err.contains("unmounted the disk"), "{}", gone.err);
    bench.assert_no_leak();
}
