//! Transactions over the cache: edits that stand together, or are undone together.
//!
//! An edit changes the buffer at once and keeps the old bytes. [`CoreTx::commit`] makes the edits
//! known to syncer and policy; [`CoreTx::undo`] takes them back in reverse order. Nothing of a
//! transaction can reach the volume before it ends, because no write begins while it is open.

mod edits;

pub(crate) use edits::Changed;

use super::cache::{Cache, Slot};
use super::page::{MOST_SECTORS, Mask, Page, SECTOR, each, mask};
use super::{Core, Seals};
use crate::call::{Errno, Ino, Timestamp};
use crate::policy::{Rule, Settle};
use crate::tx::{BlockNo, Deferred, Field, Freed, Need, PageKind, Role, Stop, Tx};
use seekless_engine::units::Time;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Blocks with their kinds.
pub type Wanted = SmallVec<[(BlockNo, PageKind); 4]>;

/// What an open transaction has changed. It keeps its memory from one transaction to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    serial: u64,
    touched: Vec<Before>,
    undo: Vec<Undo>,
    /// Old bytes of [`Undo::Bytes`], one after the other.
    old: Vec<u8>,
    /// What the operation wants of the order of writes.
    pub(super) rules: Vec<Rule>,
    /// What the policy says is not to be written.
    forgotten: Vec<Field>,
    expected: Wanted,
    /// Buffers and the inodes that their changes belong to.
    owners: Vec<(Slot, Ino)>,
    /// Buffers in the order of their last use.
    used: SmallVec<[Slot; 16]>,
    /// Blocks that do not wait for their age.
    early: Vec<BlockNo>,
    /// A block with maps that are damaged, or contradict what the operation knows.
    wrong_map: Option<BlockNo>,
}

/// State of a buffer before the transaction.
#[derive(Clone, Copy, Debug)]
struct Before {
    slot: Slot,
    valid: Mask,
    dirty: Mask,
    checked: Mask,
    unwritten: bool,
    kind: PageKind,
    kinds: [PageKind; MOST_SECTORS],
}

/// How to take back the content of one edit.
#[derive(Clone, Debug)]
enum Undo {
    /// Copies the last `length` old bytes back. If the edit is fresh, it made whole sectors zeros.
    Bytes { slot: Slot, at: usize, length: usize, is_fresh: bool },
    /// Puts a page back. The edit made all of the block zeros.
    Page { slot: Slot, page: Page },
    /// The same, of a block that holds nothing on the volume either: no bytes have changed.
    Nothing { slot: Slot, page: Page },
}

/// An open transaction.
#[derive(Debug)]
pub struct CoreTx<'c> {
    core: &'c mut Core,
    now: Timestamp,
}

impl<'c> CoreTx<'c> {
    /// Opens a transaction. It must end with [`CoreTx::commit`] or [`CoreTx::undo`].
    pub fn new(core: &'c mut Core, now: Timestamp) -> CoreTx<'c> {
        let scratch = &mut core.scratch;
        debug_assert!(scratch.touched.is_empty(), "a transaction is open");
        scratch.serial += 1;
        scratch.expected.clear();
        scratch.wrong_map = None;
        CoreTx { core, now }
    }

    /// True if it has changed something that the log has no room for.
    pub fn lacks_log_room(&self) -> bool {
        !self.core.scratch.touched.is_empty() && self.core.lacks_log_room()
    }

    /// Ends the transaction: its edits stand. `at` is the time of the driver.
    pub fn commit(self, at: Time) -> Settle {
        let core = self.core;
        core.stats.committed += 1;
        core.nvram_called(at);
        let mut touched = std::mem::take(&mut core.scratch.touched);
        for before in touched.drain(..) {
            core.changed(before.slot, before.dirty, at);
        }
        core.scratch.touched = touched;
        let mut owners = std::mem::take(&mut core.scratch.owners);
        for (slot, ino) in owners.drain(..) {
            core.own(slot, ino);
        }
        core.scratch.owners = owners;
        for block in std::mem::take(&mut core.scratch.early) {
            core.queue_early(block);
        }
        if core.policy.takes_groups() {
            let settle = core.log_group(self.now, at);
            core.scratch.end(&mut core.cache);
            return settle;
        }
        let mut forgotten = std::mem::take(&mut core.scratch.forgotten);
        let settle = core.policy.committed(&mut core.scratch.rules, &mut forgotten);
        forgotten.drain(..).for_each(|field| core.forget(field, at));
        core.scratch.forgotten = forgotten;
        core.scratch.end(&mut core.cache);
        settle
    }

    /// Ends the transaction: everything is as it was.
    pub fn undo(self) {
        let core = self.core;
        core.stats.undone += 1;
        let mut scratch = std::mem::take(&mut core.scratch);
        while let Some(undo) = scratch.undo.pop() {
            match undo {
                Undo::Bytes { slot, at, length, .. } => {
                    let from = scratch.old.len() - length;
                    let page = core.cache.get_mut(slot).page.make_mut();
                    page[at..at + length].copy_from_slice(&scratch.old[from..]);
                    scratch.old.truncate(from);
                }
                Undo::Page { slot, page } | Undo::Nothing { slot, page } => {
                    core.cache.get_mut(slot).page = page;
                }
            }
        }
        for before in scratch.touched.drain(..) {
            let Before { slot, valid, dirty, checked, unwritten, kind, kinds } = before;
            // Sectors that were dirty and forgotten are valid again before they are dirty again.
            core.cache.get_mut(slot).valid |= valid;
            core.cache.set_dirty(slot, dirty);
            let buffer = core.cache.get_mut(slot);
            (buffer.valid, buffer.checked, buffer.kind, buffer.kinds) =
                (valid, checked, kind, kinds);
            buffer.unwritten = unwritten;
        }
        core.scratch = scratch;
        core.scratch.end(&mut core.cache);
    }

    /// The state of a buffer is noted before its first change.
    fn note(&mut self, slot: Slot) {
        let serial = self.core.scratch.serial;
        if self.core.cache.get(slot).touched == serial {
            return;
        }
        let buffer = self.core.cache.get_mut(slot);
        buffer.touched = serial;
        let before = Before {
            slot,
            valid: buffer.valid,
            dirty: buffer.dirty,
            checked: buffer.checked,
            unwritten: buffer.unwritten,
            kind: buffer.kind,
            kinds: buffer.kinds,
        };
        self.core.scratch.touched.push(before);
    }

    /// The buffer of a block, made if there is none.
    fn make(&mut self, block: BlockNo, kind: PageKind) -> Slot {
        let Core { cache, scratch, .. } = &mut *self.core;
        cache.find(block).unwrap_or_else(|| {
            let slot = cache.find_or_make(block, kind);
            scratch.use_of(slot);
            slot
        })
    }

    /// A buffer is zeros, as the volume has its block, or will have it.
    fn make_nothing(&mut self, slot: Slot) {
        self.note(slot);
        self.core.cache.set_dirty(slot, 0);
        let (whole, zeros) = (self.core.shape.whole(), self.core.cache.zeros());
        let buffer = self.core.cache.get_mut(slot);
        let page = std::mem::replace(&mut buffer.page, zeros);
        (buffer.valid, buffer.checked, buffer.bad) = (whole, whole, 0);
        self.core.scratch.undo.push(Undo::Nothing { slot, page });
    }

    /// Keeps bytes that an edit is going to overwrite.
    fn keep(&mut self, slot: Slot, at: usize, length: usize, is_fresh: bool) {
        let scratch = &mut self.core.scratch;
        scratch.old.extend_from_slice(&self.core.cache.get(slot).page.bytes()[at..at + length]);
        scratch.undo.push(Undo::Bytes { slot, at, length, is_fresh });
    }

    /// Adds the missing ones of the blocks that the operation has announced.
    pub fn add_expected(&mut self, stop: &mut Stop) {
        let Stop::Miss(wanted) = stop else { return };
        for (block, kind) in std::mem::take(&mut self.core.scratch.expected) {
            let missing = self.core.is_missing(block) && wanted.iter().all(|one| one.0 != block);
            if missing && block < self.core.shape.blocks() {
                wanted.push((block, kind));
            }
        }
    }

    /// Blocks with changes of an inode that are not written.
    pub fn owned(&self, ino: Ino) -> impl Iterator<Item = BlockNo> {
        self.core.owned.of(ino)
    }

    /// Those of them that hold addresses.
    pub fn owned_addresses(&self, ino: Ino) -> impl Iterator<Item = BlockNo> {
        let cache = &self.core.cache;
        self.owned(ino).filter(|&block| {
            cache.find(block).is_some_and(|slot| cache.get(slot).kind != PageKind::Data)
        })
    }

    /// True if a block has changes of which no write has completed.
    pub fn is_block_unwritten(&self, block: BlockNo) -> bool {
        self.core.cache.is_unwritten(block)
    }

    /// Blocks for content of the volume, if it is one that says so.
    pub fn all_room(&self) -> u64 {
        self.core.room.map_or(0, |room| room.all)
    }

    /// True if no operation may change anything.
    pub fn is_read_only(&self) -> bool {
        self.core.is_read_only()
    }

    /// The buffer of a block if these sectors are there, with right seals.
    fn sectors(
        &mut self,
        block: BlockNo,
        sectors: Mask,
        kind: PageKind,
        lenient: bool,
    ) -> Result<Slot, Stop> {
        let Some(slot) = self.core.cache.find(block) else {
            if block >= self.core.shape.blocks() {
                return Err(Errno::Io.into());
            }
            return Err(Stop::Miss(smallvec![(block, kind)]));
        };
        let Core { cache, scratch, seals, shape, .. } = &mut *self.core;
        scratch.use_of(slot);
        let buffer = cache.get(slot);
        let missing = sectors & !buffer.valid;
        if missing & buffer.bad != 0 {
            return Err(scratch.met_damage(block, kind));
        }
        if missing != 0 {
            return Err(Stop::Miss(smallvec![(block, kind)]));
        }
        let unchecked = if kind.is_sealed() { sectors & !buffer.checked } else { 0 };
        // Most uses change nothing of a buffer, and so copy nothing after a fork.
        if buffer.kind != kind || unchecked != 0 {
            let buffer = cache.get_mut(slot);
            buffer.kind = kind;
            let first = block * shape.sectors() as u64;
            let right = right_seals(seals.as_ref(), first, kind, buffer.page.bytes(), unchecked);
            buffer.checked |= right;
            if right != unchecked && !lenient {
                return Err(self.core.scratch.met_damage(block, kind));
            }
        }
        Ok(slot)
    }
}

impl Scratch {
    /// A buffer is used.
    #[inline]
    fn use_of(&mut self, slot: Slot) {
        if self.used.last() == Some(&slot) {
            return;
        }
        match self.used.iter().position(|&used| used == slot) {
            Some(at) => self.used[at..].rotate_left(1),
            None => self.used.push(slot),
        }
    }

    /// An operation needs a sector that is damaged.
    #[cold]
    fn met_damage(&mut self, block: BlockNo, kind: PageKind) -> Stop {
        if kind == PageKind::Bitmap {
            self.wrong_map = Some(block);
        }
        Errno::Io.into()
    }

    /// The transaction has ended.
    fn end(&mut self, cache: &mut Cache) {
        self.used.iter().for_each(|&slot| cache.touch(slot));
        self.used.clear();
        self.undo.clear();
        self.old.clear();
        self.rules.clear();
        self.expected.clear();
        self.owners.clear();
        self.early.clear();
    }
}

/// Those of some sectors that have right seals.
#[cold]
fn right_seals(seals: &dyn Seals, first: u64, kind: PageKind, bytes: &[u8], sectors: Mask) -> Mask {
    each(sectors)
        .filter(|&index| {
            let sector = &bytes[index * SECTOR..(index + 1) * SECTOR];
            seals.is_right(first + index as u64, kind, sector)
        })
        .fold(0, |right, index| right | 1 << index)
}

impl Tx for CoreTx<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn block_bytes(&self) -> usize {
        self.core.shape.block_bytes
    }

    fn page(&mut self, block: BlockNo, kind: PageKind) -> Result<&[u8], Stop> {
        let whole = self.core.shape.whole();
        // A block that a directory shares with a file has sectors without seals.
        let lenient = self.core.shape.mixed && kind == PageKind::Directory;
        let slot = self.sectors(block, whole, kind, lenient)?;
        Ok(self.core.cache.get(slot).page.bytes())
    }

    fn part(
        &mut self,
        block: BlockNo,
        at: usize,
        length: usize,
        kind: PageKind,
    ) -> Result<&[u8], Stop> {
        let slot = self.sectors(block, mask(at, length), kind, false)?;
        Ok(&self.core.cache.get(slot).page.bytes()[at..at + length])
    }

    fn set(&mut self, block: BlockNo, at: usize, bytes: &[u8]) {
        let slot = self.core.cache.find(block).expect("an operation changes what it has seen");
        self.note(slot);
        self.keep(slot, at, bytes.len(), false);
        let sectors = mask(at, bytes.len());
        let buffer = self.core.cache.make_dirty(slot, sectors);
        debug_assert_eq!(sectors & !buffer.valid, 0, "block {block} at {at} was not given");
        buffer.page.make_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        let kind = buffer.kind;
        each(sectors).for_each(|index| buffer.kinds[index] = kind);
    }

    fn fresh(&mut self, block: BlockNo, kind: PageKind, at: usize, length: usize) {
        let slot = self.make(block, kind);
        self.note(slot);
        let block_bytes = self.core.shape.block_bytes;
        let sectors = mask(at, length);
        if length == block_bytes {
            let zeros = self.core.cache.zeros();
            let page = std::mem::replace(&mut self.core.cache.get_mut(slot).page, zeros);
            self.core.scratch.undo.push(Undo::Page { slot, page });
        } else {
            self.keep(slot, at, length, true);
            self.core.cache.get_mut(slot).page.make_mut()[at..at + length].fill(0);
        }
        let buffer = self.core.cache.get_mut(slot);
        buffer.valid |= sectors;
        buffer.kind = kind;
        each(sectors).for_each(|index| buffer.kinds[index] = kind);
        if kind.is_sealed() {
            buffer.checked |= sectors;
        } else {
            buffer.checked &= !sectors;
        }
        let dirty = buffer.dirty | sectors;
        self.core.cache.set_dirty(slot, dirty);
    }

    fn unused(&mut self, block: BlockNo) {
        let slot = self.make(block, PageKind::Data);
        self.note(slot);
        let whole = self.core.shape.whole();
        let buffer = self.core.cache.get_mut(slot);
        let missing = whole & !buffer.valid;
        let page = buffer.page.make_mut();
        each(missing).for_each(|index| page[index * SECTOR..(index + 1) * SECTOR].fill(0));
        buffer.valid = whole;
        buffer.checked &= !missing;
        buffer.unwritten = buffer.writing.is_none();
    }

    fn began(&mut self, block: BlockNo) {
        let slot = self.core.cache.find(block).expect("what was allocated was made zeros");
        self.note(slot);
        let buffer = self.core.cache.get_mut(slot);
        buffer.unwritten = buffer.writing.is_none();
    }

    fn is_new(&self, block: BlockNo) -> bool {
        let Some(slot) = self.core.cache.find(block) else { return false };
        let buffer = self.core.cache.get(slot);
        buffer.unwritten && !self.core.barriers.is_awaited(block, buffer.epoch)
    }

    fn is_unwritten(&self, block: BlockNo) -> bool {
        let Some(slot) = self.core.cache.find(block) else { return false };
        let buffer = self.core.cache.get(slot);
        let is_whole = buffer.dirty == self.core.shape.whole();
        is_whole && buffer.kind == PageKind::Data && self.is_new(block)
    }

    fn contradicts(&mut self, map: BlockNo) {
        self.core.scratch.wrong_map = Some(map);
    }

    fn filled(&mut self, blocks: &[BlockNo]) {
        let last = blocks.last().and_then(|&block| self.core.cache.find(block));
        let whole = self.core.shape.whole();
        if last.is_some_and(|slot| self.core.cache.get(slot).dirty == whole) {
            self.core.scratch.early.extend_from_slice(blocks);
        }
    }

    fn goes_early(&mut self, block: BlockNo) {
        self.core.scratch.early.push(block);
    }

    fn expect(&mut self, block: BlockNo, kind: PageKind) {
        if self.core.scratch.expected.len() < super::input::MOST_EXPECTED {
            self.core.scratch.expected.push((block, kind));
        }
    }

    fn belongs(&mut self, block: BlockNo, ino: Ino) {
        let Some(slot) = self.core.cache.find(block) else { return };
        if self.core.cache.get(slot).owner != ino {
            self.core.scratch.owners.push((slot, ino));
        }
    }

    fn cut(&mut self, blocks: Range<BlockNo>) {
        debug_assert!(self.core.policy.writes_patches(), "the volume takes no cuts");
        for slot in self.core.cache.slots_in(&blocks) {
            self.make_nothing(slot);
        }
        self.core.scratch.rules.push(Rule::Cut(blocks));
    }

    fn hole(&mut self, block: BlockNo, kind: PageKind) {
        let slot = self.make(block, kind);
        if self.core.cache.get(slot).valid != self.core.shape.whole() {
            self.make_nothing(slot);
        }
        self.core.cache.get_mut(slot).kind = kind;
    }

    fn room(&self) -> Option<u64> {
        let core = &*self.core;
        let room = core.room?;
        Some(room.blocks.saturating_sub(core.policy.blocks_to_come()))
    }

    fn place_for_blocks(&self) -> u64 {
        self.core.policy.place_for_blocks()
    }

    fn forget(&mut self, block: BlockNo, at: usize, length: usize) {
        let Some(slot) = self.core.cache.find(block) else { return };
        self.note(slot);
        self.core.cache.forget(slot, mask(at, length));
        if self.guards_moves() || self.takes_groups() {
            self.core.scratch.rules.push(Rule::Forget(Field::new(block, at, length)));
        }
    }

    fn guards(&self) -> bool {
        self.core.policy.guards()
    }

    fn defers_frees(&self) -> bool {
        self.core.policy.defers_frees()
    }

    fn guards_moves(&self) -> bool {
        self.core.policy.guards_moves()
    }

    fn guard(&mut self, changes: &[(Field, &[u8])], needs: &[Need], role: Role) {
        if self.guards() {
            self.guard_moved(changes, needs, role);
        }
    }

    fn guard_moved(&mut self, changes: &[(Field, &[u8])], needs: &[Need], role: Role) {
        let olds = changes.iter().map(|(field, old)| (*field, SmallVec::from_slice(old)));
        let (olds, needs) = (olds.collect(), SmallVec::from_slice(needs));
        self.core.scratch.rules.push(Rule::Guard { olds, needs, role });
    }

    fn is_guarded(&self, field: Field) -> bool {
        self.core.policy.is_guarded(field)
    }

    fn free_later(&mut self, freed: Freed, content: Option<Field>) -> bool {
        self.defers_frees() && self.free_moved(freed, content)
    }

    fn free_moved(&mut self, freed: Freed, content: Option<Field>) -> bool {
        let defers = self.guards_moves() || self.defers_frees();
        if defers {
            self.core.scratch.rules.push(Rule::Free { freed, content });
        }
        defers
    }

    fn tell_later(&mut self, fact: Freed) -> bool {
        let tells = self.guards();
        if tells {
            self.core.scratch.rules.push(Rule::Free { freed: fact, content: None });
        }
        tells
    }

    fn takes_groups(&self) -> bool {
        self.core.policy.takes_groups()
    }

    fn content(&mut self, field: Field, always: bool) {
        if self.takes_groups() {
            self.core.scratch.rules.push(Rule::Content { field, always });
        }
    }

    fn freed(&mut self, what: Deferred) {
        if self.takes_groups() {
            self.core.scratch.rules.push(Rule::Freed(what));
        }
    }

    fn orphaned(&mut self, ino: u32) {
        if self.takes_groups() {
            self.core.scratch.rules.push(Rule::Orphan(ino));
        }
    }

    fn adopted(&mut self, ino: u32) {
        if self.takes_groups() {
            self.core.scratch.rules.push(Rule::Adopted(ino));
        }
    }

    fn writes_at_once(&mut self, field: Field) {
        if self.core.policy.answers_late() {
            self.core.scratch.rules.push(Rule::AtOnce(field));
        }
    }
}

impl Core {
    /// A block with maps that the last operation has found damaged or wrong.
    pub(crate) fn take_wrong_map(&mut self) -> Option<BlockNo> {
        self.scratch.wrong_map.take()
    }

    /// Changes of a buffer belong to an inode.
    fn own(&mut self, slot: Slot, ino: Ino) {
        let buffer = self.cache.get(slot);
        if buffer.owner != ino && buffer.dirty != 0 {
            self.owned.insert(ino, buffer.block);
            self.cache.get_mut(slot).owner = ino;
        }
    }

    /// Bytes mean nothing, and no write is to carry them.
    fn forget(&mut self, field: Field, at: Time) {
        let Some(slot) = self.cache.find(field.block) else { return };
        let before = self.cache.get(slot).dirty;
        self.cache.forget(slot, mask(usize::from(field.at), usize::from(field.length)));
        self.changed(slot, before, at);
    }

    /// No change of a buffer is unwritten.
    pub(crate) fn is_written(&mut self, slot: Slot) {
        let buffer = self.cache.get_mut(slot);
        if std::mem::take(&mut buffer.owner) != 0 {
            self.owned.forget(buffer.block);
        }
        self.barriers.wrote_all_of(buffer.block);
    }

    /// True if a block must be read before an operation can use all of it.
    pub(crate) fn is_missing(&self, block: BlockNo) -> bool {
        let whole = self.shape.whole();
        self.cache.find(block).is_none_or(|slot| self.cache.get(slot).valid != whole)
    }

    /// Tells barriers and syncer of a buffer that a transaction has changed.
    fn changed(&mut self, slot: Slot, before: Mask, at: Time) {
        let buffer = self.cache.get(slot);
        match (before != 0, buffer.dirty != 0) {
            (false, true) => {
                let buffer = self.cache.get_mut(slot);
                buffer.epoch = self.barriers.dirtied();
                buffer.due = self.wheel.add(buffer.block, buffer.kind, at);
            }
            (true, false) => {
                self.barriers.cleaned(buffer.epoch);
                if buffer.writing.is_none() {
                    self.is_written(slot);
                }
            }
            (true, true) | (false, false) => {}
        }
    }
}
