//! `seekless disk`: parameter files in, specifications out; recordings against models.

use crate::harness::{run, seekless, skip, succeed, temp_dir};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Recordings of real drives, which are no part of the repository: a directory that the variable
/// names, or `shared` beside the checkout.
pub fn recordings() -> Option<PathBuf> {
    let dir = match std::env::var_os("SEEKLESS_RECORDINGS") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/drive-recordings"),
    };
    let there = dir.join("atlas10k.parv").is_file();
    if !there {
        skip("there are no recordings of drives; SEEKLESS_RECORDINGS can name their directory");
    }
    there.then_some(dir)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn json(args: &[&str]) -> Value {
    let text = succeed(seekless().args(args));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error} in {text}"))
}

/// A drive with one zone, as DiskSim describes it.
const MODEL: &str = "\
dm_disk M {
  Number of data surfaces = 2, Number of cylinders = 100, Block count = 20000,
  Mechanical Model = dm_mech_g1 {
    Seek type = constant, Constant seek time = 2.0, Add. write settling delay = 0.0,
    Head switch time = 1.0, Rotation speed (in rpms) = 6000
  },
  Layout Model = dm_layout_g1 {
    LBN-to-PBN mapping scheme = 0, Sparing scheme used = 9, Rangesize for sparing = 1,
    Zones = [ dm_layout_g1_zone {
      First cylinder number = 0, Last cylinder number = 99, Blocks per track = 100,
      Offset of first block = 0, Empty space at zone front = 0, Number of spares = 0,
      Skew for track switch = 12, Skew for cylinder switch = 24, slips = [], defects = [] } ]
  }
}
";
const DISK: &str = "disksim_disk PLAIN { Model = source m.model, Preseeking level = 2 }\n";

fn plain(dir: &Path) -> PathBuf {
    fs::write(dir.join("m.model"), MODEL).expect("write");
    fs::write(dir.join("m.diskspecs"), DISK).expect("write");
    let spec = dir.join("m.toml");
    let from = dir.join("m.diskspecs");
    let ended = run(seekless().args(["disk", "import", text(&from), "--output", text(&spec)]));
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.out.contains("PLAIN with 20000 sectors"), "{}", ended.out);
    // A parameter that the model lacks is named with its place.
    assert!(ended.err.contains("m.diskspecs:1: `Preseeking level` = 2"), "{}", ended.err);
    spec
}

#[test]
fn an_imported_disk_can_be_used() {
    let dir = temp_dir();
    let spec = plain(dir.path());
    let toml = fs::read_to_string(&spec).expect("specification");
    assert!(toml.contains("rpm = 6000.0") && toml.contains("# m.model:5"), "{toml}");
    assert_eq!(json(&["disks", text(&spec), "--json"])["heads"], 2);
    // Without --output it goes to standard output.
    let from = dir.path().join("m.diskspecs");
    assert_eq!(succeed(seekless().args(["disk", "import", text(&from)])), toml);
}

#[test]
fn files_that_cannot_be_imported_are_named() {
    let dir = temp_dir();
    let from = dir.path().join("m.diskspecs");
    let fails = |parts: &[&str]| {
        let ended = run(seekless().args(["disk", "import", text(&from)]));
        assert_eq!(ended.code(), 2, "{}", ended.err);
        assert!(ended.out.is_empty(), "{}", ended.out);
        assert!(ended.err.contains("error:") && ended.err.contains("hint:"), "{}", ended.err);
        assert!(parts.iter().all(|part| ended.err.contains(part)), "{}", ended.err);
    };
    fs::write(&from, DISK).expect("write");
    fails(&["m.diskspecs:1: cannot read m.model"]);
    fs::write(dir.path().join("m.model"), MODEL.replace("= 6000", "= fast")).expect("write");
    fails(&["m.model:5: `Rotation speed (in rpms)` is not a number"]);
    fs::write(dir.path().join("m.model"), MODEL.replace("= 99", "= 4294967295")).expect("write");
    fails(&["m.model:9"]);
    fs::write(&from, "disksim_bus B { }\n").expect("write");
    fails(&["describes no disk"]);
    fs::write(&from, [0xff, 0, b'{', 0xff]).expect("write");
    fails(&["m.diskspecs:1"]);
    let missing = dir.path().join("none.parv");
    let ended = run(seekless().args(["disk", "import", text(&missing)]));
    assert_eq!(ended.code(), 2, "{}", ended.err);
    assert!(ended.err.contains(&format!("cannot read {}", text(&missing))), "{}", ended.err);
    let ended = run(seekless().args(["disk", "import", text(dir.path())]));
    assert_eq!(ended.code(), 2, "{}", ended.err);
    let said = format!("cannot read {}: it is a directory", text(dir.path()));
    assert!(ended.err.contains(&said), "{}", ended.err);
}

#[test]
fn files_that_are_no_specifications_are_named_with_their_line() {
    let dir = temp_dir();
    let spec = plain(dir.path());
    let toml = fs::read_to_string(&spec).expect("specification");
    let line = toml.lines().position(|line| line.starts_with("rpm")).expect("rpm") + 1;
    fs::write(&spec, toml.replace("rpm = 6000.0", "rpm = \"fast\"")).expect("write");
    let ended = run(seekless().args(["disks", text(&spec)]));
    assert_eq!(ended.code(), 2, "{}", ended.err);
    assert!(ended.err.contains(&format!("m.toml:{line}: ")), "{}", ended.err);
    // An endless file is refused.
    let ended = run(seekless().args(["disks", "/dev/zero"]));
    assert_eq!(ended.code(), 2, "{}", ended.err);
    assert!(ended.err.contains("larger than 64 MiB"), "{}", ended.err);
    let recording = ["disk", "validate", "--disk", "hp97560", "--recording", text(dir.path())];
    let ended = run(seekless().args(recording));
    assert_eq!(ended.code(), 2, "{}", ended.err);
    assert!(ended.err.contains("it is a directory"), "{}", ended.err);
}

/// A system that the small drive is part of.
const SYSTEM: &str = "\
disksim_bus B { Arbitration time = 0.25, Read block transfer time = 0.125,
  Write block transfer time = 0.5 }
source m.diskspecs
instantiate [ bus0 ] as B
instantiate [ disk0 ] as PLAIN
topology disksim_bus bus0 [ disksim_disk disk0 [] ]
";

#[test]
fn the_bus_of_a_bare_drive_is_that_of_the_system_beside_it() {
    let dir = temp_dir();
    plain(dir.path());
    let import = || {
        let from = dir.path().join("m.diskspecs");
        let ended = run(seekless().args(["disk", "import", text(&from)]));
        assert_eq!(ended.code(), 0, "{}", ended.err);
        (ended.out, ended.err)
    };
    assert!(import().1.contains("the files name no bus"));
    fs::write(dir.path().join("other.parv"), "disksim_bus B { }\n").expect("write");
    fs::write(dir.path().join("broken.parv"), "source m.diskspecs\nB {").expect("write");
    assert!(import().1.contains("the files name no bus"));
    fs::write(dir.path().join("a.parv"), SYSTEM).expect("write");
    let (toml, notes) = import();
    let said = "m.diskspecs names no bus; it is that of a.parv, which sources it";
    assert!(notes.contains(said), "{notes}");
    for line in ["read_sector_ms = 0.125", "write_sector_ms = 0.5", "arbitration_ms = 0.25"] {
        assert!(toml.contains(line), "{toml}");
    }
    assert!(toml.contains("a.parv, which sources it"), "{toml}");
    fs::write(dir.path().join("b.parv"), SYSTEM).expect("write");
    let (_, notes) = import();
    assert!(notes.contains("the files name no bus"), "{notes}");
    assert!(notes.contains("m.diskspecs is sourced by a.parv, b.parv"), "{notes}");
}

#[test]
fn no_file_is_written_over_what_it_is_made_from() {
    let dir = temp_dir();
    let spec = plain(dir.path());
    let trace = dir.path().join("t.trace");
    fs::write(&trace, "R x 0 8 5000 1000\n".repeat(5)).expect("write");
    let link = dir.path().join("link");
    fs::hard_link(&trace, &link).expect("link");
    let at = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let refused = |args: &[&str], input: &str| {
        let before = fs::read(at(input)).expect("read");
        let ended = run(seekless().arg("disk").args(args));
        assert_eq!(ended.code(), 2, "{}", ended.err);
        assert!(ended.err.contains("would replace"), "{}", ended.err);
        assert!(ended.err.contains(input), "{}", ended.err);
        assert_eq!(fs::read(at(input)).expect("read"), before, "{args:?}");
    };
    let (spec, trace, link) = (text(&spec), text(&trace), text(&link));
    let validate = ["validate", "--disk", spec, "--recording", trace, "--per-request"];
    refused(&[&validate[..], &[trace]].concat(), "t.trace");
    refused(&[&validate[..], &[link]].concat(), "t.trace");
    refused(&[&validate[..], &[spec]].concat(), "m.toml");
    refused(&["fit", "--recording", trace, "-o", link], "t.trace");
    refused(&["fit", "--disk", spec, "-o", spec], "m.toml");
    let from = at("m.diskspecs");
    refused(&["import", &from, "-o", &from], "m.diskspecs");
    refused(&["import", &from, "-o", &at("m.model")], "m.model");
}

#[test]
fn a_recording_of_the_model_itself_has_no_error() {
    let dir = temp_dir();
    let spec = plain(dir.path());
    let (first, second) = (dir.path().join("first.csv"), dir.path().join("second.trace"));
    let mut lines = String::from("op,lbn,sectors,response_us,gap_us\n");
    for i in 0..200u64 {
        let op = if i % 3 == 0 { "W" } else { "R" };
        let _ = writeln!(lines, "{op},{},{},1000,{}", i * 7919 % 19_000, 1 + i % 32, i * 37);
    }
    fs::write(&first, &lines).expect("write");
    let each = dir.path().join("each.csv");
    let validate = ["disk", "validate", "--disk", text(&spec), "--recording"];
    let one = [&validate[..], &[text(&first), "--per-request", text(&each), "--json"]].concat();
    let found = json(&one);
    assert_eq!((&found["requests"], &found["gap"]), (&Value::from(200), &Value::from("after")));
    assert!(found["mae_ms"].as_f64().is_some_and(|mae| mae > 1.0), "{found}");
    // Its own predictions, taken as a recording, are predicted to the nanosecond.
    let each = fs::read_to_string(&each).expect("predictions");
    let mut again = String::new();
    let head = each.lines().next().expect("header");
    assert!(head.ends_with("simulated_us,device"), "{head}");
    for (line, gap) in each.lines().skip(1).zip(lines.lines().skip(1)) {
        let f: Vec<&str> = line.split(',').collect();
        let gap = gap.rsplit(',').next().expect("gap");
        let _ = writeln!(again, "{} x {} {} {} {gap}", f[1], f[2], f[3], f[5]);
    }
    fs::write(&second, again).expect("write");
    let two = [&validate[..], &[text(&second), "--json"]].concat();
    let found = json(&two);
    assert_eq!(found["requests"], 200);
    for key in ["rms_ms", "mean_error_ms", "mae_ms"] {
        for set in [&found, &found["reads"], &found["writes"]] {
            assert!(set[key].as_f64().is_some_and(|ms| ms.abs() < 1e-6), "{key}: {found}");
        }
    }
    assert!(found["correlation"].as_f64().is_some_and(|r| r > 0.999_999), "{found}");
    // As text: a table and a plot in plain ASCII.
    let shown = succeed(seekless().args(&two[..two.len() - 1]));
    assert!(
        shown.is_ascii() && shown.contains("correlation") && shown.contains("100 %"),
        "{shown}"
    );
}

/// Some parameter files give a drive fewer sectors than its recording requests.
#[test]
fn what_the_zones_hold_may_be_asked_for_though_it_is_not_offered() {
    let dir = temp_dir();
    fs::write(dir.path().join("m.diskspecs"), DISK).expect("write");
    let fewer = MODEL.replace("Block count = 20000", "Block count = 15000");
    fs::write(dir.path().join("m.model"), fewer).expect("write");
    let (spec, from) = (dir.path().join("m.toml"), dir.path().join("m.diskspecs"));
    let ended = run(seekless().args(["disk", "import", text(&from), "--output", text(&spec)]));
    assert!(ended.err.contains("is 15000, the layout holds 20000 sectors"), "{}", ended.err);
    let file = dir.path().join("beyond.trace");
    fs::write(&file, "R x 0 8 1000 0\nR x 14996 8 1000 0\nW x 19992 8 1000 0\n").expect("write");
    let validate = ["disk", "validate", "--disk", text(&spec), "--recording", text(&file)];
    let found = json(&[&validate[..], &["--json"]].concat());
    assert_eq!((&found["requests"], &found["beyond_capacity"]), (&3.into(), &2.into()));
    let shown = succeed(seekless().args(validate));
    assert!(shown.contains("2 requests lie beyond the 15000 sectors"), "{shown}");
}

#[test]
fn recordings_that_make_no_sense_are_errors_with_their_line() {
    let dir = temp_dir();
    let spec = plain(dir.path());
    let file = dir.path().join("bad.trace");
    for (bytes, part) in [
        (&b"R x 0 8 1000 0\nR x 0 8 1000\n"[..], "bad.trace:2: fewer than six"),
        (b"R x 0 8 1000 0\nR x 19999 2 1000 0\n", "bad.trace:2: the request for 2 sectors"),
        (b"Q x 0 8 1000 0\n", "bad.trace:1: `Q` is not an operation"),
        (b"op,lbn\n", "bad.trace:1: the header has no column"),
        (b"", "holds no request"),
        (&[0, 0, 0, 56, 0, 9, 0, 1], "byte 0"),
        (&[0xff; 9000], "bad.trace"),
    ] {
        fs::write(&file, bytes).expect("write");
        let ended = run(seekless()
            .args(["disk", "validate", "--disk", text(&spec)])
            .args(["--recording", text(&file)]));
        assert_eq!(ended.code(), 2, "{part}: {}", ended.err);
        assert!(ended.out.is_empty(), "{part}: {}", ended.out);
        assert!(ended.err.contains(part) && ended.err.contains("hint:"), "{part}: {}", ended.err);
    }
}

#[test]
fn real_drives_are_predicted() {
    let Some(shared) = recordings() else { return };
    let dir = temp_dir();
    // Figures of DiskSim, in ms: distance of the distributions and mean absolute error.
    for (drive, gap, rms, mae) in [
        ("atlas10k", "before", 0.268, 1.03),
        ("barracuda", "before", 0.349, 1.44),
        ("hp_c2490a", "after", 0.254, 1.12),
        ("dec_rz26", "after", 0.340, 1.63),
    ] {
        let trace = shared.join(format!("{drive}.trace"));
        let mut figures = Vec::new();
        // The system, or the drive alone: its bus is in the system beside it.
        for kind in ["parv", "diskspecs"] {
            let spec = dir.path().join(format!("{drive}.{kind}.toml"));
            let from = shared.join(format!("{drive}.{kind}"));
            succeed(seekless().args(["disk", "import", text(&from), "--output", text(&spec)]));
            let found = json(&[
                "disk",
                "validate",
                "--disk",
                text(&spec),
                "--recording",
                text(&trace),
                "--gap",
                gap,
                "--json",
            ]);
            assert_eq!(found["gap"], gap);
            assert!(found["rms_ms"].as_f64().is_some_and(|ms| ms <= rms), "{drive}: {found}");
            assert!(found["mae_ms"].as_f64().is_some_and(|ms| ms <= mae), "{drive}: {found}");
            figures.push((found["rms_ms"].as_f64(), found["mae_ms"].as_f64()));
        }
        assert_eq!(figures[0], figures[1], "{drive}");
    }
}

/// Imports a drive whose recordings are there.
fn imported(shared: &Path, dir: &Path, drive: &str) -> PathBuf {
    let spec = dir.join(format!("{drive}.toml"));
    let from = shared.join(format!("{drive}.parv"));
    succeed(seekless().args(["disk", "import", text(&from), "--output", text(&spec)]));
    spec
}

/// Lines of a recording, from one share of it to another.
fn part(shared: &Path, drive: &str, dir: &Path, from: usize, to: usize) -> PathBuf {
    let all = fs::read_to_string(shared.join(format!("{drive}.trace"))).expect("recording");
    let lines: Vec<&str> = all.lines().collect();
    let file = dir.join(format!("{drive}.{from}.trace"));
    let range = lines.len() * from / 100..lines.len() * to / 100;
    fs::write(&file, lines[range].join("\n") + "\n").expect("write");
    file
}

/// Learnt from the first half of a recording, judged on the second: RMS and MAE in ms.
#[test]
fn calibrated_drives_are_nearer_than_disksim() {
    let Some(shared) = recordings() else { return };
    let dir = temp_dir();
    for (drive, gap, rms, mae) in [
        ("atlas_III", "before", 0.30, 0.70),
        ("atlas10k", "before", 0.20, 0.32),
        ("barracuda", "before", 0.18, 0.55),
        ("hp_c2490a", "after", 0.15, 0.52),
        ("dec_rz26", "after", 0.32, 1.58),
        ("cheetah9LP", "before", 0.15, 0.50),
    ] {
        if !shared.join(format!("{drive}.parv")).is_file() {
            continue;
        }
        let spec = imported(&shared, dir.path(), drive);
        let first = part(&shared, drive, dir.path(), 0, 50);
        let second = part(&shared, drive, dir.path(), 50, 100);
        let better = dir.path().join(format!("{drive}.better.toml"));
        let learn = ["disk", "calibrate", "--disk", text(&spec), "--recording", text(&first)];
        let found = json(&[&learn[..], &["--output", text(&better), "--json"]].concat());
        assert_eq!(found["gap"], gap, "{drive}: {found}");
        let judge = ["disk", "validate", "--disk", text(&better), "--recording", text(&second)];
        let found = json(&[&judge[..], &["--gap", "auto", "--json"]].concat());
        println!("{drive}: RMS {}, MAE {}", found["rms_ms"], found["mae_ms"]);
        assert!(found["rms_ms"].as_f64().is_some_and(|ms| ms <= rms), "{drive}: {found}");
        assert!(found["mae_ms"].as_f64().is_some_and(|ms| ms <= mae), "{drive}: {found}");
    }
}

/// Nothing is learnt from the recording of another drive, nor from a few requests.
#[test]
fn a_recording_that_teaches_nothing_is_told_so() {
    let Some(shared) = recordings() else { return };
    let dir = temp_dir();
    let spec = imported(&shared, dir.path(), "atlas10k");
    let output = dir.path().join("none.toml");
    let other = part(&shared, "barracuda", dir.path(), 0, 20);
    let few = dir.path().join("few.trace");
    fs::write(&few, "R x 0 8 5000 1000\n".repeat(50)).expect("write");
    for (recording, said) in [(&other, "another drive"), (&few, "50 requests")] {
        let learn = ["disk", "calibrate", "--disk", text(&spec), "--recording", text(recording)];
        let ended = run(seekless().args([&learn[..], &["--output", text(&output)]].concat()));
        assert_eq!(ended.code(), 1, "{}{}", ended.out, ended.err);
        let all = format!("{}{}", ended.out, ended.err);
        assert!(all.contains(said), "{all}");
        assert!(!output.exists());
    }
}
