//! Tracks: how many sectors, where they begin, and their skews.
//!
//! Along a track the phase grows by the time of a sector; where it jumps, the next track begins.

use super::FitError;
use super::bench::{Bench, Measured, Stop};

/// Tracks that are followed to find the pattern of skews.
const MOST_HEADS: usize = 40;

/// A zone, as far as it is measured. Times and phases are in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    /// First sector.
    pub(super) first: u64,
    /// Sector behind the last.
    pub(super) end: u64,
    /// Sectors on a track that hold data.
    pub(super) track: u64,
    /// Sectors in a cylinder that hold data.
    pub(super) cylinder: u64,
    /// Time of a sector.
    pub(super) sector_ns: f64,
    /// Standard error of it.
    pub(super) sector_error: f64,
    /// Tracks in a cylinder; 1 until it is known.
    pub(super) heads: u64,
    /// All skews are alike, so they do not show where cylinders begin.
    pub(super) uniform: bool,
    /// Phase of the first sector, when it has passed.
    pub(super) phase: f64,
    pub(super) track_skew: f64,
    pub(super) cylinder_skew: f64,
    /// Standard error of a skew.
    pub(super) skew_error: f64,
    /// Standard error of what a cylinder advances.
    pub(super) advance_error: f64,
    /// Cylinders over which skews have been followed.
    pub(super) followed: u64,
    /// Cylinders from the first on that follow the layout to the sector. Beyond them slipped
    /// defects or spares have moved the sectors.
    pub(super) regular: u64,
    /// Cylinders of those that were checked.
    pub(super) sound: u64,
}

impl Zone {
    /// From one cylinder to the next.
    pub(super) fn advance(&self) -> f64 {
        (self.heads - 1) as f64 * self.track_skew + self.cylinder_skew
    }

    /// Phase at which a sector has passed, not reduced to a turn.
    pub(super) fn phase_of(&self, lbn: u64) -> f64 {
        let at = lbn - self.first;
        let (cylinder, within) = (at / self.cylinder, at % self.cylinder);
        let track = (within / self.track).min(self.heads - 1);
        let sector = within - track * self.track;
        self.phase
            + cylinder as f64 * self.advance()
            + track as f64 * self.track_skew
            + sector as f64 * self.sector_ns
    }

    /// First sector of a track.
    pub(super) fn start_of(&self, cylinder: u64, head: u64) -> u64 {
        self.first + cylinder * self.cylinder + head * self.track
    }

    /// Sectors on a track by its position in the cylinder.
    pub(super) fn length_of(&self, head: u64) -> u64 {
        match head + 1 == self.heads {
            true => self.cylinder.saturating_sub(head * self.track).max(1),
            false => self.track,
        }
    }

    pub(super) fn cylinders(&self) -> u64 {
        (self.end - self.first).div_ceil(self.cylinder)
    }

    /// Sectors in a whole turn.
    pub(super) fn turn_sectors(&self, period: f64) -> u64 {
        let turn = period / self.sector_ns;
        let error = turn * self.sector_error / self.sector_ns;
        let track = self.track as f64;
        // Spare sectors at the end of a track show as a turn that is longer than it.
        if turn - track > (4.0 * error).max(0.6) { turn.round() as u64 } else { self.track }
    }
}

/// A track: first sector, sector behind the last, phase of the first, time of a sector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Track {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) phase: f64,
    pub(super) sector_ns: f64,
}

fn no_tracks(lbn: u64) -> Stop {
    Stop::Failed(FitError::NotMechanical(format!(
        "no track ends within a turn from sector {lbn}; this is not a disk with skewed tracks"
    )))
}

/// Follows the track of `first` to its end. The end of the disk counts as one.
pub(super) fn follow(bench: &mut Bench<'_>, first: u64) -> Measured<Track> {
    let granule = bench.granule();
    let begin = bench.phase(first, 4)?;
    let (mut near, mut rise) = (0u64, 0.0f64);
    let mut step = granule;
    loop {
        if first + step >= bench.sectors() {
            let end = bench.sectors();
            let sector_ns = if near > 0 { rise / near as f64 } else { 0.0 };
            return edge(bench, Track { first, end, phase: begin, sector_ns }, near, step);
        }
        let phase = bench.phase(first + step, 4)?;
        // Twice the distance must give twice the rise.
        let expected = if near == 0 { 0.0 } else { rise * step as f64 / near as f64 };
        let off = bench.centred(phase - begin - expected);
        let limit = 6.0 * bench.sigma() + bench.period() / 2000.0;
        let per_sector = if near == 0 { 0.0 } else { rise / near as f64 };
        if near > 0 && off.abs() > limit.max(1.5 * per_sector * granule as f64) {
            let track = Track { first, end: first + step, phase: begin, sector_ns: per_sector };
            return edge(bench, track, near, step);
        }
        rise = expected + off;
        near = step;
        // The rise of the first steps may drown in noise; no turn is missed while a step is at most
        // doubled.
        if rise > 4.0 * bench.period() {
            return Err(no_tracks(first));
        }
        step *= 2;
    }
}

/// Finds the edge between `near`, which is on the track, and `far`, which is not.
fn edge(bench: &mut Bench<'_>, track: Track, near: u64, far: u64) -> Measured<Track> {
    let granule = bench.granule();
    let (mut near, mut far) = (near / granule, far / granule);
    let mut sector_ns = track.sector_ns;
    let disk_end = (bench.sectors() - track.first).div_ceil(granule);
    far = far.min(disk_end);
    while far - near > 1 {
        let middle = near + (far - near) / 2;
        let at = middle * granule;
        let phase = bench.phase(track.first + at, 4)?;
        let off = bench.centred(phase - track.phase - sector_ns * at as f64);
        let limit = 6.0 * bench.sigma() + bench.period() / 4000.0;
        if off.abs() > limit.max(1.2 * sector_ns * granule as f64) {
            far = middle;
        } else {
            near = middle;
            sector_ns += off / at as f64;
        }
    }
    Ok(Track { end: (track.first + far * granule).min(bench.sectors()), sector_ns, ..track })
}

/// The next track, if it is as long as expected and as fast; else it is followed.
pub(super) fn next(bench: &mut Bench<'_>, first: u64, like: &Track) -> Measured<Track> {
    let length = like.end - like.first;
    let (last, behind) = (first + length - bench.granule(), first + length);
    if behind >= bench.sectors() || length < 4 * bench.granule() {
        return follow(bench, first);
    }
    let phase = bench.phase(first, 2)?;
    let limit = 5.0 * bench.sigma() + bench.period() / 4000.0;
    let limit = limit.max(0.9 * like.sector_ns);
    let expected = like.sector_ns * (last - first) as f64;
    let on = bench.phase(last, 2)?;
    let beyond = bench.phase(behind, 2)?;
    let step = like.sector_ns * bench.granule() as f64;
    let off = bench.centred(on - phase - expected);
    let jumps = bench.centred(beyond - on - step).abs() > limit;
    let sector_ns = like.sector_ns + off / (last - first) as f64;
    match off.abs() <= limit && jumps {
        true => Ok(Track { first, end: behind, phase, sector_ns }),
        false => follow(bench, first),
    }
}

/// The zone that begins at a sector, followed over its first cylinders. With `heads` known only
/// the skews are looked for.
pub(super) fn zone_at(bench: &mut Bench<'_>, lbn: u64, heads: Option<u64>) -> Measured<Zone> {
    let mut tracks = vec![follow(bench, lbn)?];
    if tracks[0].end >= bench.sectors() {
        return Err(no_tracks(lbn));
    }
    let wanted = heads.map_or(3 * MOST_HEADS, |heads| 2 * heads as usize + 2);
    let mut skews: Vec<f64> = Vec::new();
    let mut like = tracks[0];
    while tracks.len() < wanted {
        let last = tracks[tracks.len() - 1];
        if last.end + (last.end - last.first) >= bench.sectors() {
            break;
        }
        let track = next(bench, last.end, &like)?;
        skews.push((track.phase - last.phase).rem_euclid(bench.period()));
        // The first track may be shorter than the others.
        if tracks.len() == 1 || track.end - track.first == like.end - like.first {
            like = Track { sector_ns: like.sector_ns, ..track };
        }
        tracks.push(track);
        if heads.is_none() && pattern(bench, &tracks, &skews).is_some_and(|h| skews.len() >= 2 * h)
        {
            break;
        }
    }
    let found = heads.map(|heads| heads as usize).or_else(|| pattern(bench, &tracks, &skews));
    if let Some(heads) = found {
        // A zone may begin in the middle of a cylinder, behind tracks that are kept for spares.
        let from = first_of_cylinder(bench, &skews, heads).min(tracks.len() - 2);
        tracks.drain(..from);
        skews.drain(..from);
    }
    Ok(zone_of(bench, &tracks, &skews, found))
}

/// Tracks before the first one that begins a cylinder, found by the skew that is unlike the others;
/// zero if none is.
fn first_of_cylinder(bench: &Bench<'_>, skews: &[f64], heads: usize) -> usize {
    if heads < 3 || skews.len() < 2 * heads {
        return 0;
    }
    let mut sorted = skews[..2 * heads].to_vec();
    sorted.sort_by(f64::total_cmp);
    let common = sorted[heads];
    // The lesser of two is large only where both are: a slip is found once.
    let off = |at: usize| {
        let one = bench.centred(skews[at] - common).abs();
        one.min(bench.centred(skews[at + heads] - common).abs())
    };
    let odd = (0..heads).max_by(|&a, &b| off(a).total_cmp(&off(b))).unwrap_or(heads - 1);
    if off(odd) > 6.0 * bench.sigma() { (odd + 1) % heads } else { 0 }
}

/// Tracks in a cylinder: the place of the first skew, or length, unlike the first one. A slipped
/// sector changes a skew by one and a length as well, so that clear differences count first.
fn pattern(bench: &Bench<'_>, tracks: &[Track], skews: &[f64]) -> Option<usize> {
    let sector = tracks[0].sector_ns;
    let turned = |index: usize, sectors: f64| {
        let limit = (6.0 * bench.sigma()).max(sectors * sector);
        bench.centred(skews[index] - skews[0]).abs() > limit
    };
    let length = |index: usize| tracks[index].end - tracks[index].first;
    let shorter = |index: usize| index > 0 && length(index) != length(0);
    let first = |unlike: &dyn Fn(usize) -> bool| {
        let again = |index: usize| 2 * index + 1 >= skews.len() || unlike(2 * index + 1);
        let found = (1..skews.len()).find(|&index| unlike(index) && again(index));
        found.map(|index| index + 1).filter(|&heads| heads <= MOST_HEADS)
    };
    first(&|index| turned(index, 2.5))
        .or_else(|| interval(bench, skews, 2.5 * sector))
        .or_else(|| first(&|index| turned(index, 0.6)))
        .or_else(|| first(&shorter))
}

/// Tracks from one skew that is unlike the others to the next, if that is the same number at least
/// twice: the first cylinder may be cut short.
fn interval(bench: &Bench<'_>, skews: &[f64], sectors_ns: f64) -> Option<usize> {
    let mut sorted = skews.to_vec();
    sorted.sort_by(f64::total_cmp);
    let common = sorted[sorted.len() / 2];
    let limit = sectors_ns.max(6.0 * bench.sigma());
    let odd: Vec<usize> = (0..skews.len())
        .filter(|&index| bench.centred(skews[index] - common).abs() > limit)
        .collect();
    let heads = odd.get(1)? - odd[0];
    let regular = odd.len() > 2 && odd.windows(2).all(|pair| pair[1] - pair[0] == heads);
    (regular && (3..=MOST_HEADS).contains(&heads)).then_some(heads)
}

fn mean(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let values: Vec<f64> = values.collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt() / n.max(1.0).sqrt(), n)
}

fn common_length(tracks: &[Track]) -> u64 {
    let length = |track: &Track| track.end - track.first;
    let count = |one: u64| tracks.iter().filter(|track| length(track) == one).count();
    tracks.iter().map(length).max_by_key(|&one| (count(one), one)).unwrap_or(1)
}

fn zone_of(bench: &Bench<'_>, tracks: &[Track], skews: &[f64], heads: Option<usize>) -> Zone {
    let uniform = heads.is_none();
    let heads = heads.unwrap_or(1).max(1);
    // Slips make a track shorter: the length that most have.
    let common = common_length(tracks);
    let sector_error = 1.2 * bench.sigma() / (common as f64 * (tracks.len() as f64).sqrt());
    let (mut sector_ns, _, _) = mean(tracks.iter().map(|track| track.sector_ns));
    let turn = bench.period() / sector_ns;
    if (turn - common as f64).abs() < (4.0 * turn * sector_error / sector_ns).max(0.6) {
        sector_ns = bench.period() / common as f64;
    }
    let around = skews[0];
    let on = |last: bool| {
        let picked = skews.iter().enumerate();
        let picked = picked.filter(move |(index, _)| (index % heads == heads - 1) == last);
        mean(picked.map(|(_, &skew)| around + bench.centred(skew - around)))
    };
    let (cylinder_skew, error, count) = on(true);
    let (track_skew, other, _) = if heads > 1 { on(false) } else { (0.0, 0.0, 0.0) };
    // The longest of the cylinders that were followed: the others have slips.
    let cylinders = tracks.chunks_exact(heads).map(|part| part[heads - 1].end - part[0].first);
    let cylinder = cylinders.max().unwrap_or(common * heads as u64);
    let reads = bench.sigma() / (2.0 * count.max(1.0)).sqrt();
    Zone {
        first: tracks[0].first,
        end: bench.sectors(),
        track: common,
        cylinder,
        sector_ns,
        sector_error,
        heads: heads as u64,
        uniform,
        phase: tracks[0].phase,
        track_skew,
        cylinder_skew: if count > 0.0 { cylinder_skew } else { 0.0 },
        skew_error: error.max(other).max(reads),
        advance_error: heads as f64 * error.max(other).max(reads),
        followed: (tracks.len() / heads) as u64,
        regular: u64::MAX,
        sound: 1,
    }
}
