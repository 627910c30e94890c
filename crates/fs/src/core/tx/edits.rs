//! What an open transaction has changed, as a log records it: absolute bytes, from the undo list.
//!
//! An edit lies in one sealed sector. Ranges at most [`JOINED`] bytes apart are one edit, because
//! the head of a record is longer. Content of files and sectors that the transaction has forgotten
//! are left out.

use super::{CoreTx, Scratch, Undo};
use crate::core::Core;
use crate::core::cache::Cache;
use crate::core::page::{Mask, SECTOR, each, mask};
use crate::log::Edit;
use crate::tx::{BlockNo, PageKind, SECTOR_CONTENT};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Bytes between two ranges that one edit covers.
pub const JOINED: usize = 7;

/// Changes of a sector: whether it was made zeros, and ranges of its bytes.
#[derive(Debug, Default)]
struct Changes {
    is_fresh: bool,
    ranges: Vec<(usize, usize)>,
}

/// Changes by block and sector.
type Sectors = BTreeMap<(BlockNo, usize), Changes>;

impl CoreTx<'_> {
    /// The edits so far, as [`Changed::edits`].
    pub fn edits(&self) -> Vec<Edit<'_>> {
        self.core.changes().edits()
    }
}

impl Core {
    /// What the open transaction has changed.
    fn changes(&self) -> Changed<'_> {
        Changed::new(&self.cache, &self.scratch, self.shape.block_bytes)
    }
}

fn changed_sectors(cache: &Cache, scratch: &Scratch, block_bytes: usize) -> Sectors {
    let mut sectors = Sectors::new();
    for undo in &scratch.undo {
        let (slot, at, length, is_fresh) = match *undo {
            Undo::Bytes { slot, at, length, is_fresh } => (slot, at, length, is_fresh),
            Undo::Page { slot, .. } => (slot, 0, block_bytes, true),
        };
        let buffer = cache.get(slot);
        for index in each(mask(at, length) & buffer.dirty) {
            if !buffer.kinds[index].is_sealed() {
                continue;
            }
            let changes = sectors.entry((buffer.block, index)).or_default();
            if is_fresh {
                *changes = Changes { is_fresh, ranges: Vec::new() };
                continue;
            }
            let from = at.max(index * SECTOR) - index * SECTOR;
            let to = (at + length).min((index + 1) * SECTOR) - index * SECTOR;
            debug_assert!(to <= SECTOR_CONTENT, "a change leaves the seal alone");
            changes.ranges.push((from, to));
        }
    }
    sectors
}

/// What an open transaction has changed.
#[derive(Debug)]
pub(crate) struct Changed<'c> {
    cache: &'c Cache,
    sectors: Sectors,
}

impl<'c> Changed<'c> {
    /// Of these parts of a core.
    pub(crate) fn new(cache: &'c Cache, scratch: &'c Scratch, block_bytes: usize) -> Changed<'c> {
        Changed { cache, sectors: changed_sectors(cache, scratch, block_bytes) }
    }

    /// Sectors with seals that were changed, by block.
    pub(crate) fn sectors(&self) -> SmallVec<[(BlockNo, Mask); 8]> {
        let mut sectors: SmallVec<[(BlockNo, Mask); 8]> = SmallVec::new();
        for &(block, index) in self.sectors.keys() {
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
        let mut edits = Vec::new();
        let mut rest = self.sectors.iter().peekable();
        while let Some(&(&(block, _), _)) = rest.peek() {
            let mut own = Vec::new();
            while let Some((&(_, index), changes)) = rest.next_if(|one| one.0.0 == block) {
                own.push((index, changes));
            }
            self.add_fresh(block, &own, &mut edits);
            own.iter().for_each(|(index, one)| self.add_bytes(block, *index, one, &mut edits));
        }
        edits
    }

    fn kind_of(&self, block: BlockNo, index: usize) -> PageKind {
        let slot = self.cache.find(block).expect("a changed block is in the cache");
        self.cache.get(slot).kinds[index]
    }

    /// Fresh sectors of a block: neighbours of one kind are one edit.
    fn add_fresh(&self, block: BlockNo, own: &[(usize, &Changes)], edits: &mut Vec<Edit<'c>>) {
        let fresh = own.iter().filter(|(_, changes)| changes.is_fresh).map(|(index, _)| *index);
        let mut runs: Vec<(usize, usize, PageKind)> = Vec::new();
        for index in fresh {
            let kind = self.kind_of(block, index);
            match runs.last_mut() {
                Some(run) if run.1 == index && run.2 == kind => run.1 += 1,
                _ => runs.push((index, index + 1, kind)),
            }
        }
        for (from, to, kind) in runs {
            let (at, length) = ((from * SECTOR) as u16, ((to - from) * SECTOR) as u16);
            edits.push(Edit::Fresh { block, at, length, kind });
        }
    }

    /// Changed bytes of a sector.
    fn add_bytes(
        &self,
        block: BlockNo,
        index: usize,
        changes: &Changes,
        edits: &mut Vec<Edit<'c>>,
    ) {
        let mut ranges = changes.ranges.clone();
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let joins = next.0 <= last.1 + JOINED;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        let slot = self.cache.find(block).expect("a changed block is in the cache");
        let page = self.cache.get(slot).page.bytes();
        let kind = self.kind_of(block, index);
        for (from, to) in ranges {
            let (at, end) = (index * SECTOR + from, index * SECTOR + to);
            edits.push(Edit::Bytes { block, at: at as u16, kind, bytes: &page[at..end] });
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
    use crate::tx::Tx;
    use proptest::collection::vec;
    use proptest::prelude::*;
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
