//! What recovery makes of the groups of a log: sectors to be written in place, space to be freed,
//! and orphans.
//!
//! All records hold absolute bytes, and all groups are applied in order to the end. So it does not
//! matter which of them a sector on the disk has already seen, and recovery that is cut off starts
//! over. A record `Free` drops earlier records of the same bytes: the space may have been reused
//! for content of files, which the log does not have.

use crate::fields::put;
use crate::log::group::{GroupView, MOST_BLOCK, Malformed, Record};
use crate::tx::{Field, SECTOR_CONTENT};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::SECTOR_BYTES;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

/// Space of a record: what it is, its first number, and how many.
pub type Space = (u8, u32, u16);

/// What the log says of one sector.
#[derive(Clone, Debug)]
pub struct SectorRedo {
    /// Kind of its seal.
    pub seal: u8,
    /// It does not depend on what the disk holds.
    is_fresh: bool,
    bytes: Box<Known>,
}

/// Content of a sector.
#[derive(Clone, Debug)]
struct Known {
    content: [u8; SECTOR_CONTENT],
    /// Bytes of the content that the log has, a bit each.
    mask: [u64; SECTOR_CONTENT.div_ceil(64)],
}

impl SectorRedo {
    fn new(seal: u8, is_fresh: bool) -> SectorRedo {
        let known = Known { content: [0; _], mask: [0; _] };
        SectorRedo { seal, is_fresh, bytes: Box::new(known) }
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        let Known { content, mask } = &mut *self.bytes;
        put(content, at, bytes);
        let end = at + bytes.len();
        for (word, first) in mask.iter_mut().zip((0..).step_by(64)).skip(at / 64) {
            if first >= end {
                break;
            }
            let (from, to) = (at.max(first) - first, end.min(first + 64) - first);
            *word |= u64::MAX >> (64 - (to - from)) << from;
        }
    }

    fn knows(&self, index: usize) -> bool {
        self.bytes.mask[index / 64] & 1 << (index % 64) != 0
    }

    /// True if the sector on the disk must be whole.
    pub fn needs_old(&self) -> bool {
        !self.is_fresh && !(0..SECTOR_CONTENT).all(|index| self.knows(index))
    }

    /// Makes a sector what it is behind the last group. The seal is to be set then. `sector` holds
    /// what the disk holds, if that is needed.
    pub fn apply(&self, sector: &mut [u8]) {
        debug_assert_eq!(sector.len(), SECTOR_BYTES, "a whole sector");
        for (index, byte) in sector[..SECTOR_CONTENT].iter_mut().enumerate() {
            if self.is_fresh || self.knows(index) {
                *byte = self.bytes.content[index];
            }
        }
    }
}

/// What recovery has to do.
#[derive(Clone, Debug, Default)]
pub struct Redo {
    /// Sectors by block and index in the block, in order.
    sectors: Vec<(Key, SectorRedo)>,
    intents: BTreeSet<Space>,
    orphans: BTreeSet<u32>,
}

/// A sector: a block, and the index in it.
type Key = (u32, u8);

/// Earlier changes of some sectors mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Revoke {
    first: Key,
    /// Behind the last one.
    end: Key,
    order: u32,
}

/// A change of one sector, where its group has it.
#[derive(Clone, Copy, Debug)]
struct Change<'g> {
    block: u32,
    index: u8,
    seal: u8,
    /// Offset in the sector.
    at: u16,
    /// Counts changes and revokes in the order of the log.
    order: u32,
    /// None if the sector becomes zeros.
    bytes: Option<&'g [u8]>,
}

/// What the groups say, in their order. A log changes the same sectors again and again, in no order
/// that caches like; so the changes are sorted once, and each sector is made in one go.
#[derive(Debug, Default)]
struct Collected<'g> {
    changes: Vec<Change<'g>>,
    revokes: Vec<Revoke>,
    order: u32,
    redo: Redo,
}

impl<'g> Collected<'g> {
    fn add(
        &mut self,
        record: Record<'g>,
        bytes_of: &mut impl FnMut(Space) -> Vec<Field>,
    ) -> Result<(), Malformed> {
        self.order += 1;
        let order = self.order;
        match record {
            Record::Bytes { seal, at, block, bytes } => {
                let (index, at) = (usize::from(at) / SECTOR_BYTES, usize::from(at) % SECTOR_BYTES);
                let (index, at, bytes) = (index as u8, at as u16, Some(bytes));
                self.changes.push(Change { block, index, seal, at, order, bytes });
            }
            Record::Fresh { seal, at, block, length } => {
                let first = usize::from(at) / SECTOR_BYTES;
                for index in first..first + usize::from(length) / SECTOR_BYTES {
                    let index = index as u8;
                    self.changes.push(Change { block, index, seal, at: 0, order, bytes: None });
                }
            }
            Record::Free { what, first, count } => {
                let space = (what, first, count);
                self.redo.intents.insert(space);
                if !planted(PlantedBug::RevokeMissing) {
                    bytes_of(space).into_iter().for_each(|field| self.revoke(field));
                }
            }
            Record::Freed { what, first, count } => {
                self.redo.intents.remove(&(what, first, count));
            }
            Record::Orphan(inode) => {
                self.redo.orphans.insert(inode);
            }
            Record::Adopted(inode) => {
                self.redo.orphans.remove(&inode);
            }
            // The records behind it are what they are: space with an open intent was not reused.
            Record::Checkpoint(_) => {}
            // Those of a log that belongs to no file system.
            Record::Entry(_) | Record::Epoch { .. } => return Err(Malformed),
        }
        Ok(())
    }

    /// Drops what the log says of these bytes so far.
    fn revoke(&mut self, field: Field) {
        let Ok(block) = u32::try_from(field.block) else { return };
        let (at, length) = match planted(PlantedBug::RevokeByBlock) {
            true => (0, MOST_BLOCK),
            false => (usize::from(field.at), usize::from(field.length)),
        };
        let end = (at + length).div_ceil(SECTOR_BYTES) as u8;
        let first = (block, (at / SECTOR_BYTES) as u8);
        self.revokes.push(Revoke { first, end: (block, end), order: self.order });
    }

    fn redo(mut self) -> Redo {
        self.changes.sort_unstable_by_key(|one| (one.block, one.index, one.order));
        self.revokes.sort_unstable();
        let mut revokes = Revokes { rest: &self.revokes, reached: BinaryHeap::new() };
        for own in
            self.changes.chunk_by(|one, next| (one.block, one.index) == (next.block, next.index))
        {
            let key = (own[0].block, own[0].index);
            let revoked = revokes.last_of(key);
            // What comes in front of zeros means nothing, either.
            let alive = own.iter().position(|one| one.order > revoked).unwrap_or(own.len());
            let own = &own[alive..];
            let fresh = own.iter().rposition(|one| one.bytes.is_none());
            let own = &own[fresh.unwrap_or(0)..];
            let Some(last) = own.last() else { continue };
            let mut sector = SectorRedo::new(last.seal, fresh.is_some());
            for Change { at, bytes, .. } in own {
                sector.set(usize::from(*at), bytes.unwrap_or_default());
            }
            self.redo.sectors.push((key, sector));
        }
        self.redo
    }
}

/// Revokes, while sectors are gone through in order.
struct Revokes<'r> {
    /// Those that begin behind the sector that was asked for last, by their first sector.
    rest: &'r [Revoke],
    /// The others, the latest one first, with their ends.
    reached: BinaryHeap<(u32, Key)>,
}

impl Revokes<'_> {
    /// The order of the last revoke of a sector, 0 if there is none.
    fn last_of(&mut self, key: Key) -> u32 {
        while let Some((&Revoke { first, end, order }, rest)) = self.rest.split_first()
            && first <= key
        {
            self.reached.push((order, end));
            self.rest = rest;
        }
        while let Some(&(order, end)) = self.reached.peek() {
            if end > key {
                return order;
            }
            self.reached.pop();
        }
        0
    }
}

impl Redo {
    /// Reads groups, in order. `bytes_of` has the bytes of space that a record frees: only the
    /// format knows them.
    ///
    /// # Errors
    /// [`Malformed`] if a record has values that no program writes, or is none of a file system.
    pub fn read<'g>(
        groups: impl Iterator<Item = GroupView<'g>>,
        mut bytes_of: impl FnMut(Space) -> Vec<Field>,
    ) -> Result<Redo, Malformed> {
        let mut collected = Collected::default();
        let mut groups = groups.peekable();
        while let Some(group) = groups.next() {
            if planted(PlantedBug::RedoStopsEarly) && groups.peek().is_none() {
                break;
            }
            for record in group.records()? {
                collected.add(record, &mut bytes_of)?;
            }
        }
        Ok(collected.redo())
    }

    /// Sectors to be written, by block and index in it.
    pub fn sectors(&self) -> impl Iterator<Item = ((u32, u8), &SectorRedo)> {
        self.sectors.iter().map(|(key, sector)| (*key, sector))
    }

    /// Those of a block with these indices.
    pub fn sectors_of(
        &self,
        block: u32,
        indices: Range<u8>,
    ) -> impl Iterator<Item = (u8, &SectorRedo)> {
        let first = self.sectors.partition_point(|(key, _)| *key < (block, indices.start));
        let rest = self.sectors[first..].iter();
        let own = rest.take_while(move |(key, _)| *key < (block, indices.end));
        own.map(|(key, sector)| (key.1, sector))
    }

    /// Space that is to be freed in the maps.
    pub fn intents(&self) -> impl Iterator<Item = Space> {
        self.intents.iter().copied()
    }

    /// Inodes without a name.
    pub fn orphans(&self) -> impl Iterator<Item = u32> {
        self.orphans.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::format::Lsn;
    use crate::log::group::GroupBuilder;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const ID: u128 = 9;
    /// A block is a fragment here.
    const BLOCK: usize = 4096;
    const BLOCKS: u32 = 4;

    fn group(records: &[Record<'_>]) -> Vec<u8> {
        let mut group = GroupBuilder::new(0, 0, 0);
        records.iter().for_each(|&record| assert!(group.push(record)));
        group.finish(ID, Lsn(24), Lsn(0))
    }

    fn read(groups: &[Vec<u8>]) -> Redo {
        let views =
            groups.iter().map(|bytes| GroupView::read(bytes, ID, Lsn(24)).expect("it is whole"));
        let bytes_of = |(_, first, count): Space| {
            (first..first + u32::from(count))
                .map(|block| Field::new(block.into(), 0, BLOCK))
                .collect()
        };
        Redo::read(views, bytes_of).expect("this program wrote them")
    }

    fn redo_all(disk: &mut [Vec<u8>], redo: &Redo) {
        for ((block, index), sector) in redo.sectors() {
            let at = usize::from(index) * SECTOR_BYTES;
            sector.apply(&mut disk[block as usize][at..at + SECTOR_BYTES]);
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Changes a sector of a block of metadata.
        Set { block: u32, sector: usize, at: usize, length: usize, value: u8 },
        /// The block gets another use: metadata, or content of a file.
        Reuse { block: u32, is_data: bool, value: u8 },
        /// The block, or a sector of it, is written in place.
        Home { block: u32, sector: Option<usize> },
    }

    fn step() -> impl Strategy<Value = Step> {
        let set = (0..BLOCKS, 0..8_usize, 0..SECTOR_CONTENT, 1..60_usize, any::<u8>()).prop_map(
            |(block, sector, at, length, value)| {
                let length = length.min(SECTOR_CONTENT - at);
                Step::Set { block, sector, at, length, value }
            },
        );
        let reuse = (0..BLOCKS, any::<bool>(), any::<u8>())
            .prop_map(|(block, is_data, value)| Step::Reuse { block, is_data, value });
        let home = (0..BLOCKS, prop::option::of(0..8_usize))
            .prop_map(|(block, sector)| Step::Home { block, sector });
        prop_oneof![6 => set, 1 => reuse, 2 => home]
    }

    /// What is in memory and on the disk, and the groups of a log that was never released.
    struct Bench {
        memory: Vec<Vec<u8>>,
        is_data: Vec<bool>,
        disk: Vec<Vec<u8>>,
        groups: Vec<Vec<u8>>,
    }

    impl Bench {
        /// The first sector that is not as memory has it, seals aside.
        fn first_difference(&self) -> Option<(usize, usize)> {
            let sectors =
                (0..BLOCKS as usize).flat_map(|block| (0..8).map(move |index| (block, index)));
            let mut different = sectors.filter(|&(block, index)| {
                let length = if self.is_data[block] { SECTOR_BYTES } else { SECTOR_CONTENT };
                let range = index * SECTOR_BYTES..index * SECTOR_BYTES + length;
                self.disk[block][range.clone()] != self.memory[block][range]
            });
            different.next()
        }

        fn run(&mut self, step: &Step) {
            match *step {
                Step::Set { block, sector, at, length, value } => {
                    if self.is_data[block as usize] {
                        return;
                    }
                    let at = sector * SECTOR_BYTES + at;
                    self.memory[block as usize][at..at + length].fill(value);
                    let bytes = vec![value; length];
                    let at = at as u16;
                    let record = Record::Bytes { seal: 3, at, block, bytes: &bytes };
                    self.groups.push(group(&[record]));
                }
                Step::Reuse { block, is_data, value } => {
                    let free = Record::Free { what: 1, first: block, count: 1 };
                    let freed = Record::Freed { what: 1, first: block, count: 1 };
                    let length = BLOCK as u16;
                    self.groups.push(group(&[free]));
                    self.groups.push(group(&[freed]));
                    let content = &mut self.memory[block as usize];
                    self.is_data[block as usize] = is_data;
                    if is_data {
                        content.fill(value);
                        // Content is not in the log. It is in place before a later cut.
                        self.disk[block as usize].fill(value);
                    } else {
                        content.fill(0);
                        let fresh = Record::Fresh { seal: 3, at: 0, block, length };
                        self.groups.push(group(&[fresh]));
                    }
                }
                Step::Home { block, sector } => {
                    let range = match sector {
                        Some(index) => index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES,
                        None => 0..BLOCK,
                    };
                    let (block, from) = (block as usize, range.clone());
                    self.disk[block][range].copy_from_slice(&self.memory[block][from]);
                }
            }
        }
    }

    proptest! {
        /// Whatever was written in place before the cut, recovery makes the disk what memory was.
        /// A recovery that is cut off anywhere, and starts over, does the same.
        #[test]
        fn redo_makes_the_disk_what_memory_was(
            steps in vec(step(), 1..80),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bench = Bench {
                memory: vec![vec![0; BLOCK]; BLOCKS as usize],
                is_data: vec![false; BLOCKS as usize],
                disk: vec![vec![0; BLOCK]; BLOCKS as usize],
                groups: Vec::new(),
            };
            steps.iter().for_each(|step| bench.run(step));
            let redo = read(&bench.groups);
            let count = redo.sectors().count();
            if count > 0 {
                let partly = cut.index(count);
                for ((block, index), sector) in redo.sectors().take(partly) {
                    let at = usize::from(index) * SECTOR_BYTES;
                    sector.apply(&mut bench.disk[block as usize][at..at + SECTOR_BYTES]);
                }
            }
            redo_all(&mut bench.disk, &read(&bench.groups));
            prop_assert_eq!(bench.first_difference(), None);
            prop_assert_eq!(redo.intents().count(), 0, "each was freed");
        }
    }

    #[test]
    fn intents_and_orphans_are_open_until_they_are_closed() {
        let free = |first| Record::Free { what: 1, first, count: 1 };
        let first = group(&[free(1), free(2), Record::Orphan(7), Record::Orphan(8)]);
        let freed = Record::Freed { what: 1, first: 1, count: 1 };
        let second = group(&[freed, Record::Adopted(8)]);
        let redo = read(&[first, second]);
        assert_eq!(redo.intents().collect::<Vec<_>>(), [(1, 2, 1)]);
        assert_eq!(redo.orphans().collect::<Vec<_>>(), [7]);
        // Behind a checkpoint, the records in front of it are not needed.
        let carried = group(&[Record::Checkpoint(2), free(2), Record::Orphan(7)]);
        let redo = read(&[carried]);
        assert_eq!(redo.intents().collect::<Vec<_>>(), [(1, 2, 1)]);
        assert_eq!(redo.orphans().collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn bytes_are_known_from_the_first_to_the_last() {
        for at in 0..SECTOR_CONTENT {
            for length in [1, 7, 63, 64, 65, 130, SECTOR_CONTENT - at] {
                let end = (at + length).min(SECTOR_CONTENT);
                let mut sector = SectorRedo::new(3, false);
                sector.set(at, &vec![1; end - at]);
                for index in 0..SECTOR_CONTENT {
                    assert_eq!(sector.knows(index), (at..end).contains(&index), "{at} {end}");
                }
            }
        }
    }

    #[test]
    fn a_sector_that_the_log_has_as_a_whole_needs_no_old_one() {
        let whole = [5; SECTOR_CONTENT];
        let bytes = |bytes| Record::Bytes { seal: 3, at: 512, block: 1, bytes };
        let needs = |records: &[Record<'_>]| {
            let redo = read(&[group(records)]);
            redo.sectors().map(|(_, sector)| sector.needs_old()).collect::<Vec<_>>()
        };
        assert_eq!(needs(&[bytes(&whole)]), [false]);
        assert_eq!(needs(&[bytes(&whole[1..])]), [true]);
        let fresh = Record::Fresh { seal: 3, at: 512, block: 1, length: 512 };
        assert_eq!(needs(&[fresh, bytes(&whole[1..])]), [false]);
    }
}
