//! What an open transaction has changed, as a log records it: absolute bytes, from the undo list.
//!
//! An edit lies in one sealed sector. Ranges at most [`JOINED`] bytes apart are one edit, because
//! the head of a record is longer. Content of files and sectors that the transaction has forgotten
//! are left out.

use super::{CoreTx, Scratch, Undo};
use crate::core::Core;
use crate::core::cache::{Cache, Slot};
use crate::core::page::{Mask, SECTOR, each, mask};
use crate::log::Edit;
use crate::tx::{BlockNo, PageKind};
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes between two ranges that one edit covers.
pub const JOINED: usize = 7;

/// A change of a sector: some of its bytes, or all of it was made zeros.
#[derive(Clone, Copy, Debug)]
struct Change {
    block: BlockNo,
    slot: Slot,
    /// The sector in its block.
    index: u16,
    is_fresh: bool,
    /// The bytes, from the start of the sector.
    range: (u16, u16),
}

impl Change {
    fn sector(&self) -> (BlockNo, u16) {
        (self.block, self.index)
    }
}

/// Changes by block and sector, those of a sector in the order in which they were made.
type Changes = SmallVec<[Change; 24]>;

impl CoreTx<'_> {
    /// The edits so far, as [`Changed::edits`].
    pub fn edits(&self) -> Vec<Edit<'_>> {
        self.core.changes().edits()
    }
}

impl Core {
    /// What the open transaction has changed.
    fn changes(&self) -> Changed<'_> {
        let content = self.seals.content_bytes();
        Changed::new(&self.cache, &self.scratch, (self.shape.block_bytes, content))
    }
}

fn changes_of(cache: &Cache, scratch: &Scratch, (block_bytes, content): (usize, usize)) -> Changes {
    let mut changes = Changes::new();
    for undo in &scratch.undo {
        let (slot, at, length, is_fresh) = match *undo {
            Undo::Bytes { slot, at, length, is_fresh } => (slot, at, length, is_fresh),
            Undo::Page { slot, .. } => (slot, 0, block_bytes, true),
            Undo::Nothing { .. } => continue,
        };
        let buffer = cache.get(slot);
        for index in each(mask(at, length) & buffer.dirty) {
            if !buffer.kinds[index].is_sealed() {
                continue;
            }
            let from = at.max(index * SECTOR) - index * SECTOR;
            let to = (at + length).min((index + 1) * SECTOR) - index * SECTOR;
            debug_assert!(is_fresh || to <= content, "a change leaves the seal alone");
            let range = (from as u16, to as u16);
            let (block, index) = (buffer.block, index as u16);
            changes.push(Change { block, slot, index, is_fresh, range });
        }
    }
    changes.sort_by_key(Change::sector);
    changes
}

impl Scratch {
    /// Bytes that the open transaction has changed and not made void again, by block in the order
    /// of the changes, and whether they are content.
    pub(crate) fn changed_bytes(
        &self,
        cache: &Cache,
        block_bytes: usize,
    ) -> Vec<(BlockNo, Range<u16>, bool)> {
        let of = |undo: &Undo| match *undo {
            Undo::Bytes { slot, at, length, .. } => Some((slot, at, length)),
            Undo::Page { slot, .. } => Some((slot, 0, block_bytes)),
            Undo::Nothing { .. } => None,
        };
        let mut all = Vec::new();
        for (slot, at, length) in self.undo.iter().filter_map(of) {
            let buffer = cache.get(slot);
            let is_dirty = mask(at, length) & buffer.dirty != 0;
            let is_content = !buffer.kinds[at / SECTOR].is_sealed();
            if is_dirty {
                all.push((buffer.block, at as u16..(at + length) as u16, is_content));
            }
        }
        all
    }

    /// Dirty sectors of content in what the open transaction has changed, by block.
    pub(crate) fn changed_contents(
        &self,
        cache: &Cache,
        block_bytes: usize,
    ) -> SmallVec<[(BlockNo, Mask); 2]> {
        let mut all: SmallVec<[(BlockNo, Mask); 2]> = SmallVec::new();
        for undo in &self.undo {
            let (slot, at, length) = match *undo {
                Undo::Bytes { slot, at, length, .. } => (slot, at, length),
                Undo::Page { slot, .. } => (slot, 0, block_bytes),
                Undo::Nothing { .. } => continue,
            };
            let buffer = cache.get(slot);
            let sectors = each(mask(at, length) & buffer.dirty)
                .filter(|&index| !buffer.kinds[index].is_sealed())
                .fold(0, |all: Mask, index| all | 1 << index);
            match all.last_mut() {
                Some(last) if last.0 == buffer.block => last.1 |= sectors,
                _ if sectors != 0 => all.push((buffer.block, sectors)),
                _ => {}
            }
        }
        all
    }
}

/// What an open transaction has changed.
#[derive(Debug)]
pub(crate) struct Changed<'c> {
    cache: &'c Cache,
    changes: Changes,
}

impl<'c> Changed<'c> {
    /// Of these parts of a core.
    ///
    /// `sizes` are the bytes of a block, and those of a sealed sector in front of its seal.
    pub(crate) fn new(
        cache: &'c Cache,
        scratch: &'c Scratch,
        sizes: (usize, usize),
    ) -> Changed<'c> {
        Changed { cache, changes: changes_of(cache, scratch, sizes) }
    }

    /// Sectors with seals that were changed, by block.
    pub(crate) fn sectors(&self) -> SmallVec<[(BlockNo, Mask); 8]> {
        let mut sectors: SmallVec<[(BlockNo, Mask); 8]> = SmallVec::new();
        for &Change { block, index, .. } in &self.changes {
            match sectors.last_mut() {
                Some(last) if last.0 == block => last.1 |= 1 << index,
                _ => sectors.push((block, 1 << index)),
            }
        }
        sectors
    }

    /// The edits so far, by block: fresh sectors of a block first. A log that applies them to the
    /// sectors as they were before the transaction has them as they are now, seals aside.
    pub(crate) fn edits(&self) -> Vec<Edit<'c>> {
        let mut edits = Vec::with_capacity(self.changes.len());
        for own in self.changes.chunk_by(|one, next| one.block == next.block) {
            self.add_fresh(own, &mut edits);
            let sectors = own.chunk_by(|one, next| one.index == next.index);
            sectors.for_each(|sector| self.add_bytes(sector, &mut edits));
        }
        edits
    }

    fn kind_of(&self, change: &Change) -> PageKind {
        self.cache.get(change.slot).kinds[usize::from(change.index)]
    }

    /// Fresh sectors of a block: neighbours of one kind are one edit.
    fn add_fresh(&self, own: &[Change], edits: &mut Vec<Edit<'c>>) {
        let mut last: Option<(u16, PageKind)> = None;
        for change in own.iter().filter(|change| change.is_fresh) {
            let Change { block, index, .. } = *change;
            let kind = self.kind_of(change);
            match (last, edits.last_mut()) {
                // A sector may be made zeros twice.
                (Some(before), _) if before == (index, kind) => {}
                (Some((before, same)), Some(Edit::Fresh { length, .. }))
                    if (before + 1, same) == (index, kind) =>
                {
                    *length += SECTOR as u16;
                }
                _ => {
                    let (at, length) = (index * SECTOR as u16, SECTOR as u16);
                    edits.push(Edit::Fresh { block, at, length, kind });
                }
            }
            last = Some((index, kind));
        }
    }

    /// Changed bytes of a sector, since it was made zeros if it was.
    fn add_bytes(&self, sector: &[Change], edits: &mut Vec<Edit<'c>>) {
        let fresh = sector.iter().rposition(|change| change.is_fresh);
        let since = &sector[fresh.map_or(0, |at| at + 1)..];
        let mut ranges: SmallVec<[(u16, u16); 8]> =
            since.iter().map(|change| change.range).collect();
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let joins = next.0 <= last.1 + JOINED as u16;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        let Change { block, index, slot, .. } = sector[0];
        let page = self.cache.get(slot).page.bytes();
        let kind = self.kind_of(&sector[0]);
        for (from, to) in ranges {
            let (at, end) = (index * SECTOR as u16 + from, index * SECTOR as u16 + to);
            let bytes = &page[usize::from(at)..usize::from(end)];
            edits.push(Edit::Bytes { block, at, kind, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::page::Shape;
    use crate::core::{Core, CoreOptions};
    use crate::log::Record;
    use crate::policy::PolicyKind;
    use crate::seal::Sealer;
    use crate::tx::{SECTOR_CONTENT, Tx};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const KINDS: [PageKind; 4] =
        [PageKind::Inodes, PageKind::Directory, PageKind::Bitmap, PageKind::Data];
    const BLOCKS: u64 = 4;

    fn core() -> Core {
        let shape =
            Shape { block_bytes: 8192, fragment_bytes: 1024, mixed: true, engine_blocks: 64 };
        let policy = PolicyKind::Async.policy();
        Core::new(shape, Arc::new(Sealer::new(9)), policy, CoreOptions::default())
    }

    /// The sealed sectors as a log has them.
    type Replica = BTreeMap<(BlockNo, usize), (PageKind, Vec<u8>)>;

    fn redo(replica: &mut Replica, edits: &[Edit<'_>]) {
        for edit in edits {
            match *edit {
                Edit::Fresh { block, at, length, kind } => {
                    let first = usize::from(at) / SECTOR;
                    for index in first..first + usize::from(length) / SECTOR {
                        replica.insert((block, index), (kind, vec![0; SECTOR]));
                    }
                }
                Edit::Bytes { block, at, kind, bytes } => {
                    let at = usize::from(at);
                    let sector = replica.get_mut(&(block, at / SECTOR)).expect("it was fresh");
                    assert_eq!(sector.0, kind);
                    sector.1[at % SECTOR..][..bytes.len()].copy_from_slice(bytes);
                }
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set { block: BlockNo, sector: usize, at: usize, length: usize, value: u8 },
        Fresh { block: BlockNo, fragments: (usize, usize), kind: usize },
        Forget { block: BlockNo, fragment: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        let set = (0..BLOCKS, 0..16_usize, 0..SECTOR_CONTENT, 1..90_usize, any::<u8>()).prop_map(
            |(block, sector, at, length, value)| {
                let length = length.min(SECTOR_CONTENT - at);
                Step::Set { block, sector, at, length, value }
            },
        );
        let fresh = (0..BLOCKS, 0..8_usize, 1..9_usize, 0..4_usize).prop_map(
            |(block, first, count, kind)| {
                let fragments = (first, count.min(8 - first));
                Step::Fresh { block, fragments, kind }
            },
        );
        let forget =
            (0..BLOCKS, 0..8_usize).prop_map(|(block, fragment)| Step::Forget { block, fragment });
        prop_oneof![9 => set, 2 => fresh, 1 => forget]
    }

    fn run(tx: &mut CoreTx<'_>, step: &Step) {
        match *step {
            Step::Set { block, sector, at, length, value } => {
                let at = sector * SECTOR + at;
                let Some(slot) = tx.core.cache.find(block) else { return };
                let buffer = tx.core.cache.get(slot);
                if buffer.valid & mask(at, length) == 0 {
                    return;
                }
                let kind = buffer.kinds[sector];
                tx.part(block, at, length, kind).expect("it is there");
                tx.set(block, at, &vec![value; length]);
            }
            Step::Fresh { block, fragments: (first, count), kind } => {
                tx.fresh(block, KINDS[kind], first * 1024, count * 1024);
            }
            Step::Forget { block, fragment } => tx.forget(block, fragment * 1024, 1024),
        }
    }

    proptest! {
        /// Every sealed sector that is in the cache is what the edits of all transactions make of
        /// it. Transactions that are undone have no part in it.
        #[test]
        fn the_edits_of_all_transactions_make_what_the_cache_holds(
            transactions in vec((vec(step(), 1..12), prop::bool::weighted(0.8)), 1..20),
        ) {
            let mut core = core();
            let mut replica = Replica::new();
            for (steps, succeeds) in &transactions {
                let mut tx = CoreTx::new(&mut core, 0);
                steps.iter().for_each(|step| run(&mut tx, step));
                if *succeeds {
                    redo(&mut replica, &tx.edits());
                    tx.commit(0);
                } else {
                    tx.undo();
                }
                for block in 0..BLOCKS {
                    let Some(slot) = core.cache.find(block) else { continue };
                    let buffer = core.cache.get(slot);
                    for index in each(buffer.valid) {
                        if buffer.kinds[index].is_sealed() {
                            let (_, found) = &replica[&(block, index)];
                            let page = &buffer.page.bytes()[index * SECTOR..(index + 1) * SECTOR];
                            prop_assert_eq!(found, page, "block {} sector {}", block, index);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_that_are_close_are_one_edit_and_others_are_not() {
        let mut core = core();
        let mut tx = CoreTx::new(&mut core, 0);
        tx.fresh(1, PageKind::Inodes, 0, 8192);
        tx.commit(0);
        let mut tx = CoreTx::new(&mut core, 0);
        for (at, bytes) in [(0, [1; 4]), (11, [2; 4]), (23, [3; 4]), (512, [4; 4])] {
            tx.set(1, at, &bytes);
        }
        let found: Vec<(u16, usize)> = tx
            .edits()
            .iter()
            .map(|edit| match edit {
                Edit::Bytes { at, bytes, .. } => (*at, bytes.len()),
                Edit::Fresh { .. } => panic!("nothing is fresh"),
            })
            .collect();
        assert_eq!(found, [(0, 15), (23, 4), (512, 4)]);
        tx.undo();
    }

    #[test]
    fn content_of_files_and_forgotten_sectors_are_no_edits() {
        let mut core = core();
        let mut tx = CoreTx::new(&mut core, 0);
        tx.fresh(1, PageKind::Data, 0, 1024);
        tx.fresh(2, PageKind::Directory, 0, 2048);
        tx.set(2, 1024, b"name");
        tx.forget(2, 0, 1024);
        let (block, kind) = (2, PageKind::Directory);
        let wanted = [
            Edit::Fresh { block, at: 1024, length: 1024, kind },
            Edit::Bytes { block, at: 1024, kind, bytes: b"name" },
        ];
        assert_eq!(tx.edits(), wanted);
        let record = Record::Bytes { seal: 5, at: 1024, block: 2, bytes: b"name" };
        assert_eq!(tx.edits()[1].record(), record);
        tx.undo();
    }
}
