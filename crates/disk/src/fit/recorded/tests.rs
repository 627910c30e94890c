//! Recordings made from models: estimates against true values.

use super::{RecordedFit, recorded};
use crate::drive::{Drive, Request};
use crate::fit::FitError;
use crate::recording::{Op, Pace, Place, Recorded};
use crate::{Spec, specs};
use seekless_engine::io;
use seekless_engine::rng::Rng;
use seekless_engine::units::{MILLIS, Time};

/// Pauses of a host, in milliseconds.
const PAUSES: [Time; 4] = [0, 1, 5, 37];

/// The recording of a model: so many requests, each an operation, a sector and a length.
fn record(
    name: &str,
    count: u64,
    mut ask: impl FnMut(&mut Rng, u64, u64) -> (Op, u64, u32),
) -> Vec<Recorded> {
    let spec = specs::find(name).expect("built in");
    let mut drive = Drive::new(&spec).expect("a sound specification");
    let mut rng = Rng::stream(1, "recording");
    let mut now = 0;
    let one = |number| {
        let (op, lbn, sectors) = ask(&mut rng, number, drive.sectors());
        let asked = match op {
            Op::Read => io::Op::Read,
            Op::Write => io::Op::Write,
        };
        let request = Request { tag: 0, op: asked, lbn, sectors, fua: false };
        let done = drive.serve_alone(now, request).expect("in range");
        let response_ns = done - now;
        let pause = PAUSES[rng.below(4) as usize] * MILLIS;
        now = done + pause;
        let (place, pace) = (Place::Line(number + 1), Pace::Gap(pause));
        Recorded { place, op, lbn, sectors, response_ns, pace, device: 0 }
    };
    (0..count).map(one).collect()
}

fn fit(requests: &[Recorded]) -> RecordedFit {
    recorded(requests.iter().copied(), false).expect("enough requests")
}

/// Reads of eight sectors from all over the disk.
fn anywhere(rng: &mut Rng, _: u64, sectors: u64) -> (Op, u64, u32) {
    (Op::Read, rng.below(sectors / 8) * 8, 8)
}

/// Reads of eight sectors that follow each other.
fn in_sequence(_: &mut Rng, number: u64, _: u64) -> (Op, u64, u32) {
    (Op::Read, 800 + 8 * number, 8)
}

/// Reads of one place.
fn one_place(_: &mut Rng, _: u64, _: u64) -> (Op, u64, u32) {
    (Op::Read, 800, 8)
}

/// Reads and writes of several lengths from all over the disk.
fn mixed(rng: &mut Rng, _: u64, sectors: u64) -> (Op, u64, u32) {
    let op = if rng.below(2) == 0 { Op::Read } else { Op::Write };
    (op, rng.below(sectors / 8 - 4) * 8, [8, 16, 32][rng.below(3) as usize])
}

/// Reads and writes of forty places.
fn again(rng: &mut Rng, _: u64, sectors: u64) -> (Op, u64, u32) {
    let op = if rng.below(3) == 0 { Op::Write } else { Op::Read };
    (op, rng.below(40) * (sectors / 41 / 8) * 8, 8)
}

/// The mean of the fitted model is within a share of that of the recording, as it says itself.
#[track_caller]
fn answers(name: &str, requests: &[Recorded], fit: &RecordedFit, share: f64) {
    let mean = |times: &mut dyn Iterator<Item = Time>| {
        times.map(|ns| ns as f64).sum::<f64>() / requests.len() as f64
    };
    let measured = mean(&mut requests.iter().map(|request| request.response_ns));
    // As a user does: the text is read back, and the drive is measured again.
    let spec = Spec::parse(&fit.to_toml("own", "").expect("a specification")).expect("reads back");
    let mut drive = Drive::new(&spec).expect("a sound specification");
    let mut now = 0;
    let simulated = mean(&mut requests.iter().map(|asked| {
        let op = if asked.op == Op::Read { io::Op::Read } else { io::Op::Write };
        let (lbn, sectors) = (asked.lbn, asked.sectors);
        let request = Request { tag: 0, op, lbn, sectors, fua: false };
        let done = drive.serve_alone(now, request).expect("in range");
        let took = done - now;
        let Pace::Gap(pause) = asked.pace else { panic!("recorded with pauses") };
        now = done + pause;
        took
    }));
    let off = (simulated / measured - 1.0).abs();
    assert!(off < share, "{name}: {simulated} for {measured} ns");
    let [all, ..] = fit.model.expect("a replay");
    let told = (all.measured_mean_ms.expect("some"), all.simulated_mean_ms.expect("some"));
    assert!((told.0 * 1e6 / measured - 1.0).abs() < 1e-9, "{name}: {told:?}");
    assert!((told.1 * 1e6 / simulated - 1.0).abs() < 1e-3, "{name}: {told:?}, {simulated}");
}

/// The rotation is the true one within three errors, which are small.
#[track_caller]
fn turns(name: &str, fit: &RecordedFit) {
    let truth = 60e9 / specs::find(name).expect("built in").rpm;
    let turn = fit.revolution.unwrap_or_else(|| panic!("{name}: {:?}", fit.missing));
    let off = (turn.value - truth).abs();
    assert!(off < 3.0 * turn.error && turn.error < truth / 1e4, "{name}: {turn:?} for {truth}");
}

const DISKS: [&str; 6] =
    ["hp97560-full", "desktop7200-bare", "cmr-20tb", "st19101", "cheetah-x15-36lp", "hp97560"];

#[test]
fn the_model_of_a_recording_takes_as_long_on_average() {
    for name in DISKS {
        let requests = record(name, 2000, anywhere);
        answers(name, &requests, &fit(&requests), 0.05);
        let requests = record(name, 2000, mixed);
        answers(name, &requests, &fit(&requests), 0.05);
        let near = |rng: &mut Rng, _, _| (Op::Read, rng.below(250) * 8, 8);
        let requests = record(name, 2000, near);
        answers(name, &requests, &fit(&requests), 0.2);
        let requests = record(name, 2000, again);
        answers(name, &requests, &fit(&requests), 0.1);
    }
}

/// 2000 cylinders of 64 tracks of 65,536 sectors end at 4.3 TB.
#[test]
fn a_recording_may_reach_as_far_as_disks_do() {
    let far = |terabytes: u64| {
        let mut requests = record("cmr-20tb", 200, anywhere);
        requests[100].lbn = terabytes * 1_000_000_000_000 / 512;
        requests
    };
    let whole = fit(&far(9000));
    assert!(whole.spec("far", "").is_ok_and(|spec| spec.capacity_sectors() == whole.sectors));
    let error = fit(&far(10_000)).spec("far", "").expect_err("no disk").to_string();
    assert!(error.contains("reaches to sector") && error.contains("; is the column"), "{error}");
}

#[test]
fn the_rotation_is_told_from_places_that_are_read_again() {
    for name in ["hp97560-full", "desktop7200-bare", "st19101", "cmr-20tb"] {
        turns(name, &fit(&record(name, 3000, again)));
    }
    // Spans of one and five turns agree with half the frequency but for their sign.
    turns("desktop7200-bare", &fit(&record("desktop7200-bare", 300, one_place)));
}

/// No rotation is found if everything comes from a cache or takes a constant time.
#[test]
fn what_shows_no_platter_has_no_rotation() {
    for name in ["hp97560-full", "st19101", "hp97560", "cheetah-x15-36lp"] {
        let requests = record(name, 300, one_place);
        let found = fit(&requests);
        assert_eq!(found.revolution, None, "{name}");
        assert!(found.missing.iter().any(|line| line.starts_with("rotation: ")), "{name}");
        answers(name, &requests, &found, 0.1);
    }
    let found = fit(&record("cheetah-x15-36lp", 2000, again));
    assert_eq!(found.revolution, None);
}

/// Equal pauses make equal spans, with or without a platter.
#[test]
fn one_span_is_no_rotation() {
    let mut requests = record("desktop7200-bare", 300, one_place);
    for request in &mut requests {
        (request.response_ns, request.pace) = (7 * MILLIS, Pace::Gap(4 * MILLIS));
    }
    assert_eq!(fit(&requests).revolution, None);
}

/// 2.61 ms each on the slowest of the disks, and nearly a turn of the fastest.
#[test]
fn slow_hits_are_hits() {
    for (name, ms) in [("hp97560-full", 2.61), ("st19101", 0.202), ("hp97560", 2.61)] {
        let found = fit(&record(name, 2000, in_sequence));
        assert!(found.hit_share > 0.8, "{name}: {}", found.hit_share);
        let hit = found.hit.expect("hits");
        let off = (hit.value / 1e6 - ms).abs();
        assert!(off <= (hit.error / 1e6).max(0.01), "{name}: {hit:?} for {ms} ms");
    }
    // Without a cache, sequential reads wait for the platter, as all others do.
    for ask in [in_sequence, one_place, anywhere] {
        assert!(fit(&record("desktop7200-bare", 2000, ask)).hit_share < 0.02);
    }
}

#[test]
fn quick_reads_of_new_places_are_luck() {
    for name in ["st19101", "desktop7200-bare", "cheetah-x15-36lp"] {
        let found = fit(&record(name, 2000, anywhere));
        assert!(found.hit_share < 0.02, "{name}: {}", found.hit_share);
    }
}

#[test]
fn centuries_are_refused_with_their_line() {
    let mut requests = record("desktop7200-bare", 4000, anywhere);
    for request in &mut requests {
        request.pace = Pace::Gap(1_000_000 * 1000 * MILLIS);
    }
    let error = recorded(requests.into_iter(), false).expect_err("too long");
    assert_eq!(error, FitError::TooLong(Place::Line(3155)));
    assert!(error.to_string().contains("100 years; "), "{error}");
}

/// The report says how good the model is.
#[test]
fn the_report_tells_how_far_the_model_is_off() {
    let found = fit(&record("st19101", 500, anywhere));
    let line = found.lines().into_iter().find(|line| line.starts_with("the model"));
    assert!(line.is_some_and(|line| line.contains(" measured ") && line.contains(" %)")));
    let text = found.to_toml("own", "").expect("a specification");
    assert!(text.contains("#   the model"), "{text}");
}
