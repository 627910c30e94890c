//! Recordings of drives whose truth is known: models whose specification hides a part of it.

use super::*;
use crate::drive::{Drive, Request};
use crate::recording::{Pace, Place};
use crate::spec::geometry::{Pattern, PatternChild, PatternEntry, PatternNode, PatternTrack};
use crate::spec::{Phase, PhaseZone};
use seekless_engine::io;
use seekless_engine::rng::Rng;

const DISK: &str = "name = 'x'\nsummary = ''\nrpm = 7200\nheads = 4\ncylinders = 800\n\
    head_switch_ms = 0.9\noverhead_ms = 0.3\nseek.points = [[1, 1.2], [100, 4], [799, 12]]\n\
    [bus]\nread_sector_ms = 0.02\nwrite_sector_ms = 0.02\n\
    [overheads]\nearly_write_ms = 0.6\n[cache]\nsegments = 4\nsegment_sectors = 200\n\
    read_ahead = 'segment'\nfast_write = 'any'\n\
    [[zones]]\nlast_cylinder = 399\nsectors = 120\ntrack_skew = 17\ncylinder_skew = 30\n\
    [[zones]]\nsectors = 90\ntrack_skew = 17\ncylinder_skew = 30\n";

pub(crate) fn disk() -> Spec {
    Spec::parse(DISK).expect("it is sound")
}

/// The drive of which the specification knows neither the angles nor the rotation.
pub(crate) fn truth() -> Spec {
    let zone = |first_cylinder, offset, cylinder| PhaseZone {
        first_cylinder,
        offset,
        cylinder,
        ..PhaseZone::default()
    };
    Spec {
        phase: Some(Phase {
            heads: vec![0.0, 0.05, -0.02, 0.11],
            zones: vec![zone(0, 0.0, 0.1234), zone(400, 0.4, -0.3071)],
            ..Phase::default()
        }),
        rpm: 7188.0,
        ..disk()
    }
}

/// What a drive does with random requests, some of them in sequence.
fn record(spec: &Spec, count: u64, writes: f64, before: bool) -> Vec<Recorded> {
    let mut drive = Drive::new(spec).expect("it is sound");
    let mut rng = Rng::stream(3, "recording");
    let (mut now, mut lbn, mut out) = (0, 0, Vec::new());
    let mut gap = 0;
    for _ in 0..count {
        lbn = if rng.chance(0.2) { lbn + 4 } else { rng.below(drive.sectors() / 4 - 8) * 4 };
        lbn = lbn.min(drive.sectors() - 4);
        let write = rng.chance(writes);
        let op = if write { io::Op::Write } else { io::Op::Read };
        if before {
            gap = 10_000_000 + rng.below(50_000_000);
            now += gap;
        }
        let request = Request { tag: 0, op, lbn, sectors: 4, fua: false };
        let done = drive.serve_alone(now, request).expect("it lies on the disk");
        let response_ns = done - now;
        now = done;
        if !before {
            gap = 10_000_000 + rng.below(50_000_000);
            now += gap;
        }
        let op = if write { Op::Write } else { Op::Read };
        let (place, pace) = (Place::Line(1), Pace::Gap(gap));
        out.push(Recorded { place, op, lbn, sectors: 4, response_ns, pace, device: 0 });
    }
    out
}

#[test]
fn angles_and_rotation_are_learnt_from_a_recording() {
    for before in [true, false] {
        let recording = record(&truth(), 2000, 0.3, before);
        let found = calibrate(&disk(), &recording, Options::default()).expect("it is long enough");
        let gap = if before { Gap::Before } else { Gap::After };
        assert_eq!(found.gap, gap, "{:?}", found.readings);
        assert!((found.spec.rpm - 7188.0).abs() < 1.0, "{}", found.spec.rpm);
        let (old, new) = (found.before.figures.mae_ms, found.after.figures.mae_ms);
        assert!(
            old.is_some_and(|ms| ms > 1.0) && new.is_some_and(|ms| ms < 0.2),
            "{old:?} {new:?}"
        );
        let phase = found.after.phase_ms.expect("many reads went to the platter");
        assert!(phase < 0.05 && found.before.phase_ms.is_some_and(|ms| ms > 1.0), "{phase}");
        assert!(found.learnt.iter().any(|line| line.contains("angles")), "{:?}", found.learnt);
    }
}

/// The same drive with a layout that zones cannot express: bands of a hundred cylinders, inwards on
/// one surface and outwards on the other.
fn banded() -> Spec {
    let entry = |lbn, length, run, cylinder, cylinder_length, cylinder_run, head, child| {
        let (offset, skew) = (0.0, 0.25);
        PatternEntry {
            lbn,
            length,
            run,
            cylinder,
            cylinder_length,
            cylinder_run,
            offset,
            skew,
            head,
            child,
        }
    };
    let track = PatternChild::Track(0);
    let band = PatternNode {
        entries: vec![
            entry(0, 120, 12_000, 0, 1, 100, 0, track),
            entry(12_000, 120, 12_000, 99, 1, -100, 1, track),
        ],
    };
    let bands = entry(0, 24_000, 8 * 24_000, 0, 100, 800, 0, PatternChild::Node(0));
    let pattern = Pattern {
        root: 1,
        tracks: vec![PatternTrack { first: 0, last: 119, sectors: 120 }],
        nodes: vec![band, PatternNode { entries: vec![bands] }],
        ..Pattern::default()
    };
    Spec { heads: 2, zones: vec![], pattern: Some(pattern), ..disk() }
}

#[test]
fn angles_of_a_layout_of_patterns_are_learnt() {
    let zone = PhaseZone { cylinder: 0.0613, ..PhaseZone::default() };
    let phase = Phase { heads: vec![0.0, 0.07], zones: vec![zone], ..Phase::default() };
    let drive = Spec { phase: Some(phase), rpm: 7188.0, ..banded() };
    let recording = record(&drive, 2000, 0.3, true);
    let found = calibrate(&banded(), &recording, Options::default()).expect("it is long enough");
    assert!((found.spec.rpm - 7188.0).abs() < 1.0, "{} {:?}", found.spec.rpm, found.missing);
    let [old, new] = [&found.before, &found.after].map(|one| one.figures.mae_ms);
    assert!(old.is_some_and(|ms| ms > 1.0) && new.is_some_and(|ms| ms < 0.2), "{old:?} {new:?}");
    assert_eq!(found.spec.pattern, banded().pattern, "what is learnt is beside the layout");
}

/// Responses that follow no platter: neither reading of gaps is right, and that is said.
#[test]
fn gaps_that_make_no_sense_either_way_are_told() {
    let mut recording = record(&truth(), 800, 0.0, true);
    let mut rng = Rng::stream(9, "chance");
    for one in &mut recording {
        one.response_ns = 2_000_000 + rng.below(14_000_000);
    }
    let found = calibrate(&disk(), &recording, Options::default()).expect("it is read");
    assert_eq!(found.readings.gap(), None, "{:?}", found.readings);
    assert_eq!(found.spec.phase, None);
    assert!(found.missing[0].starts_with("how gaps are read: angles agree by"), "{found:?}");
}

#[test]
fn the_start_of_read_ahead_and_the_cost_of_early_writes_are_learnt() {
    let mut drive = disk();
    drive.overheads.early_write_ms = Some(1.1);
    drive.overheads.early_contiguous_write_ms = Some(0.9);
    drive.cache.as_mut().expect("it has one").read_ahead_from = 2;
    let recording = record(&drive, 2000, 0.3, true);
    let found = calibrate(&disk(), &recording, Options::default()).expect("it is long enough");
    assert_eq!(found.spec.cache.map(|cache| cache.read_ahead_from), Some(2));
    // All requests have four sectors, so their time on the bus cannot be told from the cost.
    let bus = found.spec.bus.map_or(0.0, |bus| 4.0 * bus.write_sector_ms);
    let o = found.spec.overheads;
    let early = o.early_write_ms.expect("it reports early") + o.write_completion_ms + bus;
    assert!((early - 1.18).abs() < 0.02, "{early}");
    assert!(found.after.figures.mae_ms.is_some_and(|ms| ms < 0.05), "{:?}", found.after);
}

#[test]
fn a_model_learns_nothing_from_itself() {
    let recording = record(&disk(), 800, 0.3, true);
    let found = calibrate(&disk(), &recording, Options::default()).expect("it is long enough");
    assert!(found.learnt.is_empty(), "{:?}", found.learnt);
    assert_eq!(found.spec, disk());
    assert!(!found.missing.is_empty());
}

/// Whatever is wrong with a recording, no angle is learnt from it, and that is said.
#[test]
fn recordings_that_show_no_angles_are_told_so() {
    let few = record(&truth(), 50, 0.3, true);
    let error = calibrate(&disk(), &few, Options::default()).expect_err("50 are too few");
    assert!(error.to_string().contains("50 requests; at least 200"), "{error}");
    let writes = record(&truth(), 800, 1.0, true);
    // Units are mixed: gaps are in milliseconds where microseconds are expected.
    let mut mixed = record(&truth(), 800, 0.3, true);
    for one in &mut mixed {
        if let Pace::Gap(gap) = &mut one.pace {
            *gap /= 1000;
        }
    }
    // Another drive: responses come from elsewhere.
    let other = Spec { rpm: 5400.0, ..truth() };
    let other = record(&other, 800, 0.3, true);
    for (kind, recording) in [("writes", writes), ("units", mixed), ("other", other)] {
        let found = calibrate(&disk(), &recording, Options::default()).expect("it is read");
        assert_eq!(found.spec.phase, None, "{kind}");
        assert!(kind == "writes" || found.learnt.is_empty(), "{kind}: {:?}", found.learnt);
        let said = found.missing.join("; ");
        assert!(said.contains("the angles of tracks:"), "{kind}: {said}");
        assert!(said.contains("how gaps are read"), "{kind}: {said}");
    }
}
