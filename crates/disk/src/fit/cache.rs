//! The cache: whether it keeps sectors that were read, in how many segments, and how far it reads
//! ahead.

use super::bench::{Bench, Measured, Stop};
use super::layout::Zone;
use super::{Estimate, FitError};

/// Largest number of segments that is counted.
const MOST_SEGMENTS: usize = 128;

/// How far a drive reads ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// No read-ahead.
    #[default]
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// So many sectors behind the first requested one.
    Sectors(u64),
}

/// The estimated properties of the cache.
#[derive(Clone, Debug, Default)]
pub struct CacheFit {
    /// Sectors that were read are kept.
    pub keeps: bool,
    /// Sectors behind a read are kept, although they were not requested.
    pub reads_ahead: bool,
    /// A read from the cache, in nanoseconds.
    pub hit: Option<Estimate>,
    /// Of that for each sector, in nanoseconds.
    pub bus_sector: Option<Estimate>,
    /// Segments: places that are kept at once. A lower bound if it is the most that is counted.
    pub segments: Option<u32>,
    /// Sectors of a segment, if it could be seen.
    pub segment_sectors: Option<u64>,
    /// How far it reads ahead.
    pub ahead: Option<Reach>,
    /// Sectors before a read are kept.
    pub keeps_before: bool,
    /// Zero-latency reads: a whole track takes one turn, wherever the head arrives.
    pub zero_latency: Option<bool>,
}

impl CacheFit {
    /// True if [`CacheFit::segments`] is a lower bound.
    pub fn segments_or_more(&self) -> bool {
        self.segments.is_some_and(|segments| segments as usize >= MOST_SEGMENTS)
    }

    /// Parameters that could not be estimated although the time sufficed, and why.
    pub(super) fn untold(&self) -> Vec<String> {
        let mut untold = Vec::new();
        let mut say = |what: &str| untold.push(what.to_owned());
        if self.zero_latency.is_none() {
            say(
                "zero-latency reads: no request may be as long as a track, or its time is neither \
                 the same from everywhere nor up to a turn longer",
            );
        }
        if self.hit.is_none() {
            say("segments, hits, bus: no read came from a cache");
        } else if self.bus_sector.is_none() {
            say("bus: the times of hits do not grow steadily with their length");
        }
        if self.hit.is_some() && self.segment_sectors.is_none() {
            say(match self.keeps {
                true => "size of segments: they hold the longest request",
                false => "size of segments: only sectors behind a read are kept",
            });
        }
        untold
    }
}

/// A random pause up to this, in nanoseconds, puts the platter at a random angle.
const TURN: f64 = 30e6;

/// Reads a sector after `before` has run. Its time tells a hit from a miss.
fn after(
    bench: &mut Bench<'_>,
    at: u64,
    before: &mut dyn FnMut(&mut Bench<'_>) -> Measured<()>,
) -> Measured<f64> {
    before(bench)?;
    bench.dither(TURN);
    bench.touch(at)
}

/// Properties of the cache that can be measured before the platter is known. Sets up the bench so
/// that its reads miss the cache.
pub(super) fn hits(bench: &mut Bench<'_>) -> Measured<CacheFit> {
    let mut cache = CacheFit::default();
    let granule = bench.granule();
    let (mut again, mut behind, mut ahead_of) = (Vec::new(), Vec::new(), Vec::new());
    let mut elsewhere = Vec::new();
    for _ in 0..12 {
        let at = bench.anywhere().max(granule).min(bench.sectors() - 2 * granule);
        let at = bench.aligned(at);
        again.push(after(bench, at, &mut |bench| bench.touch(at).map(drop))?);
        let at = bench.anywhere().max(granule).min(bench.sectors() - 2 * granule);
        let at = bench.aligned(at);
        behind.push(after(bench, at + granule, &mut |bench| bench.touch(at).map(drop))?);
        let at = bench.anywhere().max(granule).min(bench.sectors() - 2 * granule);
        let at = bench.aligned(at);
        elsewhere.push(bench.touch(at)?);
        ahead_of.push(after(bench, at - granule, &mut |bench| bench.touch(at).map(drop))?);
    }
    cache.keeps = steady(&again);
    cache.reads_ahead = steady(&behind);
    let hits = if cache.keeps { &again } else { &behind };
    if !cache.keeps && !cache.reads_ahead {
        bench.segments = 1;
        return Ok(cache);
    }
    let hit = middle(hits);
    cache.hit = Some(hit);
    let limit = limit_of(hits);
    bench.hit_limit = limit;
    if elsewhere.iter().filter(|&&took| took <= limit).count() > elsewhere.len() / 2 {
        return Err(Stop::Failed(FitError::NotMechanical(
            "all reads take the same time; this is not a mechanical disk, or something between \
             holds what is read"
                .into(),
        )));
    }
    cache.keeps_before = ahead_of.iter().filter(|&&took| took <= limit).count() >= 4;
    if cache.keeps {
        let segments = segments(bench, limit, 0)?;
        cache.segments = Some(segments as u32);
        bench.segments = segments;
    } else {
        // The cache keeps only the sectors that follow a read, so these are requested.
        cache.segments = Some(segments(bench, limit, granule)? as u32);
    }
    bench.reach = (reach(bench, limit)?, if cache.keeps_before { 4096 } else { 64 });
    Ok(cache)
}

/// True if times are alike: those of hits are, those of a turning platter are not.
fn steady(times: &[f64]) -> bool {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let high = sorted[sorted.len() - 1 - sorted.len() / 8];
    high - sorted[0] < 0.6e6
}

/// Times up to this are hits.
fn limit_of(hits: &[f64]) -> f64 {
    let mut sorted = hits.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    median + (3.0 * (median - sorted[0])).clamp(50e3, 300e3)
}

fn middle(times: &[f64]) -> Estimate {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let quarter = sorted[n * 3 / 4] - sorted[n / 4];
    Estimate::new(sorted[n / 2], quarter.max(1.0) / (n as f64).sqrt())
}

/// Places that are kept at once, as reads so many sectors behind them show.
fn segments(bench: &mut Bench<'_>, limit: f64, behind: u64) -> Measured<usize> {
    let mut kept = |others: usize| -> Measured<bool> {
        let mut hits = 0;
        for trial in 0..4 {
            let at = bench.anywhere();
            let at = bench.aligned(at.min(bench.sectors().saturating_sub(2 * bench.granule())));
            bench.touch(at)?;
            if behind > 0 {
                bench.pause(TURN);
            }
            for _ in 0..others {
                let mut other = bench.anywhere();
                while other.abs_diff(at) < 64.min(bench.sectors() / 8) {
                    other = bench.anywhere();
                }
                bench.touch(other)?;
            }
            bench.dither(TURN);
            hits += usize::from(bench.touch(at + behind)? <= limit);
            // Some hits by chance: on a small disk the sectors read between may be cached already.
            if hits + 3 < trial + 1 {
                break;
            }
        }
        Ok(hits >= 3)
    };
    let (mut low, mut high) = (0, 1);
    while high < MOST_SEGMENTS && kept(high)? {
        (low, high) = (high, high * 2);
    }
    if high >= MOST_SEGMENTS {
        return Ok(MOST_SEGMENTS);
    }
    while high - low > 1 {
        let centre = low + (high - low) / 2;
        if kept(centre)? { low = centre } else { high = centre }
    }
    Ok(high)
}

/// A distance behind a read at which the cache holds nothing.
fn reach(bench: &mut Bench<'_>, limit: f64) -> Measured<u64> {
    let granule = bench.granule();
    let mut distance = granule;
    let most = (bench.sectors() / 4).min(1 << 17);
    loop {
        let mut hits = 0;
        for _ in 0..8 {
            let at = bench.rng.below(bench.sectors() - distance - granule);
            let at = bench.aligned(at);
            bench.evict(&[at, at + distance])?;
            bench.touch(at)?;
            bench.pause(6.0 * TURN);
            bench.dither(TURN);
            hits += u32::from(bench.touch(at + distance)? <= limit);
        }
        if hits < 2 || distance * 2 > most {
            return Ok((2 * distance).max(64));
        }
        distance *= 2;
    }
}

/// Extent of read-ahead and segments, the bus, and zero-latency reads.
pub(super) fn shape(bench: &mut Bench<'_>, zones: &[Zone], cache: &mut CacheFit) -> Measured<()> {
    let Some(zone) = zones.iter().max_by_key(|zone| zone.cylinders().min(zone.regular)) else {
        return Ok(());
    };
    cache.zero_latency = zero_latency(bench, zone)?;
    let Some(hit) = cache.hit else {
        cache.ahead = Some(Reach::None);
        return Ok(());
    };
    let limit = hit.value + (12.0 * bench.sigma()).max(60e3);
    cache.ahead = Some(match cache.reads_ahead {
        true => read_ahead(bench, zone, limit)?,
        false => Reach::None,
    });
    if cache.keeps {
        cache.segment_sectors = segment(bench, zone, limit)?;
    }
    cache.bus_sector = bus(bench, zone)?;
    Ok(())
}

/// First sector of a track of a random cylinder, or of the zone if so many sectors from there on
/// would leave the disk.
fn some_track(bench: &mut Bench<'_>, zone: &Zone, sectors: u64) -> u64 {
    let cylinders = zone.cylinders().min(zone.regular).saturating_sub(2).max(1);
    let cylinder = bench.rng.below(cylinders);
    let start = bench.aligned(zone.start_of(cylinder, 0));
    let leaves = start + sectors > bench.sectors();
    if leaves { bench.aligned(zone.first) } else { start }
}

/// Largest distance behind a read, from a position on the track, that the cache holds later.
fn held_behind(bench: &mut Bench<'_>, zone: &Zone, at: u64, limit: f64) -> Measured<u64> {
    let granule = bench.granule();
    let mut held = |distance: u64| -> Measured<bool> {
        let mut hits = 0;
        for _ in 0..3 {
            let from = some_track(bench, zone, at + distance);
            let from = bench.aligned(from + at);
            let target = bench.aligned(from + distance);
            bench.forget_pair(from, (from, target))?;
            bench.evict(&[from, target])?;
            bench.touch(from)?;
            // By then the drive has read all of it: a turn for each track and its skew.
            let turns = 3.0 + 2.0 * distance as f64 / zone.track as f64;
            bench.pause(turns * bench.period());
            bench.dither(TURN);
            hits += u32::from(bench.touch(target)? <= limit);
        }
        Ok(hits >= 2)
    };
    let (mut low, mut high) = (0, 1);
    while high * granule < (zone.end - zone.first) / 2 && held(high * granule)? {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let centre = low + (high - low) / 2;
        if held(centre * granule)? { low = centre } else { high = centre }
    }
    Ok((low + 1) * granule)
}

fn read_ahead(bench: &mut Bench<'_>, zone: &Zone, limit: f64) -> Measured<Reach> {
    let shift = bench.aligned(zone.track / 3);
    let from_start = held_behind(bench, zone, 0, limit)?;
    let from_within = held_behind(bench, zone, shift, limit)?;
    let slack = 2 * bench.granule();
    let near = |a: u64, b: u64| a.abs_diff(b) <= slack;
    Ok(if near(from_start, zone.track) && near(from_within + shift, zone.track) {
        Reach::Track
    } else if near(from_start, zone.cylinder) && near(from_within + shift, zone.cylinder) {
        Reach::Cylinder
    } else {
        Reach::Sectors(from_start.max(from_within))
    })
}

/// Sectors of a read of which the cache still holds the first when the last has been read.
fn segment(bench: &mut Bench<'_>, zone: &Zone, limit: f64) -> Measured<Option<u64>> {
    let granule = bench.granule();
    let most = u64::from(bench.largest()).min((zone.end - zone.first) / 2) / granule;
    let mut held = |count: u64| -> Measured<bool> {
        let mut hits = 0;
        for _ in 0..3 {
            let from = some_track(bench, zone, count * granule);
            bench.forget_pair(from, (from, from + count * granule))?;
            bench.read(from, (count * granule) as u32)?;
            bench.dither(TURN);
            hits += u32::from(bench.touch(from)? <= limit);
        }
        Ok(hits >= 2)
    };
    let (mut low, mut high) = (1, 2);
    while high < most && held(high)? {
        (low, high) = (high, high * 2);
    }
    if high >= most && held(most)? {
        return Ok(None);
    }
    high = high.min(most);
    while high - low > 1 {
        let centre = low + (high - low) / 2;
        if held(centre)? { low = centre } else { high = centre }
    }
    Ok(Some(low * granule))
}

/// Time of a sector on the bus: hits of many sectors against hits of few.
fn bus(bench: &mut Bench<'_>, zone: &Zone) -> Measured<Option<Estimate>> {
    let granule = bench.granule();
    let many = (zone.track / 2).min(u64::from(bench.largest())).min(64) / granule * granule;
    if many <= granule {
        return Ok(None);
    }
    let mut timed = |count: u64| -> Measured<Vec<f64>> {
        let mut times = Vec::new();
        for _ in 0..16 {
            let from = some_track(bench, zone, many);
            bench.forget_pair(from, (from, from + many))?;
            bench.read(from, many as u32)?;
            bench.pause(3.0 * bench.period());
            bench.dither(TURN);
            times.push(bench.read(from, count as u32)?);
        }
        Ok(times)
    };
    let (few, all) = (timed(granule)?, timed(many)?);
    if !steady(&few) || !steady(&all) {
        return Ok(None);
    }
    let slope = middle(&all).less(middle(&few)).scaled(1.0 / (many - granule) as f64);
    Ok((slope.value > 0.0).then_some(slope))
}

fn zero_latency(bench: &mut Bench<'_>, zone: &Zone) -> Measured<Option<bool>> {
    let granule = bench.granule();
    let length = zone.track / granule * granule;
    if length > u64::from(bench.largest()) {
        return Ok(None);
    }
    let mut times = Vec::new();
    for _ in 0..24 {
        let from = some_track(bench, zone, length);
        bench.forget_pair(from, (from, from + length))?;
        // From the next cylinder each time: only the rotation differs.
        bench.touch(bench.aligned(from + zone.cylinder))?;
        bench.dither(TURN);
        times.push(bench.read(from, length as u32)?);
    }
    times.sort_by(f64::total_cmp);
    // With zero latency all reads take the same time. Without it the longest wait is nearly a turn
    // longer than the shortest. Values between have other causes, such as a bus slower than the
    // platter.
    let spread = (times[times.len() - 2] - times[1]) / bench.period();
    Ok(match spread {
        0.0..0.25 => Some(true),
        0.35.. => Some(false),
        _ => None,
    })
}
