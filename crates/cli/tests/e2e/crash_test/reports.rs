//! Reports for programs, build servers and browsers; sweeps in parts and with a budget.

use super::bench::{Bench, DURABLE, FORGETFUL, ROWS, ends_with};
use std::collections::BTreeSet;
use std::fs;

#[test]
fn json_has_every_state_with_its_verdict_and_a_short_name() {
    let Some(bench) = Bench::new() else { return };
    let ended = ends_with(bench.thorough(FORGETFUL, ROWS).arg("--json"), 1);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((&report["verdict"], &report["exit_code"]), (&"red".into(), &1.into()));
    let states = report["states"].as_array().expect("states");
    assert_eq!(Some(states.len() as u64), report["coverage"]["space"].as_u64());
    let kinds = states.iter().map(|state| state["kind"].as_str().expect("a kind"));
    let kinds: BTreeSet<&str> = kinds.collect();
    assert_eq!(kinds, BTreeSet::from(["good", "lost"]));
    let name = |state: &serde_json::Value| state["id"].as_str().expect("a name").to_owned();
    let names: BTreeSet<String> = states.iter().map(name).collect();
    assert_eq!(names.len(), states.len(), "names are unique");
    assert!(names.iter().all(|name| name.chars().count() <= 60), "{names:?}");
    let groups = report["groups"].as_array().expect("groups");
    let bad = |state: &&serde_json::Value| state["kind"] == "lost";
    let of_groups: u64 = groups.iter().map(|group| group["states"].as_u64().unwrap_or(0)).sum();
    assert_eq!(of_groups, states.iter().filter(bad).count() as u64);
}

#[test]
fn files_for_build_servers_and_browsers_are_written() {
    let Some(bench) = Bench::new() else { return };
    let mut test = bench.test(FORGETFUL, ROWS);
    ends_with(test.args(["--junit", "report.xml", "--html", "report.html"]), 1);
    let junit = fs::read_to_string(bench.path("report.xml")).expect("a report");
    assert!(junit.starts_with("<?xml") && junit.contains("<failure"), "{junit}");
    assert!(junit.trim_end().ends_with("</testsuites>"), "{junit}");
    let html = fs::read_to_string(bench.path("report.html")).expect("a report");
    assert!(html.contains("RED") && html.trim_end().ends_with("</html>"), "{html}");
    assert!(!html.contains("src=\"http") && !html.contains("href=\"http"), "it is self-contained");
    let ended = bench.test(DURABLE, ROWS).args(["--junit", "no/dir/report.xml"]).output();
    let said = String::from_utf8_lossy(&ended.expect("it runs").stderr).into_owned();
    assert!(said.contains("no/dir/report.xml"), "{said}");
}

#[test]
fn shards_share_their_verdicts_and_a_third_run_checks_nothing() {
    let Some(bench) = Bench::new() else { return };
    ends_with(bench.test(DURABLE, ROWS).args(["--dir", "run"]), 0);
    // By a variable: verdicts are of a check and the content of the files that it names.
    let check = format!("echo $SEEKLESS_STATE >> $CHECKED; {ROWS}");
    let is_state = |name: &String| !name.ends_with("state") && !name.ends_with("data");
    let checked = || bench.lines("checked").into_iter().filter(is_state).count();
    let replay = |shard: Option<&str>| {
        let mut replay = bench.command("replay-crashes");
        replay.env("CHECKED", bench.path("checked"));
        replay.args(["run/run.tape", "--base", "run/base.img", "--fs", "ext4", "--check", &check]);
        replay.args(["--samples", "8", "--exhaustive", "2", "--results", "verdicts", "--json"]);
        replay.args(shard.map(|shard| ["--shard", shard]).into_iter().flatten());
        serde_json::from_str::<serde_json::Value>(&ends_with(&mut replay, 0).out).expect("JSON")
    };
    let first = replay(Some("1/2"));
    let space = first["coverage"]["space"].as_u64().expect("a number");
    let of_first = checked();
    assert!(of_first > 0 && (of_first as u64) < space, "{of_first} of {space}");
    replay(Some("2/2"));
    let of_both = checked();
    assert!(of_both > of_first, "the second shard checks states of its own");
    let whole = replay(None);
    assert_eq!(checked(), of_both, "every verdict was known");
    assert_eq!(whole["verdict"], "green");
    assert_eq!(whole["coverage"]["complete"], true);
    assert_eq!(whole["states"].as_array().map(|all| all.len() as u64), Some(space));
}

#[test]
fn verdicts_of_another_check_or_a_new_recording_are_refused() {
    let Some(bench) = Bench::new() else { return };
    for option in [["--results", "verdicts"], ["--shard", "1/2"]] {
        let ended = ends_with(bench.test(DURABLE, ROWS).args(option), 2);
        assert!(ended.err.contains("share one recording, this makes a new one"), "{}", ended.err);
        assert!(ended.err.contains("replay-crashes"), "{}", ended.err);
    }
    ends_with(bench.test(DURABLE, ROWS).args(["--dir", "run"]), 0);
    let dir = bench.path("run");
    ends_with(bench.replay(&dir, ROWS).args(["--results", "verdicts"]), 0);
    let other = format!("true; {ROWS}");
    let ended = ends_with(bench.replay(&dir, &other).args(["--results", "verdicts"]), 1);
    assert!(ended.err.contains("another recording or check"), "{}", ended.err);
    bench.assert_no_leak();
}

#[test]
fn a_budget_tells_what_share_was_covered() {
    let Some(bench) = Bench::new() else { return };
    // It names the device, so that states with equal trees are all checked.
    let slow = "case $SEEKLESS_STATE in *state|*data) ;; *) sleep 0.3;; esac; : {device}";
    let slow = format!("{slow}; {ROWS}");
    let ended = ends_with(bench.thorough(DURABLE, &slow).args(["--budget", "1s"]), 8);
    let headline = ended.out.lines().next().unwrap_or_default();
    assert!(headline.starts_with("GREEN SO FAR: all "), "{headline}");
    assert!(headline.contains("% of the space; the others were not tried)"), "{headline}");
    assert!(ended.out.contains("cut short by the budget of 1"), "{}", ended.out);
    let budgeted = |share: &str, code| {
        let mut test = bench.thorough(DURABLE, &slow);
        let ended =
            ends_with(test.args(["--budget", "1s", "--json", "--min-coverage", share]), code);
        serde_json::from_str::<serde_json::Value>(&ended.out).expect("JSON")
    };
    let report = budgeted("1%", 0);
    assert_eq!((&report["verdict"], &report["exit_code"]), (&"green-so-far".into(), &0.into()));
    assert_eq!(report["coverage"]["cut_short"], true);
    assert_eq!(budgeted("99%", 8)["exit_code"], 8);
    let whole = ends_with(bench.test(DURABLE, ROWS).args(["--budget", "600s"]), 0);
    assert!(whole.out.starts_with("GREEN: all"), "{}", whole.out);
}

#[test]
fn a_log_has_a_line_of_progress_every_ten_seconds() {
    let Some(bench) = Bench::new() else { return };
    let slow = "case $SEEKLESS_STATE in *state|*data) ;; *) sleep 0.5;; esac; : {device}";
    let slow = format!("{slow}; {ROWS}");
    let mut test = bench.thorough(DURABLE, &slow);
    let ended = ends_with(test.args(["--budget", "12s", "--jobs", "1"]), 8);
    let lines: Vec<&str> = ended.err.lines().filter(|line| line.contains(" s left")).collect();
    assert_eq!(lines.len(), 1, "{}", ended.err);
    assert!(lines[0].starts_with("seekless: ") && lines[0].contains(" states, 0 bad, "));
}

#[test]
fn the_first_bad_state_ends_the_sweep_where_that_is_asked() {
    let Some(bench) = Bench::new() else { return };
    let mut test = bench.test(FORGETFUL, ROWS);
    let ended = ends_with(test.args(["--fail-fast", "--json", "--jobs", "1"]), 1);
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    let bad = report["coverage"]["lost"].as_u64().expect("a number");
    assert!((1..=2).contains(&bad), "{bad}");
    assert_eq!(report["coverage"]["complete"], false);
}
