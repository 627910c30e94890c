//! Rebuilding a damaged block of the map from the summaries of the log.
//!
//! What names a block of the map has its checksum. So a rebuilt one is proved: it is what was
//! written, or it is not taken. Each entry of it is the newest version that a summary names up to
//! the part with the block. That fails where a summary is gone that trimmed a block. Of a block
//! that can still be read, the entries that some summary confirms are kept.

use super::super::format::{Entry, MAP_ENTRIES, Mark};
use super::super::map::MetaBlock;
use super::Recovery;
use super::parts::{Parts, Version};
use seekless_engine::checksum::Sums;
use seekless_engine::data::Data;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use std::collections::BTreeMap;

impl Recovery<'_> {
    /// The entries of the damaged block of the map that `named` names, if they can be proved.
    pub(super) fn rebuild(
        &mut self,
        parts: &Parts,
        meta: MetaBlock,
        named: Entry,
    ) -> Option<Vec<Entry>> {
        let number = match meta {
            MetaBlock::Slice(number) | MetaBlock::Index(number) => u64::from(number),
        };
        let own = parts.part_of(meta, named.place()).unwrap_or(u64::MAX);
        let damaged = self.disk.read(BlockNr::from(named.place()), 1).ok().map(|data| {
            let bytes = data.block(0).to_bytes();
            bytes.chunks_exact(8).map(Entry::decode).collect::<Vec<_>>()
        });
        let first = number * MAP_ENTRIES as u64;
        // Whether the part of the block itself counts depends on the order of its items.
        for last_part in [own, own.saturating_sub(1)] {
            let versions = parts.versions(meta, first, MAP_ENTRIES as u64, last_part);
            let newest = newest(first, &versions);
            if is_proved(self.sums, named, &newest) {
                return Some(newest);
            }
            let Some(damaged) = &damaged else { continue };
            let corrected = correct(self.sums, named, damaged, first, &versions);
            if corrected.is_some() {
                return corrected;
            }
        }
        None
    }
}

/// The newest version of each entry.
fn newest(first: u64, versions: &BTreeMap<u64, Vec<Version>>) -> Vec<Entry> {
    let newest = |number| versions.get(&number).and_then(|all| all.last()).map(|one| one.entry);
    (first..first + MAP_ENTRIES as u64).map(|number| newest(number).unwrap_or_default()).collect()
}

/// The block with the entries that no summary confirms replaced.
fn correct(
    sums: Sums,
    named: Entry,
    damaged: &[Entry],
    first: u64,
    versions: &BTreeMap<u64, Vec<Version>>,
) -> Option<Vec<Entry>> {
    let confirmed = |number: u64, entry: Entry| {
        let same = |version: &Version| plain(version.entry) == plain(entry);
        !entry.is_mapped() || versions.get(&number).is_some_and(|all| all.iter().any(same))
    };
    let mut entries = damaged.to_vec();
    let wrong: Vec<usize> = (0..entries.len())
        .filter(|&index| !confirmed(first + index as u64, entries[index]))
        .collect();
    let newest = newest(first, versions);
    for &index in &wrong {
        entries[index] = newest[index];
    }
    if is_proved(sums, named, &entries) {
        return Some(entries);
    }
    // Of the one entry that is wrong an older version may have been meant, or a trim.
    let [index] = wrong[..] else { return None };
    let older = versions.get(&(first + index as u64)).into_iter().flatten();
    let tries = older.map(|version| version.entry).chain([Entry::UNMAPPED]);
    for entry in tries.flat_map(|entry| [Some(entry), unchecked(entry)]).flatten() {
        entries[index] = entry;
        if is_proved(sums, named, &entries) {
            return Some(entries);
        }
    }
    None
}

/// An entry without the mark that a checkpoint may have added.
fn plain(entry: Entry) -> Entry {
    if !entry.is_mapped() || entry.place() == 0 {
        return entry;
    }
    let mark = Mark { unchecked: false, ..entry.mark() };
    Entry::new(entry.place(), mark, entry.checksum())
}

fn unchecked(entry: Entry) -> Option<Entry> {
    let mark = Mark { unchecked: true, ..entry.mark() };
    entry.is_mapped().then(|| Entry::new(entry.place(), mark, entry.checksum()))
}

/// True if these entries are what was written.
fn is_proved(sums: Sums, named: Entry, entries: &[Entry]) -> bool {
    let mut bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.encode()).collect();
    bytes.resize(BLOCK_BYTES, 0);
    sums.of(&Data::bytes(bytes.into()).block(0)) == named.checksum()
}
