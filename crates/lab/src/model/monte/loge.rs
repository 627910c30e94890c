//! Loge's disks, simulated with random numbers.

use super::scattered;
use crate::model::loge::Drive;
use seekless_engine::rng::Rng;

/// How often the disk is drawn anew.
const DRAWS: u32 = 20;

/// Result of a simulated long write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongWrite {
    /// Share of moves that found a free segment as soon as anything was in reach.
    pub found: f64,
    /// Periods spent seeking and waiting per segment written.
    pub wait: f64,
}

/// A randomised disk.
struct Disk<'d> {
    drive: &'d Drive,
    free: Vec<bool>,
}

impl Disk<'_> {
    /// Do `run` free segments begin at `position` of a track?
    fn run_at(&self, cylinder: u32, surface: u32, position: u32, run: u32) -> bool {
        let positions = self.drive.positions();
        let track = (cylinder * self.drive.surfaces() + surface) * positions;
        (position..position + run).all(|at| self.free[(track + at % positions) as usize])
    }

    /// Is there such a run within reach after so many periods?
    fn reachable(&self, cylinder: u32, position: u32, periods: u32, run: u32) -> bool {
        let Some(reach) = self.drive.reach(periods) else { return false };
        let last = (cylinder + reach).min(self.drive.cylinders() - 1);
        let mut near = cylinder.saturating_sub(reach)..=last;
        near.any(|there| (0..self.drive.surfaces()).any(|s| self.run_at(there, s, position, run)))
    }
}

/// Heads at random places of random disks, `trials` of them: calls `each` with the disk, the
/// cylinder, the surface and the position that passes next.
fn scatter(
    drive: &Drive,
    free: f64,
    trials: u32,
    seed: u64,
    mut each: impl FnMut(&Disk<'_>, u32, u32, u32),
) {
    let mut rng = Rng::stream(seed, "model loge");
    let size = (drive.cylinders() * drive.surfaces() * drive.positions()) as usize;
    let count = ((size as f64 * free).round() as usize).clamp(1, size);
    for _ in 0..DRAWS {
        let disk = Disk { drive, free: scattered(&mut rng, size, count) };
        for _ in 0..trials.div_ceil(DRAWS) {
            let cylinder = rng.below(u64::from(drive.cylinders())) as u32;
            let surface = rng.below(u64::from(drive.surfaces())) as u32;
            each(&disk, cylinder, surface, rng.below(u64::from(drive.positions())) as u32);
        }
    }
}

/// Writes one segment after the other on a randomised disk: the next one if it is free, else the
/// first within reach (claims L12 to L14).
pub fn long_write(drive: &Drive, free: f64, trials: u32, seed: u64) -> LongWrite {
    let (mut moves, mut found, mut wait, mut all) = (0_u32, 0_u32, 0_u64, 0_u32);
    let least = drive.switch_periods();
    scatter(drive, free, trials, seed, |disk, cylinder, surface, position| {
        all += 1;
        if disk.run_at(cylinder, surface, position, 1) {
            return;
        }
        moves += 1;
        let reachable = |&periods: &u32| disk.reachable(cylinder, position + periods, periods, 1);
        let first = (least..least + drive.positions() * 4).find(reachable);
        found += u32::from(first == Some(least));
        wait += u64::from(first.unwrap_or(least + drive.positions() * 4));
    });
    LongWrite {
        found: f64::from(found) / f64::from(moves.max(1)),
        wait: wait as f64 / f64::from(all.max(1)),
    }
}

/// Share of places from which a run of free segments begins within reach as soon as anything is in
/// reach (claims L16 and L17).
pub fn runs_found(drive: &Drive, free: f64, run: u32, trials: u32, seed: u64) -> f64 {
    let (mut found, mut all) = (0_u32, 0_u32);
    let least = drive.switch_periods();
    scatter(drive, free, trials, seed, |disk, cylinder, _, position| {
        all += 1;
        found += u32::from(disk.reachable(cylinder, position + least, least, run));
    });
    f64::from(found) / f64::from(all.max(1))
}

/// Mean time of a single write on a well-ordered disk, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderedWrite {
    /// At the end of a random read, when a segment has just passed.
    pub after_read_ms: f64,
    /// At any time.
    pub at_random_ms: f64,
}

/// Single writes on the well-ordered disk of section 5.2.1, where every fifth cylinder has one
/// empty track (`spacing` 5): the arm starts at once for the nearest one and writes the first
/// segment that passes there (claim L5).
pub fn ordered_write(drive: &Drive, spacing: u32, trials: u32, seed: u64) -> OrderedWrite {
    let mut rng = Rng::stream(seed, "model ordered");
    let period = drive.period_ms();
    let (mut after_read, mut at_random) = (0.0, 0.0);
    for _ in 0..trials {
        let cylinder = rng.below(u64::from(spacing)) as u32;
        let ready = drive.move_ms(cylinder.min(spacing - cylinder));
        after_read += (ready / period).ceil() * period;
        // The point of a period at which the request comes.
        let since = rng.unit() * period;
        at_random += ((since + ready) / period).ceil() * period - since;
    }
    let mean = |sum: f64| sum / f64::from(trials.max(1)) + period;
    OrderedWrite { after_read_ms: mean(after_read), at_random_ms: mean(at_random) }
}
