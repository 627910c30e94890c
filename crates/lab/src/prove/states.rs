//! Which states a device could be in after a power cut.

use seekless_engine::device::medium::Cells;
use seekless_engine::device::volatile::{Fate, Pending, apply};
use seekless_engine::rng::Rng;
use seekless_engine::units::BLOCK_SECTORS;
use serde::Serialize;

/// How often each fault was part of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// Writes of which nothing reached the medium.
    pub lost: u64,
    /// Writes of which some sectors did.
    pub torn: u64,
    /// States in which a later write reached the medium and an earlier one did not.
    pub reordered: u64,
    /// Power cuts during the recovery from a power cut.
    pub second_cuts: u64,
    /// Blocks that read back with wrong bytes.
    pub rotten: u64,
    /// Devices lost together with the power.
    pub lost_devices: u64,
}

/// A write that a power cut may undo, and on which device.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Number of the device.
    pub device: usize,
    /// The write.
    pub write: Pending,
}

/// Pending writes up to which every subset is tried.
const EXHAUSTIVE: usize = 3;
/// Seeded subsets tried beyond.
const SAMPLES: u32 = 6;

/// Fates of all pending writes of one state.
pub type Fates = Vec<Fate>;

/// The states to try for some pending writes: every subset while these are few; else none, all, and
/// seeded ones, some of them torn.
pub fn choose(pending: &[Placed], rng: &mut Rng) -> Vec<Fates> {
    let mut states = Vec::new();
    let all = |fate: &Fate| vec![fate.clone(); pending.len()];
    if pending.len() <= EXHAUSTIVE {
        for subset in 0..1_u32 << pending.len() {
            let fate = |bit| if subset & (1_u32 << bit) == 0 { Fate::Lost } else { Fate::Whole };
            states.push((0..pending.len()).map(fate).collect());
        }
    } else {
        states.push(all(&Fate::Lost));
        states.push(all(&Fate::Whole));
        let spared = rng.below(pending.len() as u64) as usize;
        for (most, other) in [(Fate::Whole, Fate::Lost), (Fate::Lost, Fate::Whole)] {
            let mut fates = all(&most);
            fates[spared] = other;
            states.push(fates);
        }
        for _ in 0..SAMPLES {
            let share = rng.unit();
            let mut fate = |_| if rng.chance(share) { Fate::Whole } else { Fate::Lost };
            states.push((0..pending.len()).map(&mut fate).collect());
        }
    }
    if !pending.is_empty() {
        for _ in 0..2 {
            states.push(pending.iter().map(|one| random_fate(&one.write, rng)).collect());
        }
    }
    states
}

fn random_fate(write: &Pending, rng: &mut Rng) -> Fate {
    let sectors = u64::from(write.data.blocks()) * BLOCK_SECTORS;
    match rng.below(5) {
        0 => Fate::Lost,
        1 => Fate::Whole,
        // Up to some sector, as a head would leave it, or any sectors.
        2 => {
            let end = rng.below(sectors);
            Fate::Torn((0..sectors).map(|sector| sector < end).collect())
        }
        3 => {
            let from = rng.below(sectors);
            Fate::Torn((0..sectors).map(|sector| sector >= from).collect())
        }
        _ => Fate::Torn((0..sectors).map(|_| rng.chance(0.5)).collect()),
    }
}

/// The media in such a state.
pub fn build(
    durable: &[Cells],
    pending: &[Placed],
    fates: &[Fate],
    faults: &mut FaultCounts,
) -> Vec<Cells> {
    let mut media = durable.to_vec();
    let mut lost_before = false;
    let mut reordered = false;
    for (Placed { device, write }, fate) in pending.iter().zip(fates) {
        apply(&mut media[*device], write, fate);
        match fate {
            Fate::Lost => {
                faults.lost += 1;
                lost_before = true;
            }
            Fate::Torn(_) => faults.torn += 1,
            Fate::Whole => reordered |= lost_before,
        }
    }
    faults.reordered += u64::from(reordered);
    media
}

/// A state in words.
pub fn describe(pending: &[Placed], fates: &[Fate]) -> Vec<String> {
    let one = |(Placed { device, write }, fate): (&Placed, &Fate)| {
        let heard = if write.completed { "completed" } else { "in flight" };
        let what = match fate {
            Fate::Lost => "lost".to_owned(),
            Fate::Whole => "on the medium".to_owned(),
            Fate::Torn(sectors) => {
                let there = sectors.iter().filter(|&&there| there).count();
                format!("torn: {there} of {} sectors on the medium", sectors.len())
            }
        };
        let (at, blocks) = (write.at, write.data.blocks());
        format!("write {at}+{blocks} to device {device} ({heard}, not flushed): {what}")
    };
    pending.iter().zip(fates).map(one).collect()
}
