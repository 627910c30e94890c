//! Reading a volume with a damaged map or log: what is certain, and which blocks are lost.
//!
//! The newest whole checkpoint record names the map. A damaged block of the map is rebuilt where
//! that can be proved ([`super::rebuild`]); else all that it maps is in doubt. The log behind the
//! checkpoint is followed. Where a part of it is damaged, each block of the volume may have been in
//! that part: all are in doubt, except those that a later part names.

use super::super::format::{Entry, Geometry, Item, MAP_ENTRIES, Position, Record, Summary, WAYS};
use super::super::map::MetaBlock;
use super::parts::{Parts, placed};
use super::{Found, Recovery, geometry_of};
use crate::salvage::{Finder, Located, Stored};
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::disk::Disk;
use seekless_engine::layout::{LayoutError, RecoverySteps};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BlockNr;

/// What is known of a block of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Certain,
    /// Its entry is the newest that was found.
    Doubtful,
    /// There is no entry.
    Nothing,
}

/// A volume of which only what is certain is read.
#[derive(Debug)]
pub struct Salvage {
    pub(super) entries: Vec<Entry>,
    known: Vec<Known>,
    pub(super) damage: Vec<String>,
}

impl Salvage {
    fn new(geometry: &Geometry) -> Salvage {
        let blocks = geometry.blocks as usize;
        Salvage {
            entries: vec![Entry::UNMAPPED; blocks],
            known: vec![Known::Certain; blocks],
            damage: Vec::new(),
        }
    }

    /// All that a slice of the map has is unknown.
    fn lose_slice(&mut self, slice: u32) {
        let from = slice as usize * MAP_ENTRIES;
        let to = (from + MAP_ENTRIES).min(self.known.len());
        self.known[from..to].fill(Known::Nothing);
    }

    /// Any block may have been changed by what is missing.
    fn doubt_all(&mut self) {
        for known in self.known.iter_mut().filter(|known| **known == Known::Certain) {
            *known = Known::Doubtful;
        }
    }

    /// Parts are missing behind part `last`: what they named is unknown, unless it is one part,
    /// which the `next` one repeats.
    fn doubt_missing(&mut self, last: u64, next: &Found) {
        let Summary { sequence, before, .. } = &next.summary;
        let Some(named) = before.as_ref().filter(|_| *sequence == last + 2) else {
            return self.doubt_all();
        };
        for &(first, count) in named {
            let range = first as usize..first as usize + count as usize;
            for known in self.known.get_mut(range).into_iter().flatten() {
                if *known == Known::Certain {
                    *known = Known::Doubtful;
                }
            }
        }
    }

    fn set(&mut self, block: u32, entry: Entry) {
        self.entries[block as usize] = entry;
        self.known[block as usize] = Known::Certain;
    }

    /// Applies what a part of the log says.
    fn apply(&mut self, found: &Found) {
        for (place, item) in placed(found) {
            match item {
                Item::Data { block, mark, checksum } | Item::Plug { block, mark, checksum, .. } => {
                    self.set(block, Entry::new(place, mark, checksum));
                }
                Item::Zeros { block, count } => {
                    (block..block + count).for_each(|block| self.set(block, Entry::UNMAPPED));
                }
                Item::Map { .. } | Item::Index { .. } => {}
            }
        }
    }

    /// Gives blocks of which there is no entry the newest version that any summary names.
    fn fill(&mut self, parts: &Parts) {
        let slices = self.known.len().div_ceil(MAP_ENTRIES) as u32;
        for slice in 0..slices {
            let first = u64::from(slice) * MAP_ENTRIES as u64;
            let count = (self.known.len() as u64 - first).min(MAP_ENTRIES as u64);
            let range = first as usize..(first + count) as usize;
            if !self.known[range].contains(&Known::Nothing) {
                continue;
            }
            let versions = parts.versions(MetaBlock::Slice(slice), first, count, u64::MAX);
            for (block, all) in versions {
                let (block, newest) = (block as usize, all.last());
                if let (Known::Nothing, Some(newest)) = (self.known[block], newest) {
                    (self.entries[block], self.known[block]) = (newest.entry, Known::Doubtful);
                }
            }
        }
    }

    fn located(&self, block: BlockNr) -> Located {
        let entry = self.entries[block as usize];
        if !entry.is_mapped() {
            return Located::Zeros;
        }
        let (place, escaped) = (u64::from(entry.place()), entry.mark().escaped);
        Located::Stored(Stored { place, sum: entry.known_sum(), escaped })
    }
}

impl Finder for Salvage {
    fn find(&self, block: BlockNr) -> Located {
        match self.known[block as usize] {
            Known::Certain => self.located(block),
            Known::Doubtful | Known::Nothing => Located::Lost,
        }
    }

    fn find_stale(&self, block: BlockNr) -> Located {
        match self.known[block as usize] {
            Known::Certain | Known::Doubtful => self.located(block),
            Known::Nothing => Located::Lost,
        }
    }

    fn damage(&self) -> &[String] {
        &self.damage
    }
}

/// Finds out what is certain of a volume.
///
/// # Errors
/// If the superblock names sizes that no volume has.
pub(in crate::lfs) fn open(
    disk: &mut dyn Disk,
    superblock: &Superblock,
) -> Result<Salvage, LayoutError> {
    let geometry = geometry_of(superblock)?;
    let (id, sums): (Identity, Sums) = (superblock.identity(), superblock.sums);
    let steps = &mut RecoverySteps::new(None);
    let mut recovery = Recovery { disk, id, sums, geometry, steps, lost: None };
    Ok(recovery.salvage().0)
}

impl Recovery<'_> {
    /// What is certain, and the record that it was found by.
    pub(super) fn salvage(&mut self) -> (Salvage, Option<Record>) {
        let mut salvage = Salvage::new(&self.geometry);
        let record = match self.newest_record() {
            Ok(record) => record,
            Err(error) => {
                salvage.damage.push(error.to_string());
                salvage.known.fill(Known::Nothing);
                let parts = self.scan_parts();
                salvage.fill(&parts);
                return (salvage, None);
            }
        };
        let mut scanned: Option<Parts> = None;
        let slices = self.salvage_slices(&record, &mut salvage, &mut scanned);
        for (slice, entry) in (0..).zip(slices) {
            match entry {
                None => salvage.lose_slice(slice),
                Some(entry) if !entry.is_mapped() => {}
                Some(entry) => {
                    let meta = MetaBlock::Slice(slice);
                    let found = self.meta_or_rebuilt(meta, entry, &mut salvage, &mut scanned);
                    self.take_slice(slice, found, &mut salvage);
                }
            }
        }
        self.salvage_log(&record, &mut salvage, &mut scanned);
        if salvage.known.contains(&Known::Nothing) {
            let parts = scanned.get_or_insert_with(|| self.scan_parts());
            salvage.fill(parts);
        }
        (salvage, Some(record))
    }

    /// Where the map blocks lie; nothing for those that are not known.
    fn salvage_slices(
        &mut self,
        record: &Record,
        salvage: &mut Salvage,
        scanned: &mut Option<Parts>,
    ) -> Vec<Option<Entry>> {
        let mut slices = vec![Some(Entry::UNMAPPED); self.geometry.slices() as usize];
        for (root, index) in record.roots.iter().zip(0..).filter(|(root, _)| root.is_mapped()) {
            let found = self.meta_or_rebuilt(MetaBlock::Index(index), *root, salvage, scanned);
            let from = index as usize * MAP_ENTRIES;
            let to = (from + MAP_ENTRIES).min(slices.len());
            match found {
                None => slices[from..to].fill(None),
                Some(entries) => {
                    let each = slices[from..to].iter_mut().zip(entries);
                    each.for_each(|(slice, entry)| *slice = Some(entry));
                }
            }
        }
        slices
    }

    fn meta_or_rebuilt(
        &mut self,
        meta: MetaBlock,
        named: Entry,
        salvage: &mut Salvage,
        scanned: &mut Option<Parts>,
    ) -> Option<Vec<Entry>> {
        let error = match self.read_meta(named) {
            Ok(entries) => return Some(entries),
            Err(error) => error,
        };
        salvage.damage.push(error.to_string());
        let parts = scanned.get_or_insert_with(|| self.scan_parts());
        self.rebuild(parts, meta, named)
    }

    fn take_slice(&mut self, slice: u32, found: Option<Vec<Entry>>, salvage: &mut Salvage) {
        let Some(entries) = found else { return salvage.lose_slice(slice) };
        let from = slice as usize * MAP_ENTRIES;
        let to = (from + MAP_ENTRIES).min(salvage.entries.len());
        for (block, entry) in (from..to).zip(entries) {
            // Only a forged map names a place outside the segments.
            match !entry.is_mapped() || self.geometry.holds(entry.place(), 1) {
                true => salvage.entries[block] = entry,
                false => salvage.known[block] = Known::Nothing,
            }
        }
    }

    /// Applies the log behind the checkpoint.
    fn salvage_log(&mut self, record: &Record, salvage: &mut Salvage, scanned: &mut Option<Parts>) {
        match self.follow(record) {
            Ok(followed) => followed.parts.iter().for_each(|found| salvage.apply(found)),
            Err(error) => {
                salvage.damage.push(error.to_string());
                let parts = scanned.get_or_insert_with(|| self.scan_parts());
                self.pass_gap(record, salvage, parts);
            }
        }
    }

    /// Applies the log up to where a part is missing, and what is certain behind that.
    fn pass_gap(&mut self, record: &Record, salvage: &mut Salvage, parts: &Parts) {
        let mut position = record.start;
        let mut mount = (position.link >> 32) as u32;
        while let Some(found) = self.next_part(&position, mount, record) {
            let Found { summary, link, .. } = &found;
            if summary.checkpoint > record.number {
                // A newer record has named another map, and what this one names may be gone.
                return salvage.doubt_all();
            }
            position = Position { sequence: summary.sequence, link: *link, ways: summary.ways };
            mount = summary.mount;
            salvage.apply(&found);
        }
        let behind = behind_gap(record, parts, position.sequence);
        let durable = behind.iter().map(|found| found.summary.durable).max().unwrap_or(0);
        let mut last = position.sequence;
        // Nothing says that the log goes on, or it is unknown with what.
        let Some(next) = behind.first().filter(|_| durable > last) else {
            return salvage.doubt_all();
        };
        salvage.doubt_missing(last, next);
        let mut open = Vec::new();
        let mut ways = [0; WAYS];
        for found in behind {
            let Found { summary, .. } = found;
            let known = summary.sequence <= durable;
            let is_gap = summary.sequence > last + 1;
            if !known && (is_gap && summary.sequence > durable + 1 || !self.is_whole(found)) {
                break;
            }
            if is_gap && last > position.sequence {
                open.clear();
                salvage.doubt_missing(last, found);
            }
            (last, ways) = (summary.sequence, summary.ways);
            open.push(found);
            // A commit holds as a whole.
            if summary.ends || known {
                open.drain(..).for_each(|found| salvage.apply(found));
            }
        }
        let geometry = self.geometry;
        let inside = ways.into_iter().filter(|&way| geometry.holds(way, 1));
        if inside.into_iter().any(|way| self.disk.read(BlockNr::from(way), 1).is_err()) {
            salvage.doubt_all();
        }
    }
}

/// The parts behind the one that is missing that belong to the log, in order.
fn behind_gap<'p>(record: &Record, parts: &'p Parts, last: u64) -> Vec<&'p Found> {
    let judged = record.judged.unwrap_or(record.start.into());
    let mut behind = Vec::new();
    // Up to what a mount has judged, each part names the one before it.
    let mut link = judged.link;
    for sequence in (last + 1..=judged.sequence).rev() {
        let Some(found) = parts.named(sequence, link) else { break };
        link = found.summary.link;
        behind.insert(0, found);
    }
    // Behind it only the last mount has written.
    let young = parts.behind(judged.sequence.max(last));
    behind.extend(young.filter(|found| found.summary.mount == record.mounts));
    behind
}
