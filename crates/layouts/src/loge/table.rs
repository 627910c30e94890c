//! What is kept in memory: where each block lies, the labels on the way to their blocks, and the
//! trim map.

use super::compact::Compact;
use super::format::{
    Areas, GROUP, Label, SCATTERED, SECTOR_LABELS, SECTOR_TOMBS, TRIM_SLICE, Tomb, seal_trims,
};
use crate::eager::Mapped;
use seekless_engine::checksum::Identity;
use seekless_engine::checksum::mix;
use seekless_engine::data::{BlockSectors, SectorBytes};
use seekless_engine::io::Label as LabelBytes;
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
    Plain(Vec<u64>),
    Compact(Box<Compact>),
}

/// The indirection table.
#[derive(Clone)]
pub struct Table {
    form: Form,
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
        // Zeros come from the system as they are used: a large empty volume takes no memory.
        Table { form: Form::Plain(vec![0; blocks as usize]), owners: None }
    }

    /// The same blocks at the same places in another form, of which nothing is stored yet.
    pub fn compact(&mut self, mut compact: Compact) {
        for (at, entry) in (0..).zip(self.range(0, self.blocks())) {
            if entry.is_mapped() {
                compact.replace(at, entry);
            }
        }
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
            Form::Plain(entries) => entries.len() as u64,
            Form::Compact(compact) => compact.blocks(),
        }
    }

    /// Memory that the places take and that the checksums take, in bytes.
    pub fn bytes(&self) -> (u64, u64) {
        match &self.form {
            Form::Plain(entries) => {
                let half = (entries.len() * size_of::<u32>()) as u64;
                (half, half)
            }
            Form::Compact(compact) => compact.bytes(),
        }
    }

    /// Keeps from now on who lies at which of `places` places.
    pub fn learn_owners(&mut self, places: u64) {
        let mut owners = vec![0; places as usize];
        for (at, entry) in (1..).zip(self.range(0, self.blocks())) {
            if entry.is_mapped() {
                owners[entry.place() as usize] = at;
            }
        }
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
            Form::Plain(entries) => Entry(entries[at as usize]),
            Form::Compact(compact) => compact.get(at),
        }
    }

    /// Puts a block elsewhere; returns where it was.
    pub fn replace(&mut self, at: BlockNr, entry: Entry) -> Entry {
        debug_assert!(at < self.blocks(), "block {at} of {}", self.blocks());
        let old = match &mut self.form {
            Form::Plain(entries) => Entry(std::mem::replace(&mut entries[at as usize], entry.0)),
            Form::Compact(compact) => compact.replace(at, entry),
        };
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
        let length = self.range(at, limit).position(|entry| entry.is_mapped() != mapped);
        (mapped, length.map_or(limit, |length| length as u64))
    }

    /// How many blocks are stored, and a number that tells this table from others.
    pub fn digest(&self) -> (u64, u64) {
        let all = (0..).zip(self.range(0, self.blocks()));
        let stored = all.filter(|(_, entry)| entry.is_mapped());
        stored.fold((0, 0), |(count, sum), (block, Entry(entry)): (u64, _)| {
            (count + 1, sum ^ mix(entry ^ mix(block + 1)))
        })
    }
}

/// The label blocks of a device without sector headers, as they are or will be on it.
#[derive(Clone)]
pub struct LabelArea {
    areas: Areas,
    sectors: Vec<Arc<SectorBytes>>,
    dirty: BTreeSet<u32>,
}

impl fmt::Debug for LabelArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "labels of {} sectors, dirty {:?}", self.sectors.len(), self.dirty)
    }
}

impl LabelArea {
    /// No label yet.
    pub fn new(areas: Areas) -> LabelArea {
        let empty = Arc::new([0; SECTOR_BYTES]);
        let groups = areas.groups().end as usize;
        LabelArea { areas, sectors: vec![empty; groups * SECTORS], dirty: BTreeSet::new() }
    }

    /// Gives a block another label.
    pub fn set(&mut self, place: u64, label: &LabelBytes) {
        let (sector, at) = (place as usize / SECTOR_LABELS, place as usize % SECTOR_LABELS);
        let sector = Arc::make_mut(&mut self.sectors[sector]);
        sector[at * label.len()..][..label.len()].copy_from_slice(label);
        self.dirty.insert((place / GROUP) as u32);
    }

    /// Takes the labels of a group over from its label block.
    pub fn load(&mut self, group: u64, bytes: &[u8]) {
        debug_assert!(self.dirty.is_empty(), "labels are loaded before any changes");
        let own = &mut self.sectors[group as usize * SECTORS..][..SECTORS];
        for (sector, bytes) in own.iter_mut().zip(bytes.as_chunks::<SECTOR_BYTES>().0) {
            if **sector != *bytes {
                *sector = Arc::new(*bytes);
            }
        }
    }

    /// The label blocks that differ from what is on the device, now on their way to it.
    pub fn take_dirty(&mut self) -> Vec<(u64, Arc<BlockSectors>)> {
        let dirty = std::mem::take(&mut self.dirty);
        let block = |group: u32| {
            let own = &self.sectors[group as usize * SECTORS..][..SECTORS];
            let sectors = std::array::from_fn(|sector| Arc::clone(&own[sector]));
            (self.areas.label_block(u64::from(group)), Arc::new(sectors))
        };
        dirty.into_iter().map(block).collect()
    }
}

/// Tombstones of forgotten blocks, at fixed places: whatever old versions of a block a recovery
/// finds, it finds the tombstone as well.
#[derive(Clone)]
pub struct TrimMap {
    id: Identity,
    sectors: Vec<Option<Arc<SectorBytes>>>,
    dirty: BTreeSet<u32>,
    /// Transactions that changed tombstones since these were last sent to the device.
    fresh: BTreeSet<u64>,
}

impl fmt::Debug for TrimMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trim map of {} sectors, dirty {:?}", self.sectors.len(), self.dirty)
    }
}

impl TrimMap {
    /// Nothing was ever forgotten.
    pub fn new(id: Identity, areas: &Areas) -> TrimMap {
        let sectors = vec![None; areas.trim_blocks() as usize * SECTORS];
        TrimMap { id, sectors, dirty: BTreeSet::new(), fresh: BTreeSet::new() }
    }

    /// The tombstone of a block.
    pub fn get(&self, block: BlockNr) -> Tomb {
        match &self.sectors[block as usize / SECTOR_TOMBS] {
            Some(sector) => Tomb::get(sector, block as usize % SECTOR_TOMBS),
            None => Tomb::default(),
        }
    }

    /// Replaces the tombstone of a block.
    pub fn set(&mut self, block: BlockNr, tomb: Tomb) {
        let sector = &mut self.sectors[block as usize / SECTOR_TOMBS];
        let sector = sector.get_or_insert_with(|| Arc::new([0; SECTOR_BYTES]));
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
        (0..self.sectors.len()).filter(|&number| self.sectors[number].is_some())
    }

    /// Takes a sector over from the device.
    pub fn load(&mut self, number: usize, sector: &SectorBytes) {
        self.sectors[number] = (*sector != [0; SECTOR_BYTES]).then(|| Arc::new(*sector));
    }

    /// The blocks of the map that differ from what is on the device, now on their way to it, by
    /// their number.
    pub fn take_dirty(&mut self) -> Vec<(u64, Arc<BlockSectors>)> {
        self.fresh.clear();
        if self.dirty.is_empty() {
            return Vec::new();
        }
        let dirty = std::mem::take(&mut self.dirty);
        let zeros = Arc::new([0; SECTOR_BYTES]);
        let mut out = Vec::with_capacity(dirty.len());
        for block in dirty {
            let first = block as usize * SECTORS;
            let sectors = std::array::from_fn(|sector| {
                let number = first + sector;
                self.sectors[number].as_mut().map_or_else(
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
