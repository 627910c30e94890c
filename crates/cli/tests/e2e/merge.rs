//! `seekless prove` in shards, and their reports added up.

use crate::harness::{run, seekless, succeed, temp_dir};
use serde_json::Value;
use std::fs;

const RUNS: [&str; 6] = ["prove", "--layout", "inplace", "--runs", "9", "--json"];

/// A report without what no two runs share.
fn counts(mut report: Value) -> Value {
    let fields = report.as_object_mut().expect("an object");
    for other in ["states_per_second", "runs", "missing"] {
        fields.remove(other);
    }
    report
}

#[test]
fn shards_come_to_what_one_process_does() {
    let dir = temp_dir();
    let whole = succeed(seekless().args(RUNS));
    let whole = serde_json::from_str(&whole).expect("JSON");
    let merge = |more: &[&str]| run(seekless().arg("merge").arg(dir.path()).args(more));
    for index in [3, 1, 4] {
        let report = succeed(seekless().args(RUNS).args(["--shard", &format!("{index}/4")]));
        fs::write(dir.path().join(format!("{index}.json")), report).expect("write");
    }
    let lacking = merge(&[]);
    assert_eq!(lacking.code(), 8, "{}", lacking.err);
    assert!(lacking.out.contains("missing: runs 2 to 3"), "{}", lacking.out);
    let report = succeed(seekless().args(RUNS).args(["--shard", "2/4"]));
    fs::write(dir.path().join("2.json"), &report).expect("write");
    // A task of a cluster may run twice.
    fs::write(dir.path().join("2 again.json"), &report).expect("write");
    let merged = merge(&["--json"]);
    assert_eq!(merged.code(), 0, "{}", merged.err);
    let merged: Value = serde_json::from_str(&merged.out).expect("JSON");
    assert_eq!(merged["missing"], Value::Array(Vec::new()));
    assert_eq!(counts(merged), counts(whole));
}

#[test]
fn what_is_no_report_of_the_sweep_is_refused() {
    let dir = temp_dir();
    let at = |name: &str| dir.path().join(name);
    for (name, text) in [("empty", ""), ("torn", "{\"layout\":"), ("other", "{}"), ("list", "[]")] {
        fs::write(at(name), text).expect("write");
        let ended = run(seekless().arg("merge").arg(at(name)));
        assert_eq!(ended.code(), 3, "{name}: {}", ended.err);
    }
    let report = |name: &str, more: &[&str]| {
        fs::write(at(name), succeed(seekless().args(RUNS).args(more))).expect("write");
    };
    report("one", &["--shard", "1/3"]);
    for (name, more) in [
        ("seed", &["--shard", "2/3", "--seed", "2"][..]),
        ("overlap", &["--shard", "1/2"]),
        ("more", &["--from", "1", "--shard", "2/3"]),
    ] {
        report(name, more);
        let ended = run(seekless().arg("merge").args([at("one"), at(name)]));
        assert_eq!(ended.code(), 2, "{name}: {}", ended.err);
        assert!(ended.err.contains("one and ") || ended.err.contains(" and "), "{}", ended.err);
    }
    let whole = run(seekless().args(["prove", "--layout", "inplace", "--shard", "1/2"]));
    assert_eq!(whole.code(), 2, "a share of what: {}", whole.err);
}
