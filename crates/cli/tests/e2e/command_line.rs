//! The interface for scripts: names, JSON fields, exit codes, closed pipes.

use crate::each_layout;
use crate::harness::{Server, create, run, seekless, succeed, temp_dir};
use serde_json::Value;
use std::fs;
use std::process::Stdio;

each_layout!(info_and_check_tell_what_create_made);

fn json(args: &[&str]) -> Value {
    let text = succeed(seekless().args(args));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error} in {text}"))
}

fn info_and_check_tell_what_create_made(layout: &str) {
    let dir = temp_dir();
    let image = create(dir.path(), layout, "12M");
    let path = image.to_str().expect("text");
    let info = json(&["info", path, "--json"]);
    assert_eq!(info["layout"], layout);
    assert_eq!(info["volume_bytes"], 12 << 20);
    assert_eq!(info["image_bytes"], fs::metadata(&image).expect("image").len());
    let check = json(&["check", path, "--json"]);
    assert_eq!(check["ok"], true);
    assert_eq!(check["problems"], Value::Array(Vec::new()));
    let dump = json(&["dump", path, "--json"]);
    assert!(dump["lines"][0].as_str().is_some_and(|line| line.contains(layout)), "{dump}");
    assert!(succeed(seekless().args(["info", path])).contains(layout));
    assert!(succeed(seekless().args(["check", path])).contains("no damage found"));
    assert!(succeed(seekless().args(["dump", path])).contains("superblock"));
}

#[test]
fn every_subcommand_explains_itself() {
    let help = succeed(seekless().arg("--help"));
    assert!(help.contains("Exit codes:"), "{help}");
    for name in [
        "create", "serve", "info", "check", "dump", "sim", "prove", "disk", "disks", "layouts",
        "demo",
    ] {
        assert!(help.contains(name), "{name} is missing in {help}");
        let own = succeed(seekless().args([name, "--help"]));
        assert!(own.contains("Examples:"), "{name}: {own}");
        assert!(own.lines().all(|line| line.chars().count() <= 100), "{name}: {own}");
    }
}

#[test]
fn lists_are_complete() {
    let layouts = json(&["layouts", "--json"]);
    let names: Vec<_> =
        layouts["layouts"].as_array().expect("list").iter().map(|one| &one["name"]).collect();
    assert!(names.contains(&&Value::from("inplace")) && names.contains(&&Value::from("vlog")));
    let disks = json(&["disks", "--json"]);
    for disk in disks["disks"].as_array().expect("list") {
        let name = disk["name"].as_str().expect("name");
        assert_eq!(&json(&["disks", name, "--json"]), disk);
        // The printed text is a valid specification.
        let dir = temp_dir();
        let file = dir.path().join("own.toml");
        fs::write(&file, succeed(seekless().args(["disks", name]))).expect("write");
        assert_eq!(&json(&["disks", file.to_str().expect("text"), "--json"]), disk);
    }
}

#[test]
fn a_simulation_reports_what_scripts_read() {
    let args = ["sim", "--layout", "vlog", "--disk", "st19101", "--requests", "2000", "--json"];
    let report = json(&args);
    assert!(report["simulated_requests_per_second"].as_f64().expect("number") > 0.0);
    for field in ["mean", "p50", "p99", "max"] {
        assert!(report["latency_ms"][field].as_f64().expect(field) > 0.0, "{field}");
    }
    let parts = report["breakdown_ms"].as_object().expect("parts");
    let sum: f64 = parts.values().filter_map(Value::as_f64).sum();
    let mean = report["latency_ms"]["mean"].as_f64().expect("mean");
    assert!((sum - mean).abs() < mean * 1e-3, "the parts sum up to {sum}, the mean is {mean}");
    assert!(report["write_amplification"].as_f64().expect("number") >= 1.0);
    // The same seed gives the same figures.
    assert_eq!(json(&args)["latency_ms"], report["latency_ms"]);
    let other = [args.as_slice(), &["--seed", "2"]].concat();
    assert_ne!(json(&other)["latency_ms"], report["latency_ms"]);
}

#[test]
fn the_virtual_log_beats_update_in_place_on_a_mechanical_disk() {
    let report =
        json(&["sim", "--layout", "inplace,vlog", "--disk", "st19101", "--json", "--age", "1"]);
    let rows = report["rows"].as_array().expect("rows");
    let mean = |row: &Value| row["mean_ms"].as_f64().expect("mean");
    assert!(mean(&rows[0]) > 2.0 * mean(&rows[1]), "{report:#}");
}

#[test]
fn a_sweep_reports_no_violations() {
    for layout in ["inplace", "vlog", "loge", "dcd", "lfs", "wolf", "hylog", "lld"] {
        let report = json(&["prove", "--layout", layout, "--states", "300", "--json"]);
        assert_eq!(report["violations"].as_u64(), Some(0), "{report:#}");
        assert!(report["states"].as_u64().expect("states") >= 300, "{report:#}");
        assert!(report["states_per_second"].as_f64().expect("speed") > 0.0);
    }
}

#[test]
fn what_there_is_to_prove_is_listed_for_programs_too() {
    let flags = succeed(seekless().args(["prove", "--list"]));
    let listed = json(&["prove", "--list", "--json"]);
    let subjects = listed["subjects"].as_array().expect("a list");
    let same: Vec<_> = subjects.iter().map(|one| one["flags"].as_str().expect("flags")).collect();
    assert_eq!(same, flags.lines().collect::<Vec<_>>());
    assert!(subjects[0]["name"].is_string(), "{listed}");
}

/// A policy that orders nothing breaks what another one promises; the saved violation breaks it
/// again.
#[test]
fn a_violation_of_a_file_system_is_repeated() {
    let dir = temp_dir();
    let file = dir.path().join("violation.json");
    let path = file.to_str().expect("text");
    let judged = ["prove", "--fs", "ffs", "--policy", "async", "--judge", "soft"];
    let found = run(seekless().args(judged).args(["--stop-at-first", "--save", path]));
    assert_eq!(found.code(), 1, "{found:?}");
    assert!(found.out.contains("file system ffs async, judged as soft"), "{}", found.out);
    let again = run(seekless().args(["prove", "--replay", path]));
    assert_eq!(again.code(), 1, "{again:?}");
    let story = |out: &str| {
        let (_, story) = out.split_once("case ").expect("a violation");
        story.split_once("  replay: ").expect("a command").0.to_owned()
    };
    assert_eq!(story(&again.out), story(&found.out));
    assert!(
        again.out.contains(&format!("replay: seekless prove --replay {path}")),
        "{}",
        again.out
    );
    let report = json(&["prove", "--fs", "ffs", "--states", "300", "--json"]);
    assert_eq!(report["violations"].as_u64(), Some(0), "{report:#}");
}

/// A log without an order of content breaks what one with that order promises. Without a log there
/// is no such order to choose.
#[test]
fn a_mode_of_data_is_proved_where_there_is_a_log() {
    let dir = temp_dir();
    let file = dir.path().join("violation.json");
    let path = file.to_str().expect("text");
    let late = ["prove", "--fs", "ffs", "--policy", "wafs-1async", "--data", "writeback"];
    let own = run(seekless().args(late).args(["--states", "300"]));
    assert_eq!(own.code(), 0, "{own:?}");
    let judged = ["--judge", "wafs-1async", "--stop-at-first", "--save", path];
    let found = run(seekless().args(late).args(judged));
    assert_eq!(found.code(), 1, "{found:?}");
    let again = run(seekless().args(["prove", "--replay", path]));
    assert_eq!(again.code(), 1, "{again:?}");
    let refused =
        run(seekless().args(["prove", "--fs", "ffs", "--policy", "soft"]).args(&late[5..]));
    assert_eq!(refused.code(), 2, "{refused:?}");
    assert!(refused.err.contains("--data: the policy soft keeps no log"), "{}", refused.err);
}

/// A directory of saved runs passes if each of them does. What fails is named.
#[test]
fn saved_runs_of_a_directory_are_replayed() {
    let dir = temp_dir();
    let replay = || run(seekless().args(["prove", "--replay"]).arg(dir.path()));
    let empty = replay();
    assert_eq!(empty.code(), 1, "{empty:?}");
    assert!(empty.err.contains("has no saved runs"), "{}", empty.err);
    let good = dir.path().join("good.json");
    succeed(seekless().args(["prove", "--layout", "vlog", "--case", "0", "--save"]).arg(&good));
    let passed = replay();
    assert_eq!(passed.code(), 0, "{passed:?}");
    assert!(passed.out.contains("1 saved runs pass"), "{}", passed.out);
    let judged = ["prove", "--fs", "ffs", "--policy", "async", "--judge", "soft"];
    let bad = dir.path().join("bad.json");
    let found = run(seekless().args(judged).args(["--stop-at-first", "--save"]).arg(&bad));
    assert_eq!(found.code(), 1, "{found:?}");
    let failed = replay();
    assert_eq!(failed.code(), 1, "{failed:?}");
    assert!(failed.err.contains("1 of 2 saved runs fail: "), "{}", failed.err);
    assert!(failed.err.contains("bad.json") && !failed.err.contains("good.json"), "{}", failed.err);
    // A volume of another size than the recorded one.
    let text = std::fs::read_to_string(&good).expect("saved");
    let other = text.replacen("\"device_blocks\": [", "\"device_blocks\": [1,", 1);
    assert_ne!(other, text);
    std::fs::write(&bad, other).expect("written");
    let drifted = replay();
    assert_eq!(drifted.code(), 1, "{drifted:?}");
    assert!(drifted.out.contains("the run was recorded on devices of [1, "), "{}", drifted.out);
}

/// A run that names a planted bug and passes with it does not show what it claims.
#[test]
#[cfg(debug_assertions)]
fn a_saved_run_has_to_fail_with_the_bug_that_it_names() {
    let dir = temp_dir();
    let planted = ["prove", "--layout", "inplace", "--plant", "MissingFlush"];
    let path = |name: &str| dir.path().join(name);
    let found =
        run(seekless().args(planted).args(["--stop-at-first", "--save"]).arg(path("a.json")));
    assert_eq!(found.code(), 1, "{found:?}");
    let replay = || run(seekless().args(["prove", "--replay"]).arg(dir.path()));
    let good = replay();
    assert_eq!(good.code(), 0, "{good:?}");
    assert!(good.out.contains("1 fail with their planted bug"), "{}", good.out);
    // A bug of arrays changes nothing on one device.
    let idle =
        ["prove", "--layout", "inplace", "--plant", "UnreplayedShown", "--case", "0", "--save"];
    succeed(seekless().args(idle).arg(path("b.json")));
    let bad = replay();
    assert_eq!(bad.code(), 1, "{bad:?}");
    assert!(bad.out.contains("the run passes with the planted bug UnreplayedShown"), "{}", bad.out);
}

#[test]
fn a_file_without_an_end_is_no_violation() {
    let ended = run(seekless().args(["prove", "--replay", "/dev/zero"]));
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(ended.err.contains("is longer than 1048576 bytes"), "{}", ended.err);
}

#[test]
fn usage_errors_say_what_to_do() {
    let dir = temp_dir();
    let image = dir.path().join("x.img");
    let path = image.to_str().expect("text");
    let sim = ["sim", "--layout", "vlog", "--disk", "st19101"];
    let with = |more: &[&'static str]| [sim.as_slice(), more].concat();
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (vec!["create", path, "--layout", "vlog", "--size", "5000"], "4096 and 8192"),
        (vec!["create", path, "--layout", "vlog", "--size", "ten"], "not a size"),
        (vec!["create", path, "--layout", "vlog"], "needs a size"),
        (vec!["create", path, "--layout", "vlog", "--size", "0"], "at least one block"),
        (vec!["create", path, "--layout", "best", "--size", "1M"], "inplace, vlog, loge, dcd"),
        (vec!["create", path, "--layout", "inplace", "--size", "1P"], "at most"),
        (vec!["create", path, "--layout", "loge", "--heuristic", "best"], "unknown heuristic"),
        (vec!["sim", "--layout", "vlog", "--disk", "st1910"], "known are"),
        (with(&["--empty", "--age", "7"]), "leave out --age or --empty"),
        (with(&["--age", "1e9"]), "a smaller --age"),
        (vec!["sim", "--layout", "vlog", "--disk", "./no.toml"], "cannot read"),
        (with(&["--utilisation", "1.5"]), "utilisation"),
        (with(&["--utilisation", "0.9999"]), "ask for less"),
        (with(&["--size", "6k"]), "4 KiB blocks"),
        (with(&["--size", "1G"]), "--size"),
        (with(&["--depth", "0"]), "depth"),
        (with(&["--requests", "0"]), "requests"),
        (with(&["--read-share", "2"]), "read share"),
        (with(&["--idle", "5"]), "span"),
        (with(&["--warm-up", "2000000000"]), "to warm up"),
        (with(&["--fill-percent", "75", "--sort"]), "--sort: the layout vlog"),
        (with(&["--pool", "1M", "--pool-clean", "0s"]), "--pool-clean 0s"),
        (vec!["sim", "--layout", "lfs", "--disk", "st19101", "--nvram", "1T"], "make it smaller"),
        (vec!["sim", "--layout", "hylog", "--disk", "st19101", "--interval", "0s"], "--interval"),
        (vec!["serve"], "Usage"),
        (vec!["serve", path], "--socket"),
        (vec!["serve", path, "--memory", "1M", "--socket", "s"], "--memory"),
        (vec!["serve", "--memory", "1M", "--socket", "s"], "--layout"),
        (vec!["prove", "--layout", "inplace", "--states", "0"], "--states"),
        (vec!["prove", "--layout", "loge", "--raid", "5"], "CONTRACT.md, A3"),
        (
            vec!["prove", "--layout", "vlog", "--case", "3", "--keep", "9999"],
            "its operations are 0 to",
        ),
        (
            vec!["prove", "--layout", "vlog", "--case", "3", "--keep", "1@2"],
            "has no such operations",
        ),
        (vec!["frobnicate"], "frobnicate"),
    ];
    for (args, part) in cases {
        let ended = run(seekless().args(&args));
        assert_eq!(ended.code(), 2, "{args:?}: {}", ended.err);
        assert!(ended.err.contains("error:"), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(part), "{args:?}: {}", ended.err);
        assert!(!image.exists(), "{args:?} left an image behind");
    }
}

#[test]
fn a_bad_specification_names_its_field() {
    let dir = temp_dir();
    let file = dir.path().join("bad.toml");
    let good = succeed(seekless().args(["disks", "st19101"]));
    for (line, part) in [("rpm = 0\n", "rpm"), ("colour = 1\n", "colour"), ("heads = [\n", "")] {
        let key = line.split(' ').next().expect("key");
        let rest: String = good
            .lines()
            .filter(|old| !old.starts_with(key))
            .map(|old| format!("{old}\n"))
            .collect();
        fs::write(&file, format!("{line}{rest}")).expect("write");
        let ended = run(seekless().arg("disks").arg(&file));
        assert_eq!(ended.code(), 2, "{}", ended.err);
        assert!(ended.err.contains(part) && ended.err.contains("bad.toml"), "{}", ended.err);
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    for args in [vec!["completions", "bash"], vec!["man"], vec!["layouts"], vec!["--help"]] {
        let mut child = seekless()
            .args(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.is_empty(), "{args:?}: {} {said}", ended.status);
    }
}

#[test]
fn manual_pages_and_completions_are_made() {
    let dir = temp_dir();
    succeed(seekless().arg("man").arg(dir.path()));
    for page in ["seekless.1", "seekless-serve.1", "seekless-prove.1"] {
        let text = fs::read_to_string(dir.path().join(page)).expect(page);
        assert!(text.starts_with(".") && text.contains("seekless"), "{page}");
    }
    for entry in fs::read_dir(dir.path()).expect("a directory") {
        let page = entry.expect("an entry").file_name().into_string().expect("text");
        // The pages of `help` subcommands would hold no more than the names of the others.
        assert!(!page.contains("help"), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(succeed(seekless().args(["completions", shell])).contains("seekless"), "{shell}");
    }
}

#[test]
fn memory_is_served_too() {
    let dir = temp_dir();
    let socket = dir.path().join("memory.sock");
    for layout in ["inplace", "vlog", "loge", "dcd", "lfs", "wolf", "hylog", "lld"] {
        let mut command = seekless();
        command.args(["serve", "--memory", "16M", "--layout", layout, "--socket"]).arg(&socket);
        let server = Server::start(command, socket.clone());
        let mut client = crate::nbd::Client::connect(&socket).expect("connection");
        assert_eq!(client.size_bytes(), 16 << 20);
        client.write(8192, &[7; 4096], true).expect("write");
        let mut found = [0; 4096];
        client.read(8192, &mut found).expect("read");
        assert_eq!(found, [7; 4096]);
        client.disconnect().expect("goodbye");
        let ended = server.stop();
        assert_eq!(ended.code(), 0, "{}", ended.err);
        assert!(!socket.exists(), "the socket was left behind");
    }
}
