//! A benchmark that only reads: it finds the rotation, the sectors of a turn from rim to hub, the
//! skew of tracks and what a move takes by distance, and it notes every read that it sent.
//!
//! The notes are a recording, from which [`crate::calibrate`] learns the angles of tracks. Places
//! are visited in sweeps, so that a cache has forgotten the neighbours of a sector when that is
//! read; what a sweep lacks for this is filled up with random reads, which a calibration needs
//! anyway. [`super::measure`] finds more and takes longer.

use super::bench::{Bench, Measured, Step};
use super::{Estimate, FitError, Options, Probe, cache, rotation};
use seekless_engine::units::Time;
use std::fmt::Write as _;

/// Steps of a sweep over tracks, and how many of them make a turn.
const STEPS: u64 = 18;
const STEPS_A_TURN: f64 = 6.0;

/// A break in the angles of a track that is larger, in turns, is the skew to the next one.
const BREAK: f64 = 0.015;

/// So many random reads fill up a sweep at most.
const MOST_FILLING: usize = 256;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct SampleOptions {
    /// Measuring ends after so long by the probe's clock, in nanoseconds.
    pub budget: Option<Time>,
    /// Places at which tracks are measured.
    pub places: u32,
    /// Random reads.
    pub random: u32,
    /// Seed of the choice of sectors.
    pub seed: u64,
}

impl Default for SampleOptions {
    fn default() -> SampleOptions {
        SampleOptions { budget: None, places: 32, random: 2500, seed: 1 }
    }
}

/// A read that was sent, with times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// When it was sent.
    pub sent: Time,
    /// First sector.
    pub lbn: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// How long it took.
    pub took: Time,
}

/// The tracks at a place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tracks {
    /// The first sector that was read there.
    pub lbn: u64,
    /// Sectors that pass in a turn.
    pub turn_sectors: Estimate,
}

/// What it takes to get to a place at a distance and to read there, without the mean rotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// The shortest of the distances, in sectors; the longest is twice that.
    pub distance: u64,
    /// Mean time in nanoseconds, less half a turn.
    pub ns: Estimate,
    /// Reads.
    pub reads: usize,
}

/// What was found, and all reads.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Sectors of the drive.
    pub sectors: u64,
    /// One revolution, in nanoseconds.
    pub revolution: Estimate,
    /// Standard deviation of completion times about the turns of the platter, in nanoseconds.
    pub noise: f64,
    /// Tracks from the first sector to the last.
    pub tracks: Vec<Tracks>,
    /// Angles from the end of a track to the begin of the next, in turns, in ascending order.
    pub skews: Vec<f64>,
    /// Times by distance.
    pub moves: Vec<Move>,
    /// Every read, in order.
    pub reads: Vec<Taken>,
    /// Time that measuring took, in nanoseconds.
    pub took: Time,
    /// What could not be found, and why.
    pub missing: Vec<String>,
}

impl Sample {
    /// The reads as a recording of comma-separated values.
    pub fn to_csv(&self) -> String {
        let mut text = String::from("op,lbn,sectors,response_us,time_us\n");
        let us = |ns: Time| (ns / 1000, ns % 1000);
        for &Taken { sent, lbn, sectors, took } in &self.reads {
            let ((sent, sent_ns), (took, took_ns)) = (us(sent), us(took));
            let _ = writeln!(text, "R,{lbn},{sectors},{took}.{took_ns:03},{sent}.{sent_ns:03}");
        }
        text
    }

    /// 10⁶ bytes a second that pass the head.
    pub fn mb_per_s(&self, tracks: &Tracks) -> Estimate {
        tracks.turn_sectors.scaled(512e3 / self.revolution.value)
    }
}

/// A probe that notes its reads.
struct Noting<'a> {
    probe: &'a mut dyn Probe,
    reads: Vec<Taken>,
}

impl Probe for Noting<'_> {
    fn sectors(&self) -> u64 {
        self.probe.sectors()
    }

    fn granule(&self) -> u32 {
        self.probe.granule()
    }

    fn largest(&self) -> u32 {
        self.probe.largest()
    }

    fn now(&self) -> Time {
        self.probe.now()
    }

    fn pause(&mut self, ns: Time) {
        self.probe.pause(ns);
    }

    fn read(&mut self, lbn: u64, sectors: u32) -> Result<Time, String> {
        let took = self.probe.read(lbn, sectors)?;
        let sent = self.probe.now().saturating_sub(took);
        self.reads.push(Taken { sent, lbn, sectors, took });
        Ok(took)
    }
}

/// Measures a drive and notes each read.
///
/// # Errors
/// If the drive fails, shows no rotation, or the time is too short even for that. What else is
/// missing is named in [`Sample::missing`].
pub fn sample(
    probe: &mut dyn Probe,
    options: &SampleOptions,
    progress: &mut dyn FnMut(Step),
) -> Result<Sample, FitError> {
    let mut noting = Noting { probe, reads: Vec::new() };
    let choice = Options { budget: options.budget, seed: options.seed, ..Options::default() };
    let mut bench = Bench::new(&mut noting, &choice, progress);
    bench.begin("the cache");
    cache::hits(&mut bench).map_err(|stop| unturning(stop.named("the cache")))?;
    bench.begin("the rotation");
    rotation::acquire(&mut bench).map_err(|stop| unturning(stop.named("the rotation")))?;
    let mut sample = Sample {
        sectors: bench.sectors(),
        revolution: bench.revolution(),
        noise: bench.sigma(),
        tracks: Vec::new(),
        skews: Vec::new(),
        moves: Vec::new(),
        reads: Vec::new(),
        took: 0,
        missing: Vec::new(),
    };
    let mut missing = Vec::new();
    bench.begin("tracks");
    if let Err(stop) = tracks(&mut bench, options, &mut sample.tracks) {
        bench.note(stop, "sectors of a turn", &mut missing)?;
    }
    bench.begin("skews");
    if let Err(stop) = skews(&mut bench, &sample.tracks, &mut sample.skews) {
        bench.note(stop, "skews", &mut missing)?;
    }
    bench.begin("random reads");
    for _ in 0..options.random {
        if let Err(stop) = wander(&mut bench) {
            bench.note(stop, "some of the random reads", &mut missing)?;
            break;
        }
    }
    (sample.revolution, sample.noise) = (bench.revolution(), bench.sigma());
    sample.took = bench.spent().1;
    let hit = bench.hit_limit;
    sample.reads = noting.reads;
    sample.moves = moves(&sample.reads, sample.revolution.value, hit);
    if sample.skews.is_empty() {
        missing.push("skews: no break in the angles of tracks was seen".into());
    }
    sample.missing = missing;
    Ok(sample)
}

fn unturning(error: FitError) -> FitError {
    match error {
        FitError::NotMechanical(why) => {
            FitError::NotMechanical(format!("no rotation found: {why}"))
        }
        other => other,
    }
}

/// Angle of a sector in turns, from one read.
fn angle(bench: &mut Bench<'_>, lbn: u64) -> Measured<f64> {
    bench.forget(lbn)?;
    bench.touch(lbn)?;
    Ok(bench.phase_at(bench.now()) / bench.period())
}

/// A difference of angles as the nearest of its values to zero.
fn centred(turns: f64) -> f64 {
    turns - turns.round()
}

/// Reads somewhere: anywhere, or at a distance of which all orders of magnitude are as likely.
fn wander(bench: &mut Bench<'_>) -> Measured<()> {
    let mut place = bench.anywhere();
    for _ in 0..16 {
        if !bench.held(place) {
            break;
        }
        place = bench.anywhere();
    }
    if let Some(from) = bench.last().filter(|_| bench.rng.chance(0.5)) {
        let most = (bench.sectors() as f64).log2();
        let distance = (4.0 + bench.rng.unit() * (most - 4.0)).exp2() as u64;
        let up = bench.rng.chance(0.5);
        let near = if up { from.saturating_add(distance) } else { from.saturating_sub(distance) };
        let near = bench.aligned(near);
        // What the cache may hold shows nothing of the platter.
        if !bench.held(near) {
            place = near;
        }
    }
    bench.dither(20e6);
    bench.touch(place).map(drop)
}

/// Fills a sweep over so many places up, so that the cache forgets the first of them.
fn fill(bench: &mut Bench<'_>, places: usize) -> Measured<()> {
    for _ in places..bench.segments.min(MOST_FILLING) {
        wander(bench)?;
    }
    bench.mark()
}

/// Sectors of a turn at places from the first sector to the last: the angle of a sector so far
/// behind the first, twice as far each time, until another track begins.
fn tracks(bench: &mut Bench<'_>, options: &SampleOptions, found: &mut Vec<Tracks>) -> Measured<()> {
    struct Place {
        lbn: u64,
        first: f64,
        /// The farthest sector on the track so far, and its angle from the first in turns.
        reach: Option<(u64, f64)>,
        ended: bool,
    }
    let step = bench.granule().max(8);
    let count = u64::from(options.places.max(2));
    let last = bench.sectors().saturating_sub(1 << 16);
    let mut places: Vec<Place> = Vec::new();
    for number in 0..count {
        let lbn = bench.aligned(
            u128::from(last).saturating_mul(number.into()).div_euclid(u128::from(count - 1)) as u64,
        );
        places.push(Place { lbn, first: angle(bench, lbn)?, reach: None, ended: false });
    }
    fill(bench, places.len())?;
    for doubling in 0..12 {
        let offset = step << doubling;
        for place in places.iter_mut().filter(|place| !place.ended) {
            if place.lbn + offset >= bench.sectors() {
                place.ended = true;
                continue;
            }
            let turns = angle(bench, place.lbn + offset)? - place.first;
            let guess = place.reach.map_or(0.0, |(_, turns)| 2.0 * turns);
            let off = centred(turns - guess);
            // The first steps are shorter than the noise.
            let noise = 6.0 * bench.sigma() / bench.period();
            if place.reach.is_some() && off.abs() > noise.max(BREAK).max(0.1 * guess) {
                place.ended = true;
                continue;
            }
            place.reach = Some((offset, guess + off));
            place.ended = guess + off > 0.45;
        }
        fill(bench, places.iter().filter(|place| !place.ended).count())?;
        if places.iter().all(|place| place.ended) {
            break;
        }
    }
    let noise = 2.0 * bench.sigma() / bench.period();
    for Place { lbn, reach, .. } in places {
        if let Some((offset, turns)) = reach.filter(|&(_, turns)| turns > 4.0 * noise) {
            let sectors = offset as f64 / turns;
            let turn_sectors = Estimate::new(sectors, sectors * noise / turns);
            found.push(Tracks { lbn, turn_sectors });
        }
    }
    drop_strays(found);
    Ok(())
}

/// Drops places that differ from their neighbours by more than zones do: a track began so near
/// behind the first sector that it could not be told from the track before.
fn drop_strays(found: &mut Vec<Tracks>) {
    let all: Vec<f64> = found.iter().map(|place| place.turn_sectors.value).collect();
    let mut index = 0usize;
    found.retain(|place| {
        let from = index.saturating_sub(2).min(all.len().saturating_sub(5));
        let mut near = all[from..all.len().min(from + 5)].to_vec();
        near.sort_by(f64::total_cmp);
        index += 1;
        (place.turn_sectors.value / near[near.len() / 2] - 1.0).abs() < 0.25
    });
}

/// Angles from track to track: sectors a sixth of a turn apart, over three tracks at each place.
fn skews(bench: &mut Bench<'_>, tracks: &[Tracks], found: &mut Vec<f64>) -> Measured<()> {
    let mut before: Vec<Option<(u64, f64)>> = vec![None; tracks.len()];
    let noise = 6.0 * bench.sigma() / bench.period();
    for step in 0..STEPS {
        for (place, before) in tracks.iter().zip(&mut before) {
            let turn = place.turn_sectors.value;
            let lbn = bench.aligned(place.lbn + (step as f64 * turn / STEPS_A_TURN) as u64);
            let here = angle(bench, lbn)?;
            if let Some((from, there)) = before.replace((lbn, here)) {
                let smooth = lbn.saturating_sub(from) as f64 / turn;
                let rest = centred(here - there - smooth);
                let doubt = smooth * place.turn_sectors.error / turn;
                if rest.abs() > noise.max(BREAK).max(4.0 * doubt) {
                    found.push(rest.rem_euclid(1.0));
                }
            }
        }
        fill(bench, tracks.len())?;
    }
    found.sort_by(f64::total_cmp);
    Ok(())
}

/// Mean times by distance, in steps of a factor of two. Reads that took no longer than `hit` may
/// have come from the cache and are left out.
fn moves(reads: &[Taken], turn: f64, hit: f64) -> Vec<Move> {
    let mut bins: Vec<Vec<f64>> = vec![Vec::new(); 64];
    for pair in reads.windows(2) {
        let end = pair[0].lbn + u64::from(pair[0].sectors);
        let distance = pair[1].lbn.abs_diff(end);
        let took = pair[1].took as f64;
        if distance > 0 && pair[1].sectors == pair[0].sectors && took > hit {
            bins[distance.ilog2() as usize].push(took);
        }
    }
    let mut moves = Vec::new();
    for (order, times) in bins.into_iter().enumerate().filter(|(_, times)| times.len() >= 12) {
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        let ns = Estimate::new(mean - turn / 2.0, error);
        moves.push(Move { distance: 1 << order, ns, reads: times.len() });
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Emulated, Memory};
    use super::*;
    use crate::calibrate::tests::{disk, truth};
    use crate::calibrate::{Options as Calibration, calibrate};
    use crate::recording::Recording;
    use crate::specs;

    fn of(spec: &crate::Spec, jitter: Time) -> Sample {
        let mut probe = Emulated::new(spec, jitter);
        let options = SampleOptions::default();
        let found = sample(&mut probe, &options, &mut |_| {});
        found.unwrap_or_else(|error| panic!("{}: {error}", spec.name))
    }

    /// The recording of a probe teaches a specification what it did not know of the drive.
    #[test]
    fn a_specification_learns_from_a_probe_what_it_lacked() {
        let found = of(&truth(), 20_000);
        let csv = found.to_csv();
        let recording: Result<Vec<_>, _> =
            Recording::open(csv.as_bytes()).expect("it has a header").collect();
        let recording = recording.expect("the program reads what it writes");
        assert_eq!(recording.len(), found.reads.len());
        let better = calibrate(&disk(), &recording, Calibration::default()).expect("long enough");
        let told = (better.spec.rpm, &better.readings, &better.learnt, &better.missing);
        assert!(
            (better.spec.rpm - 7188.0).abs() < 0.5,
            "{told:?} {:?} {:?}",
            better.before,
            better.after
        );
        let [old, new] = [&better.before, &better.after].map(|one| one.figures.mae_ms);
        assert!(old.is_some_and(|ms| ms > 1.0), "{old:?}");
        assert!(
            new.is_some_and(|ms| ms < 0.2),
            "{new:?} {told:?} {:?} {:?}",
            better.before,
            better.after
        );
        assert!(better.after.phase_ms.is_some_and(|ms| ms < 0.05), "{:?}", better.after);
    }

    /// Rotation, zones and skews of disks whose truth is known, through noise.
    #[test]
    fn what_is_found_is_the_truth() {
        for (name, skew) in [("desktop7200", 532.0 / 3880.0), ("barracuda", f64::NAN)] {
            let spec = specs::find(name).expect("built in");
            let found = of(&spec, 20_000);
            let turn = 60e9 / spec.rpm;
            assert!((found.revolution.value / turn - 1.0).abs() < 1e-5, "{name}: {found:?}");
            assert!(found.tracks.len() > 24, "{name}: {} places", found.tracks.len());
            let motion = crate::motion::Motion::new(&spec).expect("sound");
            let mut near = 0;
            for place in &found.tracks {
                let truth = f64::from(motion.geometry().run(place.lbn).track_sectors);
                near += usize::from((place.turn_sectors.value / truth - 1.0).abs() < 0.05);
            }
            assert!(near * 10 >= found.tracks.len() * 9, "{name}: {:?}", found.tracks);
            let middle = found.skews[found.skews.len() / 2];
            assert!(skew.is_nan() || (middle - skew).abs() < 0.01, "{name}: {:?}", found.skews);
            let far = found.moves.last().expect("long moves");
            let near = found.moves.first().expect("short moves");
            assert!(far.ns.value > near.ns.value + 3e6, "{name}: {:?}", found.moves);
        }
    }

    #[test]
    fn what_does_not_turn_shows_no_rotation() {
        let error = sample(&mut Memory(0), &SampleOptions::default(), &mut |_| {});
        let error = error.expect_err("memory does not turn").to_string();
        assert!(error.starts_with("no rotation found: "), "{error}");
        // A device with a controller, whose times scatter but follow no platter.
        let mut noisy = Emulated::new(&specs::find("cheetah-x15-36lp").expect("built in"), 300_000);
        let error = sample(&mut noisy, &SampleOptions::default(), &mut |_| {});
        let error = error.expect_err("its positioning takes a constant time").to_string();
        assert!(error.starts_with("no rotation found: "), "{error}");
    }

    #[test]
    fn a_short_time_is_told() {
        let mut probe = Emulated::new(&truth(), 0);
        let short = SampleOptions { budget: Some(110_000_000_000), ..SampleOptions::default() };
        let found = sample(&mut probe, &short, &mut |_| {}).expect("the rotation is known by then");
        assert!(
            found.missing.iter().any(|line| line.contains("time was up")),
            "{:?}",
            found.missing
        );
        assert!(found.took < 111_000_000_000, "{}", found.took);
        let none = SampleOptions { budget: Some(1_000_000), ..SampleOptions::default() };
        let error = sample(&mut probe, &none, &mut |_| {}).expect_err("a millisecond");
        assert!(error.to_string().contains("--budget"), "{error}");
    }
}
