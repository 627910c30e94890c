//! What a power cut would find on all devices of a machine at once, and the states it may leave.

use crate::contract::{AtRisk, Contract};
use crate::enumerate::{Policy, enumerate};
use crate::fate::Fate;
use crate::pending::{BlockWrite, Pending};
use crate::tear::apply;
use seekless_engine::checksum::mix;
use seekless_engine::device::medium::Cells;
use seekless_engine::io::Part;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_SECTORS, BlockNr};

/// A write that a power cut may undo, and on which device.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Number of the device.
    pub device: usize,
    /// The write.
    pub pending: Pending<BlockWrite>,
    /// Where its blocks stand in [`Moment::slots`].
    pub slots: Vec<usize>,
}

/// A block that some pending write may change.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Number of its device.
    pub device: usize,
    /// Its number there.
    pub at: BlockNr,
    /// Number of the write that put there what is durable.
    pub origin: u64,
}

/// What a power cut right after an event would find.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Number of the event.
    pub event: u64,
    /// What the devices promise.
    pub contract: Contract,
    /// What is certain to survive, device by device.
    pub durable: Vec<Cells>,
    /// What may be undone, on whichever device.
    pub pending: Vec<Placed>,
    /// The blocks that may be.
    pub slots: Vec<Slot>,
    /// Tells durable contents apart, as long as the devices are the same.
    pub print: u128,
}

impl Moment {
    /// The outcomes that are tried: a fate for each pending write.
    pub fn outcomes(&self, policy: &Policy, rng: &mut Rng) -> Vec<Vec<Fate>> {
        enumerate(&self.at_risk(), policy, rng)
    }

    fn at_risk(&self) -> Vec<AtRisk> {
        let one = |Placed { device, pending, .. }: &Placed| AtRisk::of_write(*device, pending);
        self.pending.iter().map(one).collect()
    }

    /// Tells the states of an epoch apart: two with the same print hold the same. Each block is
    /// known by the writes that its content comes from.
    pub fn print_of(&self, fates: &[Fate]) -> u128 {
        let origins = self.origins_of(fates);
        let mut print = self.print;
        for (slot, &origin) in self.slots.iter().zip(&origins) {
            if origin != slot.origin {
                let change = block_print(slot.at, slot.origin) ^ block_print(slot.at, origin);
                print ^= device_print(slot.device, change);
            }
        }
        print
    }

    /// What the contents of the blocks of [`Moment::slots`] come from in such a state. A block of a
    /// device whose content comes from the same is the same in all states of an epoch.
    pub fn origins_of(&self, fates: &[Fate]) -> Vec<u64> {
        debug_assert_eq!(fates.len(), self.pending.len(), "a fate for each pending write");
        let mut origins: Vec<u64> = self.slots.iter().map(|slot| slot.origin).collect();
        for (placed, fate) in self.pending.iter().zip(fates) {
            for (index, &slot) in placed.slots.iter().enumerate() {
                let origin = &mut origins[slot];
                let Pending { number, write, .. } = &placed.pending;
                *origin = origin_after(*origin, *number, write.part, fate, index);
            }
        }
        origins
    }

    /// The media in such a state.
    pub fn build(&self, fates: &[Fate]) -> Vec<Cells> {
        debug_assert_eq!(fates.len(), self.pending.len(), "a fate for each pending write");
        let mut media = self.durable.clone();
        for (Placed { device, pending, .. }, fate) in self.pending.iter().zip(fates) {
            apply(&mut media[*device], &pending.write, fate);
        }
        media
    }

    /// A state in words, a sentence for each pending write.
    pub fn describe(&self, fates: &[Fate]) -> Vec<String> {
        let one = |(Placed { device, pending, .. }, fate): (&Placed, &Fate)| {
            let heard = if pending.completed.is_some() { "completed" } else { "in flight" };
            let what = match fate {
                Fate::Lost => "lost".to_owned(),
                Fate::Kept => "on the medium".to_owned(),
                Fate::Torn(sectors) => {
                    let there = sectors.iter().filter(|&&there| there).count();
                    format!("torn: {there} of {} sectors on the medium", sectors.len())
                }
            };
            let write = &pending.write;
            let (at, blocks) = (write.at, write.blocks());
            let at = match &write.places {
                Some(places) => format!("transaction of blocks {places:?}"),
                None => format!("write {at}+{blocks}"),
            };
            format!("{at} to device {device} ({heard}, not flushed): {what}")
        };
        self.pending.iter().zip(fates).map(one).collect()
    }
}

/// What the print of a device adds to the print of a moment.
pub fn device_print(device: usize, print: u128) -> u128 {
    print.rotate_left(17 * device as u32)
}

/// What a block at `at` adds to the print of its device if the write `origin` put there what it
/// holds; 0 is what was there before all writes.
pub fn block_print(at: BlockNr, origin: u64) -> u128 {
    if origin == 0 {
        return 0;
    }
    let low = mix(origin ^ mix(at ^ 0x9e37_79b9_7f4a_7c15));
    let high = mix(low ^ mix(origin.rotate_left(32) ^ at));
    u128::from(high) << 64 | u128::from(low)
}

/// What to call the content of block `index` of a write with that fate. A write of some sectors
/// leaves others as they were, so what it is called depends on what was there.
pub fn origin_after(
    before: u64,
    number: u64,
    part: Option<Part>,
    fate: &Fate,
    index: usize,
) -> u64 {
    let written = part.map_or(0..BLOCK_SECTORS as usize, |part| part.in_block(index as u32));
    let is_there = |sector: usize| match fate {
        Fate::Kept => true,
        Fate::Lost => false,
        Fate::Torn(sectors) => sectors[index * BLOCK_SECTORS as usize + sector],
    };
    let mark = |sector: usize| written.contains(&sector) && is_there(sector);
    let marks = (0..BLOCK_SECTORS as usize).map(mark);
    let bits = marks.fold(0, |bits, mark| bits << 1 | u64::from(mark));
    match bits {
        0 => before,
        0xff => number,
        // Numbers of writes are small: no such origin is one.
        _ => mix(before ^ mix(number << 8 | bits)) | 1 << 63,
    }
}
