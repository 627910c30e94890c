//! What is kept in memory: where each block lies, the labels on the way to their blocks, and the
//! trim map.

use super::compact::Compact;
use super::format::{
    Areas, GROUP, Label, SCATTERED, SECTOR_LABELS, SECTOR_TOMBS, TRIM_SLICE, Tomb, seal_trims,
};
use super::parity::LabelParity;
use crate::eager::Mapped;
use seekless_engine::checksum::Identity;
use seekless_engine::checksum::mix;
use seekless_engine::data::{BlockSectors, SectorBytes};
use seekless_engine::io::Label as LabelBytes;
use seekless_engine::table::Table as Rows;
use seekless_engine::units::{BLOCK_SECTORS, BlockNr, SECTOR_BYTES};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

const SECTORS: usize = BLOCK_SECTORS as usize;

/// Where a block lies and what it holds: place in the lower half, checksum in the upper one.
/// Zero is a block that is not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// The block is not stored.
    pub const UNMAPPED: Entry = Entry(0);

    /// A stored block.
    pub fn new(place: u32, sum: u32) -> Entry {
        debug_assert!(place != 0);
        Entry(u64::from(sum) << 32 | u64::from(place))
    }
}

impl Mapped for Entry {
    fn is_mapped(self) -> bool {
        self.place() != 0
    }

    fn place(self) -> u32 {
        self.0 as u32
    }

    fn checksum(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// In which form the table is.
#[derive(Clone)]
enum Form {
    /// An entry for each block.
    Plain(Plain),
    Compact(Box<Compact>),
}

/// Entries of a page: 4 KiB of memory.
const PAGE: usize = 512;

/// An entry for each block, and which pages of them may have something: what looks at all
/// entries, or at many, passes over the others. The system gives memory to pages that are used.
#[derive(Clone)]
struct Plain {
    entries: Vec<u64>,
    /// A bit for each page, set if a block of it was ever stored.
    used: Vec<u64>,
}

impl Plain {
    fn new(blocks: u64) -> Plain {
        let pages = (blocks as usize).div_ceil(PAGE);
        // Zeros come from the system as they are used: a large empty volume takes no memory.
        Plain { entries: vec![0; blocks as usize], used: vec![0; pages.div_ceil(64)] }
    }

    fn replace(&mut self, at: usize, entry: Entry) -> Entry {
        if entry.is_mapped() {
            self.used[at / PAGE / 64] |= 1 << (at / PAGE % 64);
        }
        Entry(std::mem::replace(&mut self.entries[at], entry.0))
    }

    /// The first page from `page` on that may have something.
    fn next_used(&self, page: usize) -> Option<usize> {
        let mut word = page / 64;
        let mut bits = self.used.get(word)? & (u64::MAX << (page % 64));
        while bits == 0 {
            word += 1;
            bits = *self.used.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The first stored block in `at..end`.
    fn next_stored(&self, at: usize, end: usize) -> Option<usize> {
        let mut at = at;
        while at < end {
            at = at.max(self.next_used(at / PAGE)? * PAGE);
            let page_end = ((at / PAGE + 1) * PAGE).min(end);
            let entries = self.entries.get(at..page_end)?;
            if let Some(index) = entries.iter().position(|&entry| Entry(entry).is_mapped()) {
                return Some(at + index);
            }
            at = page_end;
        }
        None
    }
}

/// The indirection table.
#[derive(Clone)]
pub struct Table {
    form: Form,
    /// How many blocks are stored, and the exclusive or of a number for each of them.
    digest: (u64, u64),
    /// For each place one more than the block that lies there, if a caller asks for it.
    owners: Option<Vec<u32>>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table of {} blocks, digest {:x}", self.blocks(), self.digest().1)
    }
}

impl Table {
    /// Nothing is stored.
    pub fn new(blocks: u64) -> Table {
        Table { form: Form::Plain(Plain::new(blocks)), digest: (0, 0), owners: None }
    }

    /// The same blocks at the same places in another form, of which nothing is stored yet.
    pub fn compact(&mut self, mut compact: Compact) {
        self.each_stored(|at, entry| {
            compact.replace(at, entry);
        });
        self.form = Form::Compact(Box::new(compact));
    }

    /// What a table has that is in a compact form.
    pub fn as_compact(&self) -> Option<&Compact> {
        match &self.form {
            Form::Plain(_) => None,
            Form::Compact(compact) => Some(compact),
        }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        match &self.form {
            Form::Plain(plain) => plain.entries.len() as u64,
            Form::Compact(compact) => compact.blocks(),
        }
    }

    /// Memory that the places take and that the checksums take, in bytes.
    pub fn bytes(&self) -> (u64, u64) {
        match &self.form {
            Form::Plain(plain) => {
                let half = (plain.entries.len() * size_of::<u32>()) as u64;
                (half, half)
            }
            Form::Compact(compact) => compact.bytes(),
        }
    }

    /// Keeps from now on who lies at which of `places` places.
    pub fn learn_owners(&mut self, places: u64) {
        let mut owners = vec![0; places as usize];
        self.each_stored(|at, entry| owners[entry.place() as usize] = at as u32 + 1);
        self.owners = Some(owners);
    }

    /// The block that lies at a place, if that is kept.
    pub fn owner(&self, place: u32) -> Option<BlockNr> {
        let owner = *self.owners.as_ref()?.get(place as usize)?;
        u64::from(owner).checked_sub(1)
    }

    /// Where a block lies.
    pub fn get(&self, at: BlockNr) -> Entry {
        match &self.form {
            Form::Plain(plain) => Entry(plain.entries[at as usize]),
            Form::Compact(compact) => compact.get(at),
        }
    }

    /// Puts a block elsewhere; returns where it was.
    pub fn replace(&mut self, at: BlockNr, entry: Entry) -> Entry {
        debug_assert!(at < self.blocks(), "block {at} of {}", self.blocks());
        let old = match &mut self.form {
            Form::Plain(plain) => plain.replace(at as usize, entry),
            Form::Compact(compact) => compact.replace(at, entry),
        };
        self.digest = Self::changed(self.digest, at, old, entry);
        if let Some(owners) = &mut self.owners {
            let own = at as u32 + 1;
            if old.is_mapped() && owners[old.place() as usize] == own {
                owners[old.place() as usize] = 0;
            }
            if entry.is_mapped() {
                owners[entry.place() as usize] = own;
            }
        }
        old
    }

    /// Where the blocks of a range lie.
    pub fn range(&self, at: BlockNr, count: u64) -> impl Iterator<Item = Entry> + '_ {
        (at..at + count).map(|at| self.get(at))
    }

    /// How many of at most `limit` blocks from `at` on are stored like the first one: all or none.
    pub fn extent(&self, at: BlockNr, limit: u64) -> (bool, u64) {
        let mapped = self.get(at).is_mapped();
        if let (false, Form::Plain(plain)) = (mapped, &self.form) {
            let next = plain.next_stored(at as usize, (at + limit) as usize);
            return (false, next.map_or(limit, |next| next as u64 - at));
        }
        let length = self.range(at, limit).position(|entry| entry.is_mapped() != mapped);
        (mapped, length.map_or(limit, |length| length as u64))
    }

    /// Hands over each stored block and where it lies, in order.
    pub fn each_stored(&self, mut each: impl FnMut(BlockNr, Entry)) {
        match &self.form {
            Form::Plain(plain) => {
                let (mut at, end) = (0, plain.entries.len());
                while let Some(found) = plain.next_stored(at, end) {
                    each(found as BlockNr, Entry(plain.entries[found]));
                    at = found + 1;
                }
            }
            Form::Compact(compact) => {
                let all = (0..compact.blocks()).map(|at| (at, compact.get(at)));
                all.filter(|(_, entry)| entry.is_mapped()).for_each(|(at, entry)| each(at, entry));
            }
        }
    }

    /// How many blocks are stored, and a number that tells this table from others.
    pub fn digest(&self) -> (u64, u64) {
        self.digest
    }

    /// What a digest becomes when a block is moved.
    pub fn changed((count, sum): (u64, u64), at: BlockNr, old: Entry, new: Entry) -> (u64, u64) {
        let share = |entry: Entry| match entry.is_mapped() {
            true => mix(entry.0 ^ mix(at + 1)),
            false => 0,
        };
        let count = count + u64::from(new.is_mapped()) - u64::from(old.is_mapped());
        (count, sum ^ share(old) ^ share(new))
    }
}

/// The label blocks of a device without sector headers, as they are or will be on it.
#[derive(Clone)]
pub struct LabelArea {
    areas: Areas,
    /// Sectors that were ever given a label.
    sectors: Rows<Arc<SectorBytes>>,
    dirty: BTreeSet<u32>,
    parity: LabelParity,
}

impl fmt::Debug for LabelArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "labels of {} groups, dirty {:?}", self.areas.groups().end, self.dirty)
    }
}

impl LabelArea {
    /// No label yet.
    pub fn new(areas: Areas) -> LabelArea {
        let sectors = Rows::new(areas.groups().end * BLOCK_SECTORS);
        LabelArea { areas, sectors, dirty: BTreeSet::new(), parity: LabelParity::none() }
    }

    /// Gives a block another label.
    pub fn set(&mut self, place: u64, label: &LabelBytes) {
        let (sector, at) = (place as usize / SECTOR_LABELS, place as usize % SECTOR_LABELS);
        let sector = Arc::make_mut(self.sectors.entry(sector, no_labels));
        let own = &mut sector.as_chunks_mut::<{ size_of::<LabelBytes>() }>().0[at];
        let index = (place % GROUP) as usize;
        self.parity.toggle(index, own);
        self.parity.toggle(index, label);
        *own = *label;
        self.dirty.insert((place / GROUP) as u32);
    }

    /// Takes the labels of a group over from its label block.
    pub fn load(&mut self, group: u64, bytes: &[u8]) {
        let first = group as usize * SECTORS;
        debug_assert!((first..first + SECTORS).all(|one| self.sectors.get(one).is_none()));
        for (number, bytes) in (first..).zip(bytes.as_chunks::<SECTOR_BYTES>().0) {
            if *bytes != [0; SECTOR_BYTES] {
                *self.sectors.entry(number, no_labels) = Arc::new(*bytes);
            }
        }
        self.parity.add(bytes);
    }

    /// The label of a block; zeros if it has none.
    pub fn get(&self, place: u64) -> LabelBytes {
        let sector = self.sectors.get(place as usize / SECTOR_LABELS);
        let labels = sector.map(|sector| sector.as_chunks().0);
        labels.map_or(LabelBytes::default(), |labels: &[LabelBytes]| {
            labels[place as usize % SECTOR_LABELS]
        })
    }

    /// The label block of a group is to be written anew.
    pub fn mark(&mut self, group: u64) {
        self.dirty.insert(group as u32);
    }

    /// The parity of all label blocks, if they are on the device or on their way to it.
    pub fn parity(&self) -> Option<&LabelParity> {
        self.dirty.is_empty().then_some(&self.parity)
    }

    /// The label blocks that differ from what is on the device, now on their way to it.
    pub fn take_dirty(&mut self) -> Vec<(u64, Arc<BlockSectors>)> {
        let dirty = std::mem::take(&mut self.dirty);
        if dirty.is_empty() {
            return Vec::new();
        }
        let empty = no_labels();
        let block = |group: u32| {
            let first = group as usize * SECTORS;
            let own = |sector| self.sectors.get(first + sector).unwrap_or(&empty);
            let sectors = std::array::from_fn(|sector| Arc::clone(own(sector)));
            (self.areas.label_block(u64::from(group)), Arc::new(sectors))
        };
        dirty.into_iter().map(block).collect()
    }
}

/// A sector without labels or tombstones.
fn no_labels() -> Arc<SectorBytes> {
    Arc::new([0; SECTOR_BYTES])
}

/// Tombstones of forgotten blocks, at fixed places: whatever old versions of a block a recovery
/// finds, it finds the tombstone as well.
#[derive(Clone)]
pub struct TrimMap {
    id: Identity,
    /// Sectors that were ever written.
    sectors: Rows<Arc<SectorBytes>>,
    /// Their number at most.
    most: usize,
    dirty: BTreeSet<u32>,
    /// Transactions that changed tombstones since these were last sent to the device.
    fresh: BTreeSet<u64>,
}

impl fmt::Debug for TrimMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trim map of {} sectors, dirty {:?}", self.most, self.dirty)
    }
}

impl TrimMap {
    /// Nothing was ever forgotten.
    pub fn new(id: Identity, areas: &Areas) -> TrimMap {
        let most = areas.trim_blocks() * BLOCK_SECTORS;
        let (sectors, most) = (Rows::new(most), most as usize);
        TrimMap { id, sectors, most, dirty: BTreeSet::new(), fresh: BTreeSet::new() }
    }

    /// The tombstone of a block.
    pub fn get(&self, block: BlockNr) -> Tomb {
        match self.sectors.get(block as usize / SECTOR_TOMBS) {
            Some(sector) => Tomb::get(sector, block as usize % SECTOR_TOMBS),
            None => Tomb::default(),
        }
    }

    /// Replaces the tombstone of a block.
    pub fn set(&mut self, block: BlockNr, tomb: Tomb) {
        let sector = self.sectors.entry(block as usize / SECTOR_TOMBS, no_labels);
        tomb.put(Arc::make_mut(sector), block as usize % SECTOR_TOMBS);
        self.dirty.insert((block / TRIM_SLICE) as u32);
    }

    /// Forgets block `block` with block `index` of transaction `stamp`, of which `last` is the
    /// last one. The tombstone that is on the device must not be lost should the new one not come
    /// to hold, so it is kept beside; before the map goes to the device again, the caller makes
    /// sure that what was sent before is durable.
    pub fn bury(&mut self, block: BlockNr, stamp: u64, (index, last): (u16, u16)) {
        let in_run = index <= last || (index, last) == SCATTERED;
        debug_assert!(in_run, "block {index} of {last} of a transaction");
        let old = self.get(block);
        let before = if self.fresh.contains(&old.stamp) { old.before } else { old.stamp };
        self.set(block, Tomb { stamp, before, index, last });
        self.fresh.insert(stamp);
    }

    /// True if there are tombstones that are not on the device.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Sectors that were ever written, by number.
    pub fn written(&self) -> impl Iterator<Item = usize> + '_ {
        let next = move |&last: &usize| self.sectors.next(last + 1);
        std::iter::successors(self.sectors.next(0), next)
    }

    /// Forgets the tombstones of a sector that is damaged.
    pub fn erase(&mut self, number: usize) {
        self.sectors.remove(number);
        self.dirty.insert((number / SECTORS) as u32);
    }

    /// Takes a sector over that is damaged on the device.
    pub fn mend(&mut self, number: usize, sector: &SectorBytes) {
        self.load(number, sector);
        self.dirty.insert((number / SECTORS) as u32);
    }

    /// Takes a sector over from the device.
    pub fn load(&mut self, number: usize, sector: &SectorBytes) {
        match *sector == [0; SECTOR_BYTES] {
            true => self.sectors.remove(number),
            false => *self.sectors.entry(number, no_labels) = Arc::new(*sector),
        }
    }

    /// The blocks of the map that differ from what is on the device, now on their way to it, by
    /// their number.
    pub fn take_dirty(&mut self) -> Vec<(u64, Arc<BlockSectors>)> {
        self.fresh.clear();
        if self.dirty.is_empty() {
            return Vec::new();
        }
        let dirty = std::mem::take(&mut self.dirty);
        let zeros = no_labels();
        let mut out = Vec::with_capacity(dirty.len());
        for block in dirty {
            let first = block as usize * SECTORS;
            let sectors = std::array::from_fn(|sector| {
                let number = first + sector;
                self.sectors.get_mut(number).map_or_else(
                    || Arc::clone(&zeros),
                    |sector| {
                        seal_trims(self.id, number as u64, Arc::make_mut(sector));
                        Arc::clone(sector)
                    },
                )
            });
            out.push((u64::from(block), Arc::new(sectors)));
        }
        out
    }
}

/// A label for a block that is a transaction of its own.
pub fn label(block: BlockNr, sum: u32, stamp: u64, durable: u64) -> Label {
    Label { block: block as u32, sum, stamp, durable, index: 0, last: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_tombstone_outlives_one_that_is_not() {
        let areas = Areas { blocks: 600, device_blocks: 900, headers: false };
        let mut trims =
            TrimMap::new(Identity::new(5, seekless_engine::checksum::Sums::NEWEST), &areas);
        trims.bury(201, 30, (0, 0));
        assert_eq!(trims.take_dirty()[0].0, 1);
        trims.bury(201, 50, (1, 2));
        assert_eq!(trims.get(201), Tomb { stamp: 50, before: 30, index: 1, last: 2 });
        trims.bury(201, 60, (0, 0));
        assert_eq!(trims.get(201), Tomb { stamp: 60, before: 30, index: 0, last: 0 });
        assert_eq!(trims.get(200), Tomb::default());
        assert_eq!(trims.take_dirty()[0].0, 1);
        assert_eq!(trims.take_dirty(), []);
    }

    #[test]
    fn changes_stay_away_from_labels_on_their_way() {
        let areas = Areas { blocks: 600, device_blocks: 900, headers: false };
        let mut labels = LabelArea::new(areas);
        labels.set(300, &[7; 32]);
        let out = labels.take_dirty();
        assert_eq!(out[0].0, 256);
        assert_eq!(out[0].1[2][12 * 32..][..32], [7; 32]);
        labels.set(300, &[8; 32]);
        assert_eq!(out[0].1[2][12 * 32..][..32], [7; 32]);
        assert_eq!(labels.take_dirty().len(), 1);
    }
}
