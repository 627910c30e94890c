//! `seekless sim` with traces, users and buffer pools.

use crate::harness::{run, seekless, skip, succeed, temp_dir};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const BASE: [&str; 7] = ["sim", "--layout", "inplace", "--disk", "st19101", "--age", "0"];

fn json(args: &[&str]) -> Value {
    let text = succeed(seekless().args(BASE).args(args).arg("--json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error} in {text}"))
}

fn number(value: &Value, pointer: &str) -> f64 {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("{pointer} is not a number in {value:#}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// A hundred requests, ten milliseconds apart, of every kind.
fn small() -> String {
    let mut out = String::from("# time,flags,sector,sectors\n");
    for index in 0..100_u64 {
        let (seconds, sector) = (7.0 + index as f64 / 100.0, index * 7919 % 4000 * 8 + 1_000_000);
        let line = match index % 10 {
            0 => format!("{seconds:.6},RM,{sector},8"),
            1 => format!("{seconds:.6},FWFSM,{sector},8"),
            2 => format!("{seconds:.6},FWS,0,0"),
            3 => format!("{seconds:.6},D,{sector},64"),
            4 => format!("{seconds:.6},WS,{},5", sector + 1),
            _ => format!("{seconds:.6},W,{sector},16"),
        };
        writeln!(out, "{line}").expect("strings grow");
    }
    out
}

#[test]
fn a_trace_is_replayed_plain_and_compressed() {
    let dir = temp_dir();
    let (plain, packed) = (dir.path().join("small.csv"), dir.path().join("small.csv.zst"));
    fs::write(&plain, small()).expect("write");
    // Frames may follow one another.
    let all = small();
    let (first, second) = all.split_at(700);
    let frame = |part: &str| compress_to_vec(part.as_bytes(), CompressionLevel::Fastest);
    fs::write(&packed, [frame(first), frame(second)].concat()).expect("write");
    let mut reports = Vec::new();
    for file in [&plain, &packed] {
        let report = json(&["--trace", text(file)]);
        assert_eq!(number(&report, "/trace/records"), 100.0);
        assert_eq!(number(&report, "/requests"), 80.0);
        assert_eq!(number(&report, "/flushes/requests"), 20.0, "trims and bare flushes");
        assert_eq!(number(&report, "/trace/footprint/unaligned"), 10.0);
        assert_eq!(report.pointer("/trace/loop").and_then(Value::as_str), Some("open"));
        let span = number(&report, "/virtual_seconds");
        assert!((0.99..1.05).contains(&span), "as long as the trace: {span}");
        reports.push(number(&report, "/latency_ms/mean"));
    }
    assert_eq!(reports[0], reports[1]);
    let closed = json(&["--trace", text(&plain), "--loop", "closed", "--users", "4"]);
    assert!(number(&closed, "/virtual_seconds") < 0.7, "no pauses");
    let faster = json(&["--trace", text(&plain), "--speed", "2", "--map", "fold"]);
    assert!((0.49..0.6).contains(&number(&faster, "/virtual_seconds")));
    let shown = succeed(seekless().args(BASE).args(["--trace", text(&plain)]));
    assert!(shown.contains("small.csv, 100 records, open loop"), "{shown}");
    assert!(shown.contains("footprint") && shown.contains("10 requests widened"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

#[test]
fn what_is_wrong_with_a_trace_is_named() {
    let dir = temp_dir();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).expect("write");
        path
    };
    let bad = file("bad.csv", b"1,R,0,8\n2,R,8\n");
    let backwards = file("backwards.csv", b"1,R,0,8\n0.5,R,0,8\n");
    let empty = file("empty.csv", b"# nothing\n");
    let mut broken = compress_to_vec(small().as_bytes(), CompressionLevel::Fastest);
    broken.truncate(broken.len() / 2);
    let broken = file("broken.zst", &broken);
    let scattered: String =
        (0..500).map(|index| format!("{index},W,{},8\n", index * 100_000)).collect();
    let scattered = file("scattered.csv", scattered.as_bytes());
    let fine = file("fine.csv", small().as_bytes());
    for (args, part) in [
        (vec!["--trace", text(&bad)], "bad.csv:2: there is no number of sectors"),
        (vec!["--trace", text(&backwards)], "backwards.csv:2: this time is before"),
        (vec!["--trace", text(&backwards), "--speed", "2e6"], "at most 1000000"),
        (vec!["--trace", text(&empty)], "no requests"),
        (vec!["--trace", text(&broken)], "broken.zst"),
        (vec!["--trace", text(&scattered)], "fold"),
        (vec!["--trace", "/nowhere/at-all.csv"], "at-all.csv"),
        (vec!["--trace", text(&fine), "--speed", "0"], "--speed"),
        (vec!["--trace", text(&fine), "--users", "3", "--loop", "open"], "--loop closed"),
        (vec!["--trace", text(&fine), "--loop", "closed", "--speed", "2"], "--speed"),
        (vec!["--trace", text(&fine), "--depth", "3"], "--depth"),
        (vec!["--generate", "tpcc", "--loop", "open"], "--users"),
        (vec!["--loop", "closed"], "--trace"),
        (vec!["--generate", "tpcc", "--users", "0"], "--users"),
        (vec!["--generate", "tpcc", "--pool", "1G"], "smaller"),
        (vec!["--distribution", "zipf"], "knuth:80,20"),
    ] {
        let ended = run(seekless().args(BASE).args(&args));
        assert_eq!(ended.code(), 2, "{args:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{args:?}: {}", ended.err);
    }
}

#[test]
fn pools_absorb_and_skew_helps_them() {
    let common = ["--requests", "4000", "--users", "8", "--pool", "2M"];
    let hits = |more: &[&str]| {
        let report = json(&[&common[..], &["--read-share", "0.5"], more].concat());
        assert_eq!(number(&report, "/requests"), 4000.0);
        number(&report, "/trace/pool/hit_ratio")
    };
    let (uniform, skewed) = (hits(&[]), hits(&["--distribution", "knuth:90,10"]));
    assert!(skewed > uniform + 0.2, "{skewed} and {uniform}");
    assert!((uniform - 512.0 / 4506.0).abs() < 0.04, "the share of the data it holds: {uniform}");
    let cleaned = json(&[&common[..], &["--pool-clean", "20ms"]].concat());
    assert!(number(&cleaned, "/trace/pool/cleaned") > 100.0);
}

#[test]
fn a_database_is_compared_over_utilisations() {
    let args = ["--layout", "vlog", "--generate", "tpcc", "--users", "10", "--pool", "1M"];
    let more = ["--requests", "6000", "--utilisation", "0.5,0.8,0.99", "--scheduler", "look"];
    let table = succeed(seekless().args(BASE).args(args).args(more));
    assert!(
        table.contains("synthetic TPC-C") && table.contains("over the first layout"),
        "{table}"
    );
    assert!(table.contains("left out: utilisation 0.99: layout vlog"), "{table}");
    let lines = table.lines().filter(|line| !line.starts_with("left out"));
    assert!(lines.into_iter().all(|line| line.chars().count() <= 100), "{table}");
    let found = json(&[&args[..], &more[..]].concat());
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 5, "{found:#}");
    assert_eq!(number(&rows[0], "/throughput_factor"), 1.0);
}

#[test]
fn a_scheduler_shortens_seeks() {
    let seek = |rule: &str| {
        let args = ["--users", "16", "--requests", "3000", "--scheduler", rule];
        number(&json(&args), "/breakdown_ms/seek")
    };
    let (fcfs, look, sptf) = (seek("fcfs"), seek("look"), seek("sptf"));
    assert!(look < fcfs && sptf < fcfs, "{fcfs} {look} {sptf}");
}

/// Captured traces, which are not part of the repository: a directory that the variable names, or
/// `shared` beside the checkout.
fn captured(name: &str) -> Option<PathBuf> {
    let dir = match std::env::var_os("SEEKLESS_TRACES") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/traces"),
    };
    let file = dir.join(name);
    if !file.is_file() {
        skip("there are no captured traces; SEEKLESS_TRACES can name their directory");
        return None;
    }
    Some(file)
}

#[test]
fn captured_traces_are_replayed() {
    for (name, records, unaligned) in
        [("self-apache133.csv.zst", 5684.0, 0.0), ("self-sshbuild.csv.zst", 2407.0, 0.0)]
    {
        let Some(file) = captured(name) else { return };
        for layout in ["inplace", "vlog", "loge"] {
            let disk = ["--layout", layout, "--disk", "atlas10k:400M", "--age", "0"];
            let args = ["--trace", text(&file), "--loop", "closed", "--users", "4", "--json"];
            let report = succeed(seekless().arg("sim").args(disk).args(args));
            let report: Value = serde_json::from_str(&report).expect("JSON");
            assert_eq!(number(&report, "/trace/records"), records, "{name} on {layout}");
            assert_eq!(number(&report, "/trace/footprint/unaligned"), unaligned);
        }
    }
}

#[test]
fn the_captured_database_keeps_its_shape() {
    let Some(file) = captured("self-tpcc.csv.zst") else { return };
    let args =
        ["--disk", "atlas10k:1G", "--layout", "inplace", "--age", "0", "--requests", "60000"];
    let trace = ["--trace", text(&file), "--loop", "closed", "--users", "20", "--json"];
    let report = succeed(seekless().arg("sim").args(args).args(trace));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(number(&report, "/trace/records"), 60_000.0);
    assert!(number(&report, "/trace/footprint/unaligned") > 0.0, "its redo log has sectors");
    assert!(number(&report, "/trace/footprint/blocks") * 4096.0 < 700e6);
}
