//! Metadata that is damaged, and known all the same.
//!
//! A label or a sector of the trim map of which one byte is wrong follows from its checksum. Where
//! the volume is as its record says, at rest, more can be done: the record has the parity of all
//! label blocks, and a digest of where all blocks lie, which proves what is made of them.

use super::super::format::{
    GROUP, Label, SECTOR_TOMBS, TRIMS_START, Tomb, trims_are_sound, trims_are_whole,
};
use super::super::parity::LabelParity;
use super::super::table::{Entry, Table};
use super::{LostLabels, Scan, damaged, label_bytes};
use crate::eager::Mapped;
use crate::mend::one_byte;
use bytes::Bytes;
use seekless_engine::data::SectorBytes;
use seekless_engine::io::Label as LabelBytes;
use seekless_engine::layout::LayoutError;
use seekless_engine::units::{BLOCK_SECTORS, BlockNr};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks of which it is in doubt whether they were trimmed, at most: one choice among so many
/// agrees by chance with a digest of 64 bits in one of 2^32 cases.
const MOST_DOUBTFUL: usize = 32;
/// Time stamps that a tombstone may have beyond those of all labels, where it is made out by a
/// checksum: trims need no labels.
const STAMP_SLACK: u64 = 1 << 24;

impl Scan<'_> {
    /// Finds out whether the state is that of the record: a clean shutdown, or a volume at rest to
    /// which nothing has been written since. What was flushed since has taken the record along.
    pub(super) fn find_rest(&mut self) {
        let durable = self.record.durable;
        let is_old = |tombs: Vec<(u64, Tomb)>| tombs.iter().all(|(_, tomb)| tomb.stamp <= durable);
        self.knows_digest = self.record.clean
            || self.record.at_rest && self.young.is_empty() && self.tombs().is_ok_and(is_old);
    }

    /// Takes the labels of the label block over that is damaged.
    pub(super) fn rebuild_lost(&mut self) -> Result<(), LayoutError> {
        let Some(LostLabels { group, place }) = self.lost.take() else { return Ok(()) };
        let Some(parity) = self.parity.take().filter(|_| self.knows_digest) else {
            return self.rot(place);
        };
        let bytes = parity.label_block(self.superblock.identity(), group);
        if (group * GROUP..).zip(label_bytes(&bytes)).any(|(at, label)| !self.is_label(at, label)) {
            return self.rot(place);
        }
        self.take_labels(group, &bytes)?;
        self.mended_labels(group);
        Ok(())
    }

    /// The label block of a group is to be written anew.
    fn mended_labels(&mut self, group: u64) {
        self.volume.mended.insert(self.areas.label_block(group));
        if let Some(area) = &mut self.volume.labels {
            area.mark(group);
        }
    }

    /// A label that is there and whole.
    fn decode(&self, place: u64, label: &LabelBytes) -> Option<Label> {
        let id = self.superblock.identity();
        Label::decode(id, place, label, self.areas.blocks).ok().flatten()
    }

    /// False for a label that is damaged.
    fn is_label(&self, place: u64, label: &LabelBytes) -> bool {
        let id = self.superblock.identity();
        match Label::decode(id, place, label, self.areas.blocks) {
            Ok(label) => label.is_none() || self.areas.is_pool(place),
            Err(_) => false,
        }
    }

    /// The bytes of a label block, with labels mended of which a byte is wrong; and the first place
    /// of which the label is damaged beyond that.
    pub(super) fn mend_labels(&mut self, group: u64, bytes: Bytes) -> (Bytes, Option<u64>) {
        let first = group * GROUP;
        let is_damaged = |&(place, label): &(u64, &LabelBytes)| !self.is_label(place, label);
        let all = (first..).zip(label_bytes(&bytes));
        let damaged: Vec<u64> = all.filter(is_damaged).map(|(place, _)| place).collect();
        if damaged.is_empty() {
            return (bytes, None);
        }
        let mut out = bytes.to_vec();
        let mut wrong = None;
        for place in damaged {
            let labels = out.as_chunks_mut::<{ size_of::<LabelBytes>() }>().0;
            let label = &mut labels[(place - first) as usize];
            match self.mend_label(place, label) {
                Some(whole) => {
                    *label = whole;
                    self.mended_labels(group);
                }
                None => wrong = wrong.or(Some(place)),
            }
        }
        (out.into(), wrong)
    }

    /// The label of which one byte is wrong, if its place has the content that it then names.
    fn mend_label(&mut self, place: u64, label: &LabelBytes) -> Option<LabelBytes> {
        if !self.areas.is_pool(place) {
            return None;
        }
        let found = one_byte(label, |bytes| {
            let label: Option<&LabelBytes> = bytes.try_into().ok();
            label.is_some_and(|label| self.decode(place, label).is_some())
        })?;
        let whole: LabelBytes = found.as_slice().try_into().ok()?;
        let sum = self.decode(place, &whole)?.sum;
        self.data_holds(place, sum).then_some(whole)
    }

    /// Takes a damaged sector of the trim map over, if it follows from its checksum.
    pub(super) fn mend_trims(&mut self, number: u64, sector: &SectorBytes) {
        let (id, blocks) = (self.superblock.identity(), self.areas.blocks);
        let latest = self.greatest.saturating_add(STAMP_SLACK);
        let whole = one_byte(sector, |bytes| {
            let sector: Option<&SectorBytes> = bytes.try_into().ok();
            sector.is_some_and(|sector| {
                trims_are_whole(id, number, sector)
                    && trims_are_sound(number, sector, blocks, latest)
            })
        });
        match whole.and_then(|bytes| bytes.as_slice().try_into().ok()) {
            Some(sector) => {
                self.volume.trims.mend(number as usize, &sector);
                self.volume.mended.insert(TRIMS_START + number / BLOCK_SECTORS);
            }
            None => self.damaged_trims.push(number),
        }
    }

    /// Compares the table with the digest of the record, if the volume is as that says, and finds
    /// out from it what damaged metadata had said.
    ///
    /// # Errors
    /// If something is damaged that is not known.
    pub(super) fn prove(&mut self) -> Result<(), LayoutError> {
        if !self.knows_digest {
            return match self.damaged_trims.first() {
                Some(number) => damaged(format!("sector {number} of the trim map is unreadable")),
                None => Ok(()),
            };
        }
        let sectors = self.damaged_trims.clone();
        let proved = match sectors.is_empty() {
            true => {
                self.agrees(self.volume.table.digest())
                    || self.find_missing_labels()
                    || self.find_missing_tombs()
            }
            false => self.find_tombs(&sectors),
        };
        match (proved, sectors.first()) {
            (true, _) => {
                self.damaged_trims.clear();
                Ok(())
            }
            (false, Some(number)) => {
                damaged(format!("sector {number} of the trim map is unreadable"))
            }
            (false, None) => damaged("labels are missing, so some blocks cannot be found"),
        }
    }

    /// Finds the sector of the trim map that reads as zeros and had tombstones.
    fn find_missing_tombs(&mut self) -> bool {
        let written: BTreeSet<usize> = self.volume.trims.written().collect();
        let all = 0..self.areas.blocks.div_ceil(SECTOR_TOMBS as u64);
        let mut empty = all.filter(|&number| !written.contains(&(number as usize)));
        empty.any(|number| self.find_tombs(&[number]))
    }

    pub(super) fn agrees(&self, digest: (u64, u64)) -> bool {
        digest == (self.record.stored, self.record.digest)
    }

    /// Finds the blocks that some sectors of the trim map had tombstones for: those without which
    /// the digest is right.
    fn find_tombs(&mut self, sectors: &[u64]) -> bool {
        let per_sector = SECTOR_TOMBS as u64;
        let blocks = |sector: &u64| sector * per_sector..(sector + 1) * per_sector;
        let all = sectors.iter().flat_map(blocks).filter(|&at| at < self.areas.blocks);
        let stored = all.map(|at| (at, self.volume.table.get(at)));
        let doubtful: Vec<_> = stored.filter(|(_, entry)| entry.is_mapped()).collect();
        if doubtful.len() > MOST_DOUBTFUL {
            return false;
        }
        let (stored, digest) = self.volume.table.digest();
        let share =
            |&(at, entry): &(BlockNr, Entry)| Table::changed((1, 0), at, entry, Entry::UNMAPPED).1;
        let shares: Vec<u64> = doubtful.iter().map(share).collect();
        let Some(chosen) = subset(&shares, digest ^ self.record.digest) else { return false };
        if stored.checked_sub(u64::from(chosen.count_ones())) != Some(self.record.stored) {
            return false;
        }
        for &number in sectors {
            self.volume.trims.erase(number as usize);
            self.volume.mended.insert(TRIMS_START + number / BLOCK_SECTORS);
        }
        let stamp = self.record.durable;
        for (_, (at, _)) in
            doubtful.into_iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 1)
        {
            self.volume.table.replace(at, Entry::UNMAPPED);
            self.volume.trims.set(at, Tomb { stamp, before: stamp, index: 0, last: 0 });
        }
        true
    }

    /// Finds labels that read as zeros, by what the parity has of them, and by the digest.
    fn find_missing_labels(&mut self) -> bool {
        let Some(missing) = self.parity.take().filter(|parity| !parity.is_none()) else {
            return false;
        };
        self.areas.groups().any(|group| self.takes_missing_labels(group, &missing))
    }

    /// Takes missing labels over as labels of a group, if they make the digest right.
    fn takes_missing_labels(&mut self, group: u64, missing: &LabelParity) -> bool {
        let bytes = missing.label_block(self.superblock.identity(), group);
        let none = LabelBytes::default();
        let labels =
            (group * GROUP..).zip(label_bytes(&bytes)).filter(|(_, label)| **label != none);
        let mut newest: BTreeMap<BlockNr, (u64, Entry)> = BTreeMap::new();
        for (place, bytes) in labels.clone() {
            let area = self.volume.labels.as_ref();
            let is_missing = area.is_some_and(|area| area.get(place) == none);
            let label =
                self.decode(place, bytes).filter(|_| is_missing && self.areas.is_pool(place));
            let Some(Label { block, sum, stamp, .. }) = label else { return false };
            let known = self.newest.get(block as usize).copied();
            let one = newest
                .entry(u64::from(block))
                .or_insert((known.unwrap_or(u64::MAX), Entry::UNMAPPED));
            if stamp > one.0 {
                *one = (stamp, Entry::new(place as u32, sum));
            }
        }
        newest.retain(|_, (_, entry)| entry.is_mapped());
        let digest =
            newest.iter().fold(self.volume.table.digest(), |digest, (&at, &(_, entry))| {
                Table::changed(digest, at, self.volume.table.get(at), entry)
            });
        if !self.agrees(digest) {
            return false;
        }
        for (at, (_, entry)) in newest {
            self.volume.table.replace(at, entry);
        }
        if let Some(area) = &mut self.volume.labels {
            labels.for_each(|(place, label)| area.set(place, label));
        }
        self.mended_labels(group);
        true
    }
}

/// Which of some numbers have that exclusive or, as bits; `None` if none have, or several sets.
fn subset(numbers: &[u64], target: u64) -> Option<u64> {
    let mut basis: Vec<(u64, u64)> = Vec::new();
    let reduce = |basis: &[(u64, u64)], mut pair: (u64, u64)| {
        for &(number, set) in basis {
            if pair.0 ^ number < pair.0 {
                pair = (pair.0 ^ number, pair.1 ^ set);
            }
        }
        pair
    };
    for (index, &number) in numbers.iter().enumerate() {
        let pair = reduce(&basis, (number, 1 << index));
        if pair.0 == 0 {
            return None;
        }
        basis.push(pair);
        // The greatest first: each reduces the highest bit that it has.
        basis.sort_unstable_by(|a, b| b.cmp(a));
    }
    let (left, set) = reduce(&basis, (target, 0));
    (left == 0).then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::checksum::mix;

    #[test]
    fn the_one_set_that_adds_up_is_found() {
        let numbers: Vec<u64> = (1..=32).map(mix).collect();
        for chosen in [0, 1, 0x8000_0001, 0x1234_5678, 0xffff_ffff] {
            let own = |index: usize| if chosen >> index & 1 == 1 { numbers[index] } else { 0 };
            let target = (0..32).fold(0, |sum, index| sum ^ own(index));
            assert_eq!(subset(&numbers, target), Some(chosen));
            assert_eq!(subset(&numbers, target ^ mix(99)), None);
        }
        assert_eq!(subset(&[5, 6, 3], 0), None, "three that add up to nothing");
        assert_eq!(subset(&[], 0), Some(0));
    }
}
