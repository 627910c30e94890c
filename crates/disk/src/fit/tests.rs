//! Emulated disks as black boxes: estimates against true values.

use super::{Fit, FitError, Options, Probe, Reach, measure};
use crate::drive::{Drive, Request};
use crate::{Spec, specs};
use seekless_engine::io::Op;
use seekless_engine::rng::Rng;
use seekless_engine::units::Time;

/// A simulated drive and its time; completions may come late by up to `jitter`.
pub(super) struct Emulated {
    drive: Drive,
    now: Time,
    jitter: Time,
    rng: Rng,
}

impl Emulated {
    pub(super) fn new(spec: &Spec, jitter: Time) -> Emulated {
        let drive = Drive::new(spec).expect("a sound specification");
        Emulated { drive, now: 0, jitter, rng: Rng::stream(7, "jitter") }
    }
}

impl Probe for Emulated {
    fn sectors(&self) -> u64 {
        self.drive.sectors()
    }

    fn now(&self) -> Time {
        self.now
    }

    fn pause(&mut self, ns: Time) {
        self.now += ns;
    }

    fn read(&mut self, lbn: u64, sectors: u32) -> Result<Time, String> {
        let request = Request { tag: 0, op: Op::Read, lbn, sectors, fua: false };
        let at = self.drive.serve_alone(self.now, request).map_err(|error| error.to_string())?;
        let late = if self.jitter > 0 { self.rng.below(self.jitter) } else { 0 };
        let took = at + late - self.now;
        self.now += took;
        Ok(took)
    }
}

fn fit(spec: &Spec, jitter: Time) -> Fit {
    let result = measure(&mut Emulated::new(spec, jitter), &Options::default(), &mut |_| {});
    result.unwrap_or_else(|error| panic!("{}: {error}", spec.name))
}

const ZONED: &str = r#"
name = "zoned"
summary = "four zones, eight segments"
rpm = 10000
heads = 6
cylinders = 2000
head_switch_ms = 0.8
overhead_ms = 0.3
zones = [
  { first_cylinder = 0, last_cylinder = 411, sectors = 334, track_skew = 50, cylinder_skew = 80 },
  { first_cylinder = 412, last_cylinder = 990, sectors = 324, track_skew = 49,
    cylinder_skew = 77, spares = 130 },
  { first_cylinder = 991, last_cylinder = 1502, sectors = 306, track_skew = 46,
    cylinder_skew = 73, offset = 17 },
  { first_cylinder = 1503, last_cylinder = 1999, sectors = 280, track_skew = 42,
    cylinder_skew = 67 },
]
[seek]
pieces = [{ below = 600, constant_ms = 0.9, root_ms = 0.15 },
  { constant_ms = 3.0, linear_ms = 0.0026 }]
[bus]
read_sector_ms = 0.0064
write_sector_ms = 0.0064
[cache]
segments = 8
segment_sectors = 400
read_ahead = "segment"
"#;

fn zoned() -> Spec {
    Spec::parse(ZONED).expect("a sound specification")
}

fn builtin(name: &str) -> Spec {
    specs::find(name).expect("built in")
}

/// Jitter of up to 60 us, late only.
const JITTER: Time = 60_000;

#[track_caller]
fn near(what: &str, found: f64, truth: f64, limit: f64) {
    assert!((found - truth).abs() <= limit, "{what}: {found} is not {truth} ± {limit}");
}

/// A skew in sectors, which counts modulo a turn.
#[track_caller]
fn skew(what: &str, found: f64, truth: f64, turn: u64, limit: f64) {
    let turn = turn as f64;
    let off = (found - truth + turn / 2.0).rem_euclid(turn) - turn / 2.0;
    near(what, off, 0.0, limit);
}

/// Compares the whole specification with the estimates.
#[track_caller]
fn check(spec: &Spec, fit: &Fit, jitter: Time) {
    near("rpm", fit.rpm().value, spec.rpm, spec.rpm / 1e5);
    assert_eq!(fit.heads, Some(spec.heads));
    assert_eq!(fit.cylinders(), u64::from(spec.cylinders));
    assert_eq!(fit.zones.len(), spec.zones.len());
    let mut first = 0;
    for (index, (found, truth)) in fit.zones.iter().zip(&spec.zones).enumerate() {
        assert_eq!((found.first, found.end), (first, first + spec.zone_sectors(index)));
        first = found.end;
        let sectors = u64::from(truth.sectors);
        assert_eq!((found.track_sectors, found.turn_sectors), (sectors, sectors));
        let limit = if jitter == 0 { 0.05 } else { 1.0 };
        if let Some(track) = found.track_skew {
            skew("track skew", track.value, truth.track_skew, sectors, limit);
        }
        let cylinder = found.cylinder_skew.value;
        skew("cylinder skew", cylinder, truth.cylinder_skew, sectors, limit);
        skew("offset", found.offset, truth.offset, sectors, limit);
    }
    if spec.heads > 1 {
        let found = fit.head_switch.expect("several heads").value / 1e6;
        near("head switch", found, spec.head_switch_ms, 0.05 * spec.head_switch_ms);
    }
    let mut sum = 0.0;
    for point in &fit.seek {
        let truth = spec.seek.ns(point.distance as u32, spec.cylinders) as f64;
        sum += (point.ns.value - truth).abs() / truth;
    }
    let share = sum / fit.seek.len() as f64;
    assert!(share < if jitter == 0 { 0.001 } else { 0.02 }, "seeks are off by {share}");
    let found = fit.spec("fitted", "").expect("a specification");
    // Without a cache, the time on the bus of a sector from the platter cannot be separated from
    // the rest.
    let bus = |spec: &Spec| spec.bus.map_or(0.0, |bus| bus.read_sector_ms);
    // Late completions are part of the overhead on average.
    let late = jitter as f64 / 2e6;
    let truth = spec.overhead_ms + bus(spec) + late;
    let all = found.overhead_ms + found.overheads.read_miss_after_read_ms + bus(&found);
    near("overhead", all, truth, (0.1 * truth).max(2e-3));
}

#[test]
fn the_built_in_disks_are_recognized() {
    for name in ["hp97560", "hp97560-full", "st19101", "desktop7200-bare"] {
        let spec = builtin(name);
        check(&spec, &fit(&spec, 0), 0);
    }
}

/// Its first cylinder is cut short by spare tracks, its skews differ from zone to zone.
#[test]
fn a_drive_that_begins_within_a_cylinder_is_recognized() {
    let spec = builtin("hp-c2490a");
    let fit = fit(&spec, 0);
    near("rpm", fit.rpm().value, spec.rpm, spec.rpm / 1e5);
    assert_eq!(fit.heads, Some(spec.heads));
    assert_eq!(fit.zones.len(), spec.zones.len());
    for (found, truth) in fit.zones.iter().zip(&spec.zones) {
        let sectors = u64::from(truth.sectors);
        assert_eq!(found.track_sectors, sectors);
        let track = found.track_skew.expect("several heads").value;
        skew("track skew", track, truth.track_skew, sectors, 0.05);
        let cylinder = found.cylinder_skew.value;
        skew("cylinder skew", cylinder, truth.cylinder_skew, sectors, 0.05);
    }
    let switch = fit.head_switch.expect("several heads").value / 1e6;
    near("head switch", switch, spec.head_switch_ms, 0.001);
    for point in fit.seek.iter().filter(|point| point.distance < 100) {
        let truth = spec.seek.ns(point.distance as u32, spec.cylinders) as f64 / 1e6;
        near("seek", point.ns.value / 1e6, truth, 0.01);
    }
}

/// Reads stay on the drive, however small it is.
#[test]
fn small_drives_are_measured_or_refused_by_name() {
    for (blocks, seed) in [(300, 1), (768, 1), (768, 2), (900, 3)] {
        let spec = builtin("st19101").outer(blocks);
        let mut probe = Emulated::new(&spec, 0);
        let options = Options { seed, seek_points: 4, ..Options::default() };
        match measure(&mut probe, &options, &mut |_| {}) {
            Ok(fit) => near("rpm", fit.rpm().value, spec.rpm, spec.rpm / 1e4),
            Err(error) => assert!(!matches!(error, FitError::Probe(_)), "{blocks}: {error}"),
        }
    }
}

/// Some drives keep in each segment only the sectors that follow a request.
#[test]
fn segments_of_drives_that_keep_only_what_follows_are_counted() {
    let fit = fit(&builtin("barracuda"), 0);
    assert!(!fit.cache.keeps);
    assert_eq!(fit.cache.segments, Some(3));
}

/// Tracks along one surface after the other: the report says so.
#[test]
fn bands_are_named() {
    let fit = fit(&builtin("cmr-20tb"), 0);
    assert!(fit.missing.iter().any(|one| one.contains("the number of heads")), "{fit:?}");
}

#[test]
fn the_built_in_disks_are_recognized_through_noise() {
    for name in ["hp97560", "hp97560-full", "st19101", "desktop7200-bare"] {
        let spec = builtin(name);
        check(&spec, &fit(&spec, JITTER), JITTER);
    }
}

#[test]
fn zones_and_a_segmented_cache_are_recognized() {
    for jitter in [0, JITTER] {
        let spec = zoned();
        let fit = fit(&spec, jitter);
        check(&spec, &fit, jitter);
        let cache = &fit.cache;
        assert_eq!((cache.segments, cache.segment_sectors), (Some(8), Some(400)));
        assert_eq!(cache.ahead, Some(Reach::Sectors(400)));
        assert_eq!((cache.keeps_before, cache.zero_latency), (false, Some(false)));
        let bus = cache.bus_sector.expect("hits take time").value;
        near("bus", bus, 6400.0, if jitter == 0 { 1.0 } else { 640.0 });
    }
}

#[test]
fn read_ahead_to_the_end_of_the_track_is_recognized() {
    for (name, sectors) in [("hp97560", 72), ("st19101", 256)] {
        let fit = fit(&builtin(name), JITTER);
        assert_eq!(fit.cache.segments, Some(1));
        assert_eq!(fit.cache.segment_sectors, Some(sectors));
        assert_eq!(fit.cache.ahead, Some(Reach::Track), "{name}");
    }
}

#[test]
fn zero_latency_and_what_passes_before_a_read_are_recognized() {
    let mut spec = zoned();
    if let Some(cache) = &mut spec.cache {
        cache.zero_latency_reads = true;
        cache.read_ahead = crate::spec::Prefetch::Track;
    }
    let found = fit(&spec, JITTER);
    assert_eq!(found.cache.zero_latency, Some(true));
    assert_eq!(found.cache.ahead, Some(Reach::Track));
    if let Some(cache) = &mut spec.cache {
        cache.zero_latency_reads = false;
        cache.reads_free_sectors = true;
    }
    let found = fit(&spec, 0);
    assert!(found.cache.keeps_before);
    assert_eq!(found.heads, Some(6));
}

#[test]
fn slipped_defects_break_no_zone() {
    let mut spec = zoned();
    let mut rng = Rng::stream(9, "slips");
    for zone in &mut spec.zones {
        let mut slips: Vec<u64> = (0..12).map(|_| 5000 + rng.below(600_000)).collect();
        slips.sort_unstable();
        zone.slips = slips;
        zone.spares = 400;
    }
    spec.sparing = crate::spec::Sparing::Zone;
    let fit = fit(&spec, 0);
    assert_eq!((fit.heads, fit.zones.len()), (Some(6), 4), "{:#?}", fit.zones);
    let mut first = 0;
    for (index, zone) in fit.zones.iter().enumerate() {
        assert_eq!(zone.track_sectors, u64::from(spec.zones[index].sectors));
        // To a cylinder.
        near("zone", zone.first as f64, first as f64, 2004.0);
        first += spec.zone_sectors(index);
    }
    assert!(fit.missing.iter().any(|line| line.contains("slipped")), "{:?}", fit.missing);
    for point in &fit.seek {
        let truth = spec.seek.ns(point.distance as u32, spec.cylinders) as f64;
        near("seek", point.ns.value, truth, 0.05 * truth);
    }
}

#[test]
fn a_disk_without_a_cache_has_none() {
    let fit = fit(&builtin("desktop7200-bare"), JITTER);
    assert!(fit.cache.hit.is_none() && !fit.cache.keeps && !fit.cache.reads_ahead);
}

#[test]
fn a_specification_that_was_fitted_times_like_the_disk() {
    let spec = zoned();
    let fitted = fit(&spec, 0).to_toml("fitted", "found").expect("a specification");
    let fitted = Spec::parse(&fitted).expect("it reads back");
    let (mut one, mut other) = (Emulated::new(&spec, 0), Emulated::new(&fitted, 0));
    let mut rng = Rng::stream(3, "compare");
    let (mut sum, mut off) = (0.0, 0.0);
    for _ in 0..2000 {
        let lbn = rng.below(one.sectors() - 8);
        let (a, b) = (one.read(lbn, 8), other.read(lbn, 8));
        let (a, b) = (a.expect("in range") as f64, b.expect("in range") as f64);
        sum += a;
        off += b - a;
        let pause = rng.below(20_000_000);
        one.pause(pause);
        other.pause(pause);
    }
    assert!((off / sum).abs() < 0.02, "the mean is off by {}", off / sum);
}

/// The stated error of a value is about its real error: three times as much is exceeded by a
/// quarter of the seeks at most (completions that come late move all of a disk's in the same
/// direction), eight times by none; and the sum of all stated errors is small.
#[test]
fn stated_errors_cover_the_truth() {
    for spec in [builtin("st19101"), builtin("hp97560"), zoned()] {
        let fit = fit(&spec, JITTER);
        // Possible loss by rounding: a disk turns and moves in whole nanoseconds.
        let apart = |found: super::Estimate, truth: f64, hair: f64| {
            (found.value - truth).abs() / (found.error + hair)
        };
        let off = |found, truth: f64| apart(found, truth, 1.0 + truth * 1e-6);
        let rpm = apart(fit.rpm(), spec.rpm, spec.rpm * 1e-7);
        let switch = fit.head_switch.expect("several heads");
        let switch = off(switch, spec.head_switch_ms * 1e6);
        assert!(rpm < 3.0 && switch < 3.0, "{}: rpm {rpm}, switch {switch}", spec.name);
        let truth = |distance: u64| spec.seek.ns(distance as u32, spec.cylinders) as f64;
        let seeks: Vec<f64> =
            fit.seek.iter().map(|point| off(point.ns, truth(point.distance))).collect();
        let most = seeks.iter().copied().fold(0.0, f64::max);
        let far = seeks.iter().filter(|&&off| off > 3.0).count();
        println!("{}: {far} of {} seeks beyond three errors, most {most}", spec.name, seeks.len());
        assert!(most < 8.0 && far * 4 <= seeks.len(), "{}: {seeks:?}", spec.name);
        let errors: f64 = fit.seek.iter().map(|point| point.ns.error).sum();
        let truths: f64 = fit.seek.iter().map(|point| truth(point.distance)).sum();
        assert!(errors < 0.05 * truths, "{}: errors of {}", spec.name, errors / truths);
    }
}

#[test]
fn what_the_time_did_not_allow_is_named() {
    let mut probe = Emulated::new(&zoned(), 0);
    let options = Options { budget: Some(120_000_000_000), ..Options::default() };
    match measure(&mut probe, &options, &mut |_| {}) {
        Ok(fit) => {
            assert!(!fit.missing.is_empty());
            fit.to_toml("short", "").expect("what there is makes a specification");
        }
        Err(error) => assert!(error.to_string().contains("--budget"), "{error}"),
    }
    let options = Options { budget: Some(1_000_000), ..Options::default() };
    let error = measure(&mut probe, &options, &mut |_| {}).expect_err("a millisecond");
    assert!(error.to_string().contains("--budget"), "{error}");
}

/// Answers at once, as memory does.
pub(super) struct Memory(pub(super) Time);

impl Probe for Memory {
    fn sectors(&self) -> u64 {
        1 << 20
    }

    fn now(&self) -> Time {
        self.0
    }

    fn pause(&mut self, ns: Time) {
        self.0 += ns;
    }

    fn read(&mut self, lbn: u64, _: u32) -> Result<Time, String> {
        if lbn % 7 == 3 && self.0 > 1_000_000_000_000 {
            return Err("the medium is gone".into());
        }
        self.0 += 80_000;
        Ok(80_000)
    }
}

#[test]
fn what_does_not_turn_is_refused() {
    let error = measure(&mut Memory(0), &Options::default(), &mut |_| {}).expect_err("memory");
    assert!(error.to_string().contains("not a mechanical disk"), "{error}");
}

#[test]
fn an_error_of_the_drive_is_passed_on() {
    let mut probe = Memory(1_000_000_000_001);
    let error = measure(&mut probe, &Options::default(), &mut |_| {}).expect_err("broken");
    assert_eq!(error, FitError::Probe("the medium is gone".into()));
}
