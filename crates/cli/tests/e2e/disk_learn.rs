//! Models that learn from recordings of models: `disk probe` and `disk calibrate`, the text of
//! `blkparse`, and the choice of gaps and devices. The truth is known, so no drive is needed.

use crate::harness::{run, seekless, skip, succeed, temp_dir};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn json(args: &[&str]) -> Value {
    let text = succeed(seekless().args(args));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error} in {text}"))
}

/// A drive, and a specification that has its rotation and its skews wrong.
fn drive(dir: &Path) -> (PathBuf, PathBuf) {
    let spec = |rpm: &str, track: u32, cylinder: u32| {
        format!(
            "name = 'x'\nsummary = ''\nrpm = {rpm}\nheads = 4\ncylinders = 600\n\
             head_switch_ms = 0.9\noverhead_ms = 0.3\nseek.points = [[1, 1.2], [599, 12]]\n\
             [cache]\nsegments = 4\nsegment_sectors = 200\n\
             [[zones]]\nsectors = 120\ntrack_skew = {track}\ncylinder_skew = {cylinder}\n"
        )
    };
    let (truth, guess) = (dir.join("truth.toml"), dir.join("guess.toml"));
    fs::write(&truth, spec("7188.0", 23, 41)).expect("write");
    fs::write(&guess, spec("7200.0", 17, 30)).expect("write");
    (truth, guess)
}

/// A request and the pause at it, in microseconds.
type Request = (&'static str, u64, u64, u64);

/// Random requests, a quarter of them writes.
fn requests(count: u64) -> Vec<Request> {
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    (0..count)
        .map(|_| {
            let op = if next(4) == 0 { "W" } else { "R" };
            (op, next(35_000) * 8, 8, 10_000 + next(50_000))
        })
        .collect()
}

/// How long a model takes for each of the requests, in microseconds.
fn answers(dir: &Path, spec: &Path, requests: &[Request], gap: &str) -> Vec<f64> {
    let (asked, each) = (dir.join("asked.csv"), dir.join("each.csv"));
    let mut lines = String::from("op,lbn,sectors,response_us,gap_us\n");
    for (op, lbn, sectors, pause) in requests {
        let _ = writeln!(lines, "{op},{lbn},{sectors},1000,{pause}");
    }
    fs::write(&asked, lines).expect("write");
    let validate = ["disk", "validate", "--disk", text(spec), "--recording", text(&asked)];
    json(&[&validate[..], &["--gap", gap, "--per-request", text(&each), "--json"]].concat());
    let each = fs::read_to_string(each).expect("predictions");
    let column = |line: &str| line.split(',').nth(5).and_then(|us| us.parse().ok());
    each.lines().skip(1).map(|line| column(line).expect("a time")).collect()
}

/// A recording of requests with gaps, and with the times that they took in microseconds.
fn recording(requests: &[Request], times: &[f64]) -> String {
    let mut lines = String::from("op,lbn,sectors,response_us,gap_us\n");
    for ((op, lbn, sectors, pause), us) in requests.iter().zip(times) {
        let _ = writeln!(lines, "{op},{lbn},{sectors},{us},{pause}");
    }
    lines
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value}"))
}

#[test]
fn the_recording_of_a_probe_calibrates() {
    let dir = temp_dir();
    let (truth, guess) = drive(dir.path());
    let (csv, better) = (dir.path().join("probe.csv"), dir.path().join("better.toml"));
    let probe = ["disk", "probe", "--disk", text(&truth), "--output", text(&csv)];
    let found = json(&[&probe[..], &["--json"]].concat());
    assert!((number(&found, "/rpm/value") - 7188.0).abs() < 0.1, "{found}");
    assert!((number(&found, "/tracks/3/turn_sectors") - 120.0).abs() < 2.0, "{found}");
    let skews = found["skews_turns"].as_array().expect("skews").clone();
    let near = |turns: f64| skews.iter().any(|one| (number(one, "") - turns).abs() < 0.01);
    assert!(near(23.0 / 120.0) && near(41.0 / 120.0), "{skews:?}");
    let learn = ["disk", "calibrate", "--disk", text(&guess), "--recording", text(&csv)];
    let told = json(&[&learn[..], &["--output", text(&better), "--json"]].concat());
    assert!(number(&told, "/before/mae_ms") > 1.0, "{told}");
    assert!(number(&told, "/after/mae_ms") < 0.2, "{told}");
    // On requests that the probe did not send, too.
    let asked = requests(300);
    let pairs = [&truth, &better].map(|spec| answers(dir.path(), spec, &asked, "before"));
    let off: f64 = pairs[0].iter().zip(&pairs[1]).map(|(a, b)| (a - b).abs()).sum();
    assert!(off / 300.0 < 300.0, "{} us off on average", off / 300.0);
    // As text, with the place of the recording.
    let shown = succeed(seekless().args(probe));
    assert!(shown.contains("rotation  7188.0") && shown.contains("probe.csv"), "{shown}");
}

/// A device whose reads take a constant time, a file in memory or on an SSD, and what is no device.
#[test]
fn what_does_not_turn_has_no_recording() {
    let dir = temp_dir();
    let csv = dir.path().join("probe.csv");
    let probe = ["disk", "probe", "--output", text(&csv)];
    let flat = run(seekless().args([&probe[..], &["--disk", "cheetah-x15-36lp"]].concat()));
    assert_eq!(flat.code(), 1, "{}{}", flat.out, flat.err);
    assert!(flat.err.contains("no rotation found"), "{}", flat.err);
    assert!(!csv.exists());
    for (arguments, said) in [(vec!["/nowhere"], "cannot read /nowhere"), (vec![], "<DEVICE>")] {
        let ended = run(seekless().args([&probe[..], &arguments].concat()));
        assert_eq!(ended.code(), 2, "{}", ended.err);
        assert!(ended.err.contains(said), "{}", ended.err);
    }
    let file = dir.path().join("disk.img");
    fs::write(&file, vec![1; 16 << 20]).expect("write");
    let ended = run(seekless().args([&probe[..], &[text(&file), "--budget", "60s"]].concat()));
    if ended.err.contains("past the page cache") {
        return skip("files here cannot be read past the page cache");
    }
    assert_eq!(ended.code(), 1, "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("no rotation found"), "{}", ended.err);
    let over = run(seekless().args(["disk", "probe", text(&file), "--output", text(&file)]));
    assert_eq!(over.code(), 2, "{}", over.err);
    assert_eq!(fs::metadata(&file).expect("it is there").len(), 16 << 20);
}

#[test]
fn gaps_are_read_as_the_angles_say() {
    let dir = temp_dir();
    let (truth, _) = drive(dir.path());
    let asked = requests(800);
    // Few places, read again and again, show the rotation to `fit`.
    let pause = |index: u64| asked[index as usize % asked.len()].3;
    let again: Vec<Request> =
        (0..1500).map(|index| ("R", index * 7 % 5 * 40_000, 8, pause(index))).collect();
    let file = dir.path().join("recording.csv");
    let validate = ["disk", "validate", "--disk", text(&truth), "--recording", text(&file)];
    for gap in ["before", "after"] {
        let times = answers(dir.path(), &truth, &asked, gap);
        fs::write(&file, recording(&asked, &times)).expect("write");
        let found = json(&[&validate[..], &["--gap", "auto", "--json"]].concat());
        assert_eq!(found["gap"], gap, "{found}");
        assert!(number(&found, "/mae_ms") < 1e-6, "{found}");
        let times = answers(dir.path(), &truth, &again, gap);
        fs::write(&file, recording(&again, &times)).expect("write");
        let fit = ["disk", "fit", "--recording", text(&file), "--json", "--gap"];
        let [auto, same] = ["auto", gap].map(|gap| json(&[&fit[..], &[gap]].concat()));
        assert_eq!(auto, same, "{gap}");
        assert!((number(&auto, "/rpm/value") - 7188.0).abs() < 1.0, "{auto}");
    }
    // Responses by chance: neither reading is right.
    let chance: Vec<f64> = (0..800).map(|index| f64::from(2000 + index * 7919 % 14_000)).collect();
    fs::write(&file, recording(&asked, &chance)).expect("write");
    let ended = run(seekless().args([&validate[..], &["--gap", "auto"]].concat()));
    assert_eq!(ended.code(), 1, "{}{}", ended.out, ended.err);
    assert!(ended.err.contains("give --gap before or --gap after"), "{}", ended.err);
}

#[test]
fn one_device_of_a_recording_is_fitted() {
    let dir = temp_dir();
    let file = dir.path().join("two.csv");
    let mut lines = String::from("op,lbn,sectors,response_us,gap_us,device\n");
    for number in 0..600u64 {
        let (lbn, device) = (number * 7919 % 100_000, number % 2);
        let _ = writeln!(lines, "R,{lbn},8,{},1000,{device}", 4000 + 3000 * device + lbn / 50);
    }
    fs::write(&file, lines).expect("write");
    let fit = ["disk", "fit", "--recording", text(&file), "--json", "--of"];
    let mean = |device: &str| {
        let found = json(&[&fit[..], &[device]].concat());
        assert_eq!(found["requests"], 300, "{found}");
        number(&found, "/model/measured_mean_ms")
    };
    assert!((mean("1") - mean("0") - 3.0).abs() < 0.1, "{} {}", mean("0"), mean("1"));
    let ended = run(seekless().args([&fit[..], &["7"]].concat()));
    assert_eq!(ended.code(), 2, "{}", ended.err);
    assert!(ended.err.contains("600 went to others"), "{}", ended.err);
}

#[test]
fn the_text_of_blkparse_calibrates() {
    let dir = temp_dir();
    let (truth, guess) = drive(dir.path());
    let asked: Vec<Request> =
        requests(1500).into_iter().map(|one| ("R", one.1, 8, one.3)).collect();
    let (mut lines, mut now, mut number_of) = (String::new(), 0.0, 0);
    for ((op, lbn, sectors, pause), us) in
        asked.iter().zip(answers(dir.path(), &truth, &asked, "before"))
    {
        now += *pause as f64;
        for (event, at, by) in [("Q", now - 3.0, "fio"), ("D", now, "fio"), ("C", now + us, "0")] {
            number_of += 1;
            let seconds = at / 1e6;
            let head = format!("  8,16   1 {number_of:>8} {seconds:>14.9}  4242  {event}   {op}");
            let _ = writeln!(lines, "{head} {lbn} + {sectors} [{by}]");
        }
        now += us;
    }
    lines.push_str("CPU1 (8,16):\n Reads Queued:        1500,     6000KiB\n");
    let file = dir.path().join("blkparse.txt");
    fs::write(&file, lines).expect("write");
    let better = dir.path().join("better.toml");
    let learn = ["disk", "calibrate", "--disk", text(&guess), "--recording", text(&file)];
    let told = json(&[&learn[..], &["--output", text(&better), "--json"]].concat());
    assert!(number(&told, "/before/mae_ms") > 1.0, "{told}");
    assert!(number(&told, "/after/mae_ms") < 0.2, "{told}");
    let validate = ["disk", "validate", "--disk", text(&better), "--recording", text(&file)];
    let found = json(&[&validate[..], &["--json"]].concat());
    assert_eq!((&found["format"], &found["requests"]), (&"blkparse".into(), &1500.into()));
}

/// Each teaches nothing: that is told, with exit code 1, and no file is written.
#[test]
fn recordings_that_teach_nothing_write_nothing() {
    let dir = temp_dir();
    let (truth, guess) = drive(dir.path());
    let output = dir.path().join("none.toml");
    let file = dir.path().join("recording.csv");
    let asked = requests(400);
    let right = answers(dir.path(), &truth, &asked, "after");
    let changed = |change: &dyn Fn(usize, f64) -> f64| {
        let times = right.iter().enumerate().map(|(index, &us)| change(index, us));
        recording(&asked, &times.collect::<Vec<_>>())
    };
    let chance = changed(&|index, _| (2000 + index * 7919 % 14_000) as f64);
    // Milliseconds where microseconds are expected, in every second line.
    let mixed = changed(&|index, us| if index % 2 == 0 { us } else { us / 1e3 });
    let other = recording(&[("R", 99_999_999, 8, 1); 300], &[1.0; 300]);
    for (lines, code, said) in [
        (recording(&asked[..50], &right), 1, "has 50 requests"),
        (chance, 1, "how gaps are read"),
        (mixed, 1, "the angles of tracks"),
        (other, 2, "is this a recording of that drive?"),
    ] {
        fs::write(&file, lines).expect("write");
        let learn = ["disk", "calibrate", "--disk", text(&guess), "--recording", text(&file)];
        let ended = run(seekless().args([&learn[..], &["--output", text(&output)]].concat()));
        let all = format!("{}{}", ended.out, ended.err);
        assert_eq!(ended.code(), code, "{said}: {all}");
        assert!(all.contains(said), "{said}: {all}");
        assert!(!output.exists(), "{said}");
    }
}
