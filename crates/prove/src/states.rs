//! Which states a device could be in after a power cut.

use seekless_engine::checksum::mix;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::volatile::{Fate, Pending, apply, print_of};
use seekless_engine::rng::Rng;
use seekless_engine::units::BLOCK_SECTORS;
use serde::Serialize;

/// How often each fault was part of a state or of an epoch.
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
    /// Blocks or labels that read back with wrong bytes.
    pub rotten: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// Damaged volumes that were not mounted, with a reason.
    pub refused_mounts: u64,
    /// Writes of a device that failed.
    pub failed_writes: u64,
    /// Flushes of a device that failed.
    pub failed_flushes: u64,
    /// Lives in which the volume refused writes from then on, with a reason.
    pub failed: u64,
    /// Devices lost together with the power.
    pub lost_devices: u64,
    /// Damaged members of arrays that were left out of the assembly.
    pub put_out: u64,
}

impl FaultCounts {
    /// Name and number of each, in the order in which they are listed to people.
    pub fn rows(&self) -> [(&'static str, u64); 12] {
        [
            ("writes lost", self.lost),
            ("writes torn", self.torn),
            ("states with writes out of order", self.reordered),
            ("power cuts during recovery", self.second_cuts),
            ("rotten blocks", self.rotten),
            ("unreadable blocks", self.unreadable),
            ("damaged volumes not mounted", self.refused_mounts),
            ("failed device writes", self.failed_writes),
            ("failed device flushes", self.failed_flushes),
            ("epochs that ended writing", self.failed),
            ("lost devices", self.lost_devices),
            ("damaged members left out", self.put_out),
        ]
    }
}

/// A write that a power cut may undo, and on which device.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Number of the device.
    pub device: usize,
    /// The write.
    pub write: Pending,
    /// Where its blocks stand in [`Moment::slots`].
    pub slots: Vec<usize>,
}

/// A block that some pending write may change.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Number of its device.
    pub device: usize,
    /// Its number there.
    pub at: u64,
    /// The write that put there what is durable.
    pub origin: u64,
}

/// What a power cut right after an event would find on all devices at once.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Number of the event in the epoch of the run.
    pub event: u64,
    /// What is certain to survive, device by device.
    pub durable: Vec<Cells>,
    /// What may be undone, on whichever device.
    pub pending: Vec<Placed>,
    /// The blocks that may be.
    pub slots: Vec<Slot>,
    /// Tells durable contents of an epoch apart.
    pub print: u128,
}

/// What a block of a device adds to the print of a moment.
pub fn device_print(device: usize, print: u128) -> u128 {
    print.rotate_left(17 * device as u32)
}

impl Moment {
    /// Tells the states of an epoch apart: two with the same print hold the same.
    pub fn print_of(&self, fates: &[Fate]) -> u128 {
        let mut origins: Vec<u64> = self.slots.iter().map(|slot| slot.origin).collect();
        for (placed, fate) in self.pending.iter().zip(fates) {
            for (index, &slot) in placed.slots.iter().enumerate() {
                let origin = &mut origins[slot];
                *origin = origin_after(*origin, placed.write.number, fate, index);
            }
        }
        let mut print = self.print;
        for (slot, &origin) in self.slots.iter().zip(&origins) {
            if origin != slot.origin {
                let change = print_of(slot.at, slot.origin) ^ print_of(slot.at, origin);
                print ^= device_print(slot.device, change);
            }
        }
        print
    }

    /// The media in such a state.
    pub fn build(&self, fates: &[Fate]) -> Vec<Cells> {
        let mut media = self.durable.clone();
        for (Placed { device, write, .. }, fate) in self.pending.iter().zip(fates) {
            apply(&mut media[*device], write, fate);
        }
        media
    }
}

/// What to call the content of block `index` of a write with that fate.
fn origin_after(before: u64, number: u64, fate: &Fate, index: usize) -> u64 {
    let Fate::Torn(sectors) = fate else {
        return if *fate == Fate::Whole { number } else { before };
    };
    let from = index * BLOCK_SECTORS as usize;
    let marks = &sectors[from..from + BLOCK_SECTORS as usize];
    let bits = marks.iter().fold(0, |bits, &mark| bits << 1 | u64::from(mark));
    match bits {
        0 => before,
        0xff => number,
        // Numbers of writes are small: no such origin is one.
        _ => mix(before ^ mix(number << 8 | bits)) | 1 << 63,
    }
}

/// Adds to the counts what the fates of a state come to.
pub fn count(fates: &[Fate], faults: &mut FaultCounts) {
    let mut lost_before = false;
    let mut reordered = false;
    for fate in fates {
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
}

/// Pending writes up to which every subset is tried, and seeded subsets tried beyond.
const EXHAUSTIVE: usize = 3;
const SAMPLES: u32 = 6;
/// The same for thorough searches.
const THOROUGH_EXHAUSTIVE: usize = 5;
const THOROUGH_SAMPLES: u32 = 24;

/// Fates of all pending writes of one state.
pub type Fates = Vec<Fate>;

/// The states to try for some pending writes: every subset while these are few; else none, all, and
/// seeded ones, some of them torn. A thorough search tries the same ones and then more.
pub fn choose(pending: &[Placed], thorough: bool, rng: &mut Rng) -> Vec<Fates> {
    let mut states = Vec::new();
    add(pending, EXHAUSTIVE, SAMPLES, rng, &mut states);
    if thorough {
        add(pending, THOROUGH_EXHAUSTIVE, THOROUGH_SAMPLES, rng, &mut states);
    }
    states
}

fn add(
    pending: &[Placed],
    exhaustive: usize,
    samples: u32,
    rng: &mut Rng,
    states: &mut Vec<Fates>,
) {
    let all = |fate: &Fate| vec![fate.clone(); pending.len()];
    if pending.len() <= exhaustive {
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
        for _ in 0..samples {
            let share = rng.unit();
            let mut fate = |_| if rng.chance(share) { Fate::Whole } else { Fate::Lost };
            states.push((0..pending.len()).map(&mut fate).collect());
        }
    }
    if !pending.is_empty() {
        for _ in 0..samples / 3 {
            states.push(pending.iter().map(|one| random_fate(&one.write, rng)).collect());
        }
    }
}

/// Any fate.
pub fn random_fate(write: &Pending, rng: &mut Rng) -> Fate {
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

/// A state in words.
pub fn describe(pending: &[Placed], fates: &[Fate]) -> Vec<String> {
    let one = |(Placed { device, write, .. }, fate): (&Placed, &Fate)| {
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
