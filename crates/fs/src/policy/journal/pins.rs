//! Sectors with changes that only the log has: what the log must hold before each of them may be
//! written in place, and what it must keep until that has been done.

use super::Lsn;
use crate::core::page::{MOST_SECTORS, Mask, each};
use crate::tx::BlockNo;
use std::collections::{BTreeMap, BTreeSet};

/// Names a sector: its block and index.
type Key = u64;

/// A sector that is newer in the cache than in place.
#[derive(Clone, Copy, Debug)]
struct Pin {
    /// The oldest group that changed it since it was written.
    first: Lsn,
    /// Behind the last group that changed it.
    end: Lsn,
}

/// The sectors that wait, and writes of sectors that are not settled.
#[derive(Clone, Debug, Default)]
pub(super) struct Pins {
    sectors: BTreeMap<Key, Pin>,
    /// The same by their first group.
    by_first: BTreeSet<(Lsn, Key)>,
    /// First groups of sectors that are being written in place, and how many of each.
    writing: BTreeMap<Lsn, usize>,
}

fn key(block: BlockNo, sector: usize) -> Key {
    block * MOST_SECTORS as u64 + sector as u64
}

impl Pins {
    /// A group has changed sectors of a block.
    pub fn pin(&mut self, block: BlockNo, sectors: Mask, lsn: Lsn, end: Lsn) {
        for sector in each(sectors) {
            let key = key(block, sector);
            let pin = self.sectors.entry(key).or_insert_with(|| {
                self.by_first.insert((lsn, key));
                Pin { first: lsn, end }
            });
            pin.end = end;
        }
    }

    /// How far the log must be durable before these sectors may be written in place.
    pub fn end_of(&self, block: BlockNo, sectors: Mask) -> Option<Lsn> {
        let pins = self.sectors.range(key(block, 0)..key(block + 1, 0));
        let of = pins.filter(|(key, _)| sectors & 1 << (*key % MOST_SECTORS as u64) != 0);
        of.map(|(_, pin)| pin.end).max()
    }

    /// The sectors of a block that a group has changed of which the end lies behind `durable`.
    pub fn behind(&self, block: BlockNo, durable: Lsn) -> Mask {
        let pins = self.sectors.range(key(block, 0)..key(block + 1, 0));
        let held = pins.filter(|(_, pin)| pin.end > durable);
        held.fold(0, |mask, (key, _)| mask | 1 << (*key % MOST_SECTORS as u64))
    }

    /// Sectors are being written in place. Gives the first groups that the writes bring home.
    pub fn write(&mut self, block: BlockNo, sectors: Mask) -> impl Iterator<Item = Lsn> {
        let firsts = self.take(block, sectors);
        for first in &firsts {
            *self.writing.entry(*first).or_default() += 1;
        }
        firsts.into_iter()
    }

    /// A write in place is settled.
    pub fn written(&mut self, first: Lsn) {
        let count = self.writing.get_mut(&first).expect("a write that was begun");
        *count -= 1;
        if *count == 0 {
            self.writing.remove(&first);
        }
    }

    /// Sectors mean nothing any longer: the log says so, and that is durable.
    pub fn forget(&mut self, block: BlockNo, sectors: Mask) {
        self.take(block, sectors);
    }

    fn take(&mut self, block: BlockNo, sectors: Mask) -> Vec<Lsn> {
        let mut firsts = Vec::new();
        for sector in each(sectors) {
            let key = key(block, sector);
            if let Some(pin) = self.sectors.remove(&key) {
                self.by_first.remove(&(pin.first, key));
                firsts.push(pin.first);
            }
        }
        firsts
    }

    /// The oldest group that is not in place.
    pub fn first(&self) -> Option<Lsn> {
        let pinned = self.by_first.first().map(|one| one.0);
        let writing = self.writing.keys().next().copied();
        pinned.into_iter().chain(writing).min()
    }

    /// The blocks with sectors that keep groups in front of `to` in the log.
    pub fn blocks_before(&self, to: Lsn) -> BTreeSet<BlockNo> {
        let old = self.by_first.range(..(to, 0));
        old.map(|(_, key)| key / MOST_SECTORS as u64).collect()
    }

    /// Sectors that wait.
    pub fn len(&self) -> usize {
        self.sectors.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stays_until_all_its_sectors_are_settled() {
        let mut pins = Pins::default();
        pins.pin(3, 0b11, Lsn(10), Lsn(20));
        pins.pin(3, 0b1, Lsn(30), Lsn(40));
        assert_eq!((pins.end_of(3, 0b1), pins.end_of(3, 0b10)), (Some(Lsn(40)), Some(Lsn(20))));
        assert_eq!((pins.end_of(3, 0b100), pins.end_of(4, 1)), (None, None));
        assert_eq!(pins.blocks_before(Lsn(11)), BTreeSet::from([3]));
        assert_eq!(pins.write(3, 0b1).collect::<Vec<_>>(), [Lsn(10)]);
        pins.pin(3, 0b1, Lsn(50), Lsn(60));
        assert_eq!(pins.first(), Some(Lsn(10)), "neither of the two is settled");
        pins.written(Lsn(10));
        assert_eq!(pins.first(), Some(Lsn(10)), "the other sector is not written");
        pins.forget(3, 0b10);
        assert_eq!((pins.first(), pins.len()), (Some(Lsn(50)), 1));
    }
}
