//! `seekless sim-fs`: every program over several layouts, and command lines that mean nothing.

use crate::harness::seekless;
use serde_json::Value;

fn report(args: &[&str]) -> Value {
    let all = [&["sim-fs", "--json"], args].concat();
    let output = seekless().args(&all).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refused(args: &[&str], part: &str) {
    let output = seekless().arg("sim-fs").args(args).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.contains(part), "{args:?}: {said}");
    assert!(output.stdout.is_empty());
}

/// Each program, with few files.
const PROGRAMS: [&[&str]; 11] = [
    &["--program", "burst", "--file-size", "1M", "--updates", "50", "--idle", "20"],
    &["--program", "micro", "--files", "20", "--sizes", "1k,70k"],
    &["--program", "small", "--files", "100"],
    &["--program", "large"],
    &["--program", "news", "--files", "400"],
    &["--program", "pairs", "--files", "200"],
    &["--program", "postmark", "--files", "50", "--transactions", "100"],
    &["--program", "sdet"],
    &["--program", "ssh"],
    &["--program", "tree"],
    &["--program", "update", "--file-size", "1M", "--updates", "50"],
];

#[test]
fn every_program_ends_on_every_layout() {
    for program in PROGRAMS {
        for layout in ["inplace", "vlog", "loge", "dcd", "lfs", "wolf", "hylog", "lld"] {
            let fragment = if layout == "inplace" { "1k" } else { "4k" };
            let args = ["--layout", layout, "--disk", "st19101", "--fragment", fragment];
            let report = report(&[program, &args].concat());
            let phases = report["phases"].as_array().expect("phases");
            assert!(!phases.is_empty(), "{program:?} {layout}");
            for phase in phases {
                let calls = phase["calls"].as_u64().expect("a number");
                let by_call = phase["by_call"].as_object().expect("calls by kind");
                let sum: u64 = by_call.values().filter_map(|one| one["calls"].as_u64()).sum();
                assert!(calls > 0 && calls == sum, "{program:?} {layout}: {phase:#}");
                assert!(phase["settled_seconds"].as_f64() >= phase["elapsed_seconds"].as_f64());
            }
            let wrote = |phase: &Value| {
                let spent = phase["disk_time"][0]["spent"].as_array().cloned().unwrap_or_default();
                spent.iter().any(|one| one["what"].as_str().is_some_and(|w| w.ends_with("writes")))
            };
            assert!(phases.iter().any(wrote), "{program:?} {layout}: something reaches the disk");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_one_does_not() {
    let run = |seed: &str| {
        let args = ["--program", "postmark", "--users", "4", "--seed", seed, "--host", "p3-500"];
        let mut report = report(&[&args[..], &["--disk", "barracuda"]].concat());
        assert_eq!(report["users"], 4);
        for phase in report["phases"].as_array_mut().expect("phases") {
            for figure in ["host_seconds", "simulated_calls_per_second"] {
                assert!(phase[figure].take().as_f64().is_some(), "{figure}");
            }
        }
        report
    };
    let one = run("1");
    assert_eq!(one, run("1"));
    assert_ne!(one["phases"], run("2")["phases"]);
    let factors: Vec<f64> = one["sensitivity"]
        .as_array()
        .expect("half and double")
        .iter()
        .filter_map(|one| one["factor"].as_f64())
        .collect();
    assert_eq!(factors, [0.5, 2.0]);
    let settled = |at: usize| one["sensitivity"][at]["phases"][0]["settled_seconds"].as_f64();
    assert!(settled(0) < settled(1), "a slower CPU takes longer");
}

/// Claim J20 fixes the host of paper 001: 109 us for a pair. The rest is what the program adds.
#[test]
fn pairs_take_the_time_that_their_host_was_calibrated_for() {
    let args = ["--program", "pairs", "--files", "5000", "--disk", "cheetah9lp"];
    let report = report(&[&args[..], &["--host", "p3-500"]].concat());
    let pairs = report["phases"][0]["files_per_second"].as_f64().expect("a number");
    assert!((8200.0..10_100.0).contains(&pairs), "{pairs} pairs/s, claimed are 9142");
}

#[test]
fn what_means_nothing_is_refused() {
    refused(&["--program", "compile", "--disk", "st19101"], "micro");
    refused(&["--program", "small", "--disk", "pdp11"], "no built-in disk");
    let small = ["--program", "small", "--disk", "st19101"];
    let with = |more: &[&'static str]| [&small[..], more].concat();
    refused(&with(&["--host", "pdp11"]), "known are none, p3-500");
    refused(&with(&["--users", "0"]), "must be 1 to");
    refused(&with(&["--files", "0"]), "0");
    refused(&with(&["--transactions", "5"]), "the program small has no use for it");
    refused(&with(&["--sizes", "4k"]), "the program small has no use for it");
    refused(&with(&["--placements", "2"]), "choose --program pairs");
    refused(&with(&["--file-size", "1M"]), "choose --program update");
    refused(&with(&["--updates", "5"]), "choose --program update");
    refused(&with(&["--warm-up", "5"]), "choose --program update");
    refused(&with(&["--rest", "5"]), "choose --program tree or update");
    refused(&with(&["--policy", "brave"]), "async");
    refused(&with(&["--no-data-order"]), "choose --policy soft");
    refused(&["--program", "ssh", "--disk", "st19101", "--files", "5"], "no use for it");
    refused(&with(&["--size", "1T"]), "layout inplace has room for");
    refused(&with(&["--block", "3k"]), "block");
    refused(&with(&["--log", "st19101"]), "the layout inplace has no use for it");
    refused(&["--program", "tree", "--files", "5", "--disk", "st19101"], "no use for it");
    let postmark = ["--program", "postmark", "--disk", "st19101", "--transactions", "5"];
    refused(&[&postmark[..], &["--sizes", "4k"]].concat(), "--sizes: the program postmark has");
}

/// A program that cannot go on fails, and says where.
#[test]
fn a_full_file_system_ends_the_run() {
    let args = ["sim-fs", "--program", "large", "--disk", "st19101", "--size", "4M"];
    let output = seekless().args(args).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("sequential write") && said.contains("no space left"), "{said}");
}

/// The volume answers what the file system has sent: by kind, by cause and by size.
#[test]
fn responses_of_the_volume_add_up() {
    let args = ["--program", "update", "--disk", "st19101", "--updates", "100"];
    let args = [&args[..], &["--file-size", "1M", "--warm-up", "10"]].concat();
    let report = report(&args);
    let phases = report["phases"].as_array().expect("phases");
    for phase in phases {
        let responses = &phase["responses"];
        let causes = responses["causes"].as_array().expect("causes");
        let count = |part: &str| -> u64 {
            let of =
                causes.iter().filter(|one| one["cause"].as_str().is_some_and(|c| c.contains(part)));
            of.filter_map(|one| one["requests"].as_u64()).sum()
        };
        let sizes = responses["write_sizes"].as_object().expect("sizes");
        let sized: u64 = sizes.values().filter_map(Value::as_u64).sum();
        let writes = responses["writes"]["requests"].as_u64();
        assert_eq!((writes, writes), (Some(count("writes")), Some(sized)), "{responses:#}");
        assert!(count("data writes") >= 100, "an update is a write: {responses:#}");
        let shares = responses["writes"]["shorter"].as_array().expect("a histogram");
        let shares: Vec<f64> = shares.iter().filter_map(|one| one["share"].as_f64()).collect();
        assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
    }
    let updates = |phase: usize| phases[phase]["responses"]["writes"]["requests"].as_u64();
    assert!(updates(0) > updates(1), "the inode is written, too");
    let text = seekless().arg("sim-fs").args(args).arg("--responses").output().expect("it runs");
    assert!(String::from_utf8_lossy(&text.stdout).contains("responses of the volume"));
}

const LOGGED: [&str; 4] = ["wafs-1sync", "wafs-1async", "wafs-2sync", "wafs-2async"];

/// The sum of a counter of the file system over the phases of a report.
fn counted(report: &Value, name: &str) -> f64 {
    let phases = report["phases"].as_array().expect("phases").iter();
    phases.map(|phase| phase["file_system"][name].as_f64().expect(name)).sum()
}

fn seconds(report: &Value) -> f64 {
    let phases = report["phases"].as_array().expect("phases").iter();
    phases.map(|phase| phase["elapsed_seconds"].as_f64().expect("a number")).sum()
}

#[test]
fn every_program_ends_under_each_policy_with_a_log() {
    for (program, policy) in PROGRAMS.iter().flat_map(|p| LOGGED.map(|policy| (p, policy))) {
        let args = ["--policy", policy, "--disk", "st19101", "--fragment", "1k"];
        let report = report(&[*program, &args[..]].concat());
        assert!(counted(&report, "log groups") > 0.0, "{program:?} {policy}");
        let journal = |disk: usize| {
            let phases = report["phases"].as_array().expect("phases").iter();
            let of = phases.flat_map(|phase| phase["disk_time"][disk]["spent"].as_array());
            let all: Vec<&str> = of.flatten().filter_map(|one| one["what"].as_str()).collect();
            let others = ["data writes", "metadata writes"];
            (all.contains(&"journal writes"), others.iter().any(|other| all.contains(other)))
        };
        let apart = policy.starts_with("wafs-2");
        assert_eq!(journal(0).0, !apart, "{program:?} {policy}: a log on the first disk");
        assert_eq!(journal(1), (apart, false), "{program:?} {policy}: the second disk");
    }
}

/// A log apart works over each layout, if fragments are blocks of the volume.
#[test]
fn a_log_lies_over_each_layout() {
    for (layout, policy) in
        ["vlog", "loge", "dcd", "lfs"].iter().flat_map(|l| LOGGED.map(|p| (l, p)))
    {
        let args = ["--program", "small", "--files", "50", "--disk", "st19101"];
        let report = report(&[&args[..], &["--layout", layout, "--policy", policy]].concat());
        assert!(counted(&report, "log groups") > 0.0, "{layout} {policy}");
    }
}

#[test]
fn options_of_a_log_have_their_effect() {
    let run = |policy: &str, more: &[&str]| {
        let args = ["--program", "small", "--files", "100", "--users", "4", "--disk", "cheetah9lp"];
        report(&[&args[..], &["--no-write-cache", "--policy", policy], more].concat())
    };
    let plain = run("wafs-1sync", &[]);
    assert_eq!(plain["journal"]["data"], "ordered");
    assert_eq!(plain["journal"]["group_commit"], true);
    let alone = run("wafs-1sync", &["--group-commit", "off"]);
    assert_eq!(alone["journal"]["group_commit"], false);
    let [shared, own] = [&plain, &alone].map(|report| counted(report, "log writes"));
    assert!(own > shared * 1.5, "{own} writes of the log, {shared} if calls share them");
    let late = run("wafs-1sync", &["--data", "writeback"]);
    assert_eq!(late["journal"]["data"], "writeback");
    assert!(seconds(&late) < seconds(&plain) * 0.9, "content does not go first");
    let sized = run("wafs-1sync", &["--journal-size", "2M"]);
    // Two blocks are superblocks.
    assert_eq!(sized["journal"]["log_bytes"], (2 << 20) - 2 * 4096);
    let apart = ["--journal-size", "2M", "--data", "writeback"];
    let other = run("wafs-2sync", &[&["--journal", "hp97560"], &apart[..]].concat());
    assert_eq!(other["disk"], "cheetah9lp, journal on hp97560");
    assert_eq!(other["journal"]["log_bytes"], (2 << 20) - 2 * 4096);
    let equal = run("wafs-2sync", &apart);
    assert_eq!(equal["disk"], "cheetah9lp, journal on cheetah9lp");
    assert!(seconds(&other) > seconds(&equal) * 1.5, "a disk of 4,002 rpm");
    assert!(run("soft", &[])["journal"].is_null(), "no log, no word of it");
}

#[test]
fn options_of_a_log_are_refused_where_they_mean_nothing() {
    let small = ["--program", "small", "--disk", "st19101"];
    let with = |more: &[&'static str]| [&small[..], more].concat();
    for flag in [
        ["--data", "writeback"],
        ["--data", "ordered"],
        ["--group-commit", "off"],
        ["--journal-size", "4M"],
        ["--journal", "st19101"],
    ] {
        refused(&with(&flag), &format!("{}: the policy async has no use for it", flag[0]));
    }
    let here = ["--policy", "wafs-1sync"];
    refused(&with(&[&here[..], &["--journal", "st19101"]].concat()), "choose --policy wafs-2sync");
    refused(&with(&[&here[..], &["--journal-size", "100k"]].concat()), "use 1M to");
    refused(&with(&[&here[..], &["--group-commit", "maybe"]].concat()), "on");
    refused(&with(&[&here[..], &["--data", "journal"]].concat()), "ordered");
    refused(&with(&["--policy", "wafs-2sync", "--journal", "pdp11"]), "no built-in disk");
    let large = ["--policy", "wafs-2sync", "--journal-size", "64G"];
    refused(&with(&large), "the disk st19101 has");
    let vlog = ["--layout", "vlog", "--fragment", "1k", "--policy", "wafs-1async"];
    refused(&with(&vlog), "writes single sectors");
}

/// Claim J22 fixes what ssh computes, from FFS-async on the platform of paper 001 alone.
#[test]
fn ssh_takes_the_time_that_it_was_calibrated_for() {
    let disk = ["--disk", "cheetah9lp", "--no-write-cache", "--block", "8k", "--fragment", "1k"];
    let args = ["--program", "ssh", "--host", "p3-500"];
    let report = report(&[&args[..], &disk].concat());
    for (phase, seconds) in [(0, 1.02), (1, 10.38), (2, 42.60)] {
        let measured = report["phases"][phase]["elapsed_seconds"].as_f64().expect("a number");
        assert!((measured / seconds - 1.0).abs() < 0.02, "phase {phase}: {measured} s");
    }
}

/// Without the order of content fewer images are rolled back, but names are ordered still.
#[test]
fn the_order_of_content_can_be_left_out() {
    let args = ["--program", "postmark", "--policy", "soft", "--disk", "cheetah9lp"];
    let small = ["--memory", "512K", "--files", "300", "--no-write-cache"];
    let args = [&args[..], &small].concat();
    let (with, without) = (report(&args), report(&[&args[..], &["--no-data-order"]].concat()));
    let [ordered, free] = [&with, &without].map(|report| counted(report, "images rolled back"));
    assert!(0.0 < free && free < ordered, "{ordered} images were rolled back, {free} without");
    assert!(with["data_order"].is_null() && without["data_order"] == false, "it is named");
    let text =
        seekless().arg("sim-fs").args(args).arg("--no-data-order").output().expect("it runs");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("(soft, content in no order)"), "{text}");
}

/// What a durable update takes, in milliseconds.
fn update_ms(more: &[&str]) -> f64 {
    let args = ["--program", "burst", "--file-size", "2M", "--updates", "300", "--fs", "minix"];
    let report = report(&[&args[..], &["--disk", "st19101"], more].concat());
    let updates = &report["phases"][0]["updates"];
    assert_eq!(updates["updates"], 300, "{updates:#}");
    updates["latency_ms"]["mean"].as_f64().expect("a number")
}

#[test]
fn a_cache_that_survives_a_power_cut_answers_at_once() {
    let plain = update_ms(&["--layout", "lld"]);
    let kept = update_ms(&["--layout", "lld", "--nvram", "4M"]);
    assert!(plain > 0.1 && kept < 0.01 * plain, "{plain} ms, {kept} ms with NVRAM");
    // A file that does not fit has to go out.
    let small = update_ms(&["--layout", "lld", "--nvram", "1M"]);
    assert!(small > kept, "{small} ms, {kept} ms where it fits");
    refused(
        &["--program", "small", "--disk", "st19101", "--policy", "sync", "--nvram", "4M"],
        "choose async, atomic or unit",
    );
    refused(&["--program", "small", "--disk", "st19101", "--nvram", "4k"], "must hold");
    refused(&["--program", "small", "--disk", "st19101", "--nvram-flush", "whole"], "--nvram");
}

#[test]
fn a_log_can_lie_on_another_layout() {
    let args = ["--program", "small", "--files", "50", "--disk", "st19101"];
    let report = report(&[&args[..], &["--layout", "lld", "--base", "vlog"]].concat());
    assert_eq!(report["disk"], "vlog on st19101");
    let volume = &report["phases"][0]["volume"];
    assert!(volume["commits"].as_f64() > Some(0.0), "the virtual log commits: {volume:#}");
    refused(
        &[&args[..], &["--layout", "inplace", "--base", "vlog"]].concat(),
        "on the disk itself",
    );
}

#[test]
fn read_ahead_is_of_disks_with_a_track_buffer() {
    let reads = |how: &str| {
        let args = ["--program", "large", "--layout", "vlog", "--disk", "st19101"];
        let report = report(&[&args[..], &["--read-ahead", how]].concat());
        let phases = report["phases"].as_array().expect("phases");
        let read = phases.iter().find(|one| one["phase"] == "sequential read").expect("it is run");
        read["elapsed_seconds"].as_f64().expect("a number")
    };
    assert!(reads("none") > 1.1 * reads("whole-track"));
    let cached = ["--program", "small", "--disk", "cheetah9lp", "--read-ahead", "none"];
    refused(&cached, "no track buffer");
}
