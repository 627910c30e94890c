//! Reading a volume with damaged map blocks: what is certain, and of what the map is lost.
//!
//! A digest of all live map blocks is in the tail record, and in each commit. If one of them is
//! lost, the digest is off by its mark, and the mark by that of the version found in its place. So
//! for each slice one number is computed: the sequence number that a lost newer version must have.
//! A live map block is the root or named by a live one: the number must be among those that map
//! blocks point to in vain, or that of the root. The slice for which that is so has lost its map
//! block; all others are whole. If there is none, more than one is lost.
//!
//! Then what is certain follows from the order. A map block points to older ones only. So after a
//! clean shutdown no lost one is younger than the youngest to which a whole one points in vain, and
//! slices of which a younger one was found are whole. After a crash nothing is certain.

use super::find::{Found, Recovery, digest, expected_digest, newest};
use super::{FORM, Tail};
use crate::eager::Mapped;
use crate::salvage::{Finder, Located, Stored};
use crate::vlog::format::{Entry, Pointer, SLICE_ENTRIES, entries, live_mark};
use crate::vlog::map::Map;
use crate::vlog::slices;
use crate::vlog::tree::SliceNr;
use seekless_engine::disk::Disk;
use seekless_engine::layout::{LayoutError, RecoverySteps};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BlockNr;
use std::collections::{BTreeMap, BTreeSet};

/// A volume of which only what is certain is read. Nothing is ever written.
#[derive(Debug)]
pub struct Salvage {
    superblock: Superblock,
    map: Map,
    /// Slices whose newest map block is lost or may be.
    lost: BTreeSet<SliceNr>,
    /// Slices of which some version was found.
    found: BTreeSet<SliceNr>,
    damage: Vec<String>,
}

/// Finds out what is certain of a volume.
///
/// # Errors
/// If the power goes off. Blocks that cannot be read are lost, no error.
pub fn open(disk: &mut dyn Disk, superblock: &Superblock) -> Result<Salvage, LayoutError> {
    let steps = &mut RecoverySteps::new(None);
    let mut recovery = Recovery::new(disk, superblock, steps, &FORM);
    let tail = recovery.read_tail();
    let all = recovery.find_all()?;
    let survey = recovery.survey(&all, tail.as_ref());
    let count = slices(superblock.blocks) as SliceNr;
    let (map, found) = (Map::new(count), BTreeSet::new());
    let damage = Vec::new();
    let mut salvage =
        Salvage { superblock: *superblock, map, lost: BTreeSet::new(), found, damage };
    let mut named: BTreeSet<u32> = survey.live.iter().map(|one| one.place).collect();
    for one in &survey.live {
        // A block that has become unreadable since the scan counts as lost.
        let Some((_, block)) = recovery.read_map(one.place) else {
            salvage.lost.insert(one.header.slice);
            continue;
        };
        let block = block.to_bytes();
        named.extend(entries(&block).filter(|entry| entry.is_mapped()).map(Entry::place));
        salvage.map.load(one.header.slice, entries(&block));
        salvage.found.insert(one.header.slice);
    }
    recovery.unreadable.retain(|place| !named.contains(place));
    let whole = all.iter().map(|found| (found.place, found.header.sequence)).collect();
    match lost_slices(&survey, count, &recovery, &whole) {
        Some(lost) => salvage.lost.extend(lost),
        None => salvage.lost = (0..count).collect(),
    }
    salvage.damage = match salvage.lost.len() {
        0 => Vec::new(),
        lost if lost == count as usize && lost > 1 => {
            vec!["which map blocks are damaged is not certain".to_owned()]
        }
        _ => salvage.lost.iter().map(|slice| format!("map block {slice} is damaged")).collect(),
    };
    Ok(salvage)
}

/// What a scan found.
struct Survey {
    /// The newest version found of each slice.
    live: Vec<Found>,
    /// What their digest should be, if anything says so.
    expected: Option<u64>,
    /// The root, if a tail record names it.
    root: Option<Pointer>,
    /// Commits that do not hold: one of them may have held before a map block was lost.
    dropped: u64,
}

impl Recovery<'_> {
    fn survey(&mut self, all: &[Found], tail: Option<&Tail>) -> Survey {
        if let Some(tail) = tail {
            let old = |found: &&Found| found.header.sequence < tail.next_sequence;
            let live = newest(all.iter().filter(old));
            return Survey { live, expected: Some(tail.digest), root: Some(tail.root), dropped: 0 };
        }
        let durable = all.iter().map(|found| found.header.durable).max().unwrap_or(0);
        let recovered = self.judge(all, durable);
        Survey {
            expected: expected_digest(all, recovered.last, None),
            live: recovered.live,
            root: None,
            dropped: recovered.dropped,
        }
    }
}

/// The slices whose newest map block is none of those found; `None` if that is not certain. `whole`
/// has the places of all whole map blocks, with their sequence numbers.
fn lost_slices(
    survey: &Survey,
    count: SliceNr,
    recovery: &Recovery<'_>,
    whole: &BTreeMap<u32, u64>,
) -> Option<BTreeSet<SliceNr>> {
    let off = digest(&survey.live) ^ survey.expected?;
    let is_clean = survey.root.is_some();
    if off == 0 || planted(PlantedBug::DigestIgnored) {
        // Without a tail record the youngest commits may be where nothing can be read.
        return (is_clean || recovery.unreadable.is_empty()).then(BTreeSet::new);
    }
    let vain = vain_pointers(survey);
    let found: BTreeMap<SliceNr, u64> =
        survey.live.iter().map(|one| (one.header.slice, one.header.sequence)).collect();
    let mut lost = BTreeSet::new();
    let mut places = BTreeSet::new();
    for slice in 0..count {
        let older = found.get(&slice).copied();
        let mark = off ^ older.map_or(0, |sequence| live_mark(slice, sequence));
        let sequence = sequence_of(slice, mark);
        if let Some(&place) = vain.get(&sequence)
            && older.is_none_or(|older| older < sequence)
        {
            lost.insert(slice);
            places.insert(place);
        }
    }
    let mut damaged = recovery.torn.iter().chain(&recovery.unreadable);
    let is_all = survey.dropped == 0 && damaged.all(|place| places.contains(place));
    if lost.is_empty() && is_clean {
        return several_lost(&vain, &found, count, whole);
    }
    (!lost.is_empty() && (is_clean || is_all)).then_some(lost)
}

/// The slices of which more than one has lost its map block, after a clean shutdown: those of which
/// none was found that is younger than all that are lost.
fn several_lost(
    vain: &BTreeMap<u64, u32>,
    found: &BTreeMap<SliceNr, u64>,
    count: SliceNr,
    whole: &BTreeMap<u32, u64>,
) -> Option<BTreeSet<SliceNr>> {
    // What was in a place that has a younger map block was given up.
    let is_given_up = |sequence: &u64, place| whole.get(place).is_some_and(|own| own > sequence);
    let (&youngest, _) = vain.iter().rev().find(|(number, place)| !is_given_up(number, place))?;
    let is_older = |slice: &SliceNr| found.get(slice).is_none_or(|&own| own < youngest);
    Some((0..count).filter(is_older).collect())
}

/// The places to which live map blocks or the tail record point, by the sequence number that was
/// not found.
fn vain_pointers(survey: &Survey) -> BTreeMap<u64, u32> {
    let there: BTreeSet<u64> = survey.live.iter().map(|found| found.header.sequence).collect();
    let pointers = survey.live.iter().flat_map(|found| &found.header.pointers);
    let all = pointers.chain(&survey.root).map(|pointer| (pointer.sequence, pointer.place));
    all.filter(|(sequence, _)| !there.contains(sequence)).collect()
}

/// The sequence number with which a slice has this mark: the inverse of [`live_mark`].
fn sequence_of(slice: SliceNr, mark: u64) -> u64 {
    let x = mark ^ (mark >> 31) ^ (mark >> 62);
    let x = x.wrapping_mul(0x3196_42b2_d24d_8ec3);
    let x = x ^ (x >> 27) ^ (x >> 54);
    let x = x.wrapping_mul(0x96de_1b17_3f11_9089);
    let x = x ^ (x >> 30) ^ (x >> 60);
    x ^ (u64::from(slice) << 40) ^ 0x9e37_79b9_7f4a_7c15
}

impl Salvage {
    /// Size of the volume in blocks.
    pub fn blocks(&self) -> u64 {
        self.superblock.blocks
    }

    /// Map blocks that are lost or may be; each maps [`Salvage::blocks_per_map_block`] blocks.
    pub fn lost_map_blocks(&self) -> usize {
        self.lost.len()
    }

    /// Blocks of the volume that one map block maps.
    pub fn blocks_per_map_block() -> u64 {
        SLICE_ENTRIES as u64
    }

    fn mapped(&self, block: BlockNr) -> Located {
        let entry = self.map.get(block);
        if !entry.is_mapped() {
            return Located::Zeros;
        }
        let place = u64::from(entry.place());
        let (sum, escaped) = (Some(entry.checksum()), entry.escaped());
        Located::Stored(Stored { place, sum, escaped })
    }
}

impl Finder for Salvage {
    fn find(&self, block: BlockNr) -> Located {
        match self.lost.contains(&slice_of(block)) {
            true => Located::Lost,
            false => self.mapped(block),
        }
    }

    fn find_stale(&self, block: BlockNr) -> Located {
        let slice = slice_of(block);
        match self.lost.contains(&slice) && !self.found.contains(&slice) {
            true => Located::Lost,
            false => self.mapped(block),
        }
    }

    fn damage(&self) -> &[String] {
        &self.damage
    }
}

fn slice_of(block: BlockNr) -> SliceNr {
    (block / SLICE_ENTRIES as u64) as SliceNr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_their_sequence_number() {
        for slice in [0, 1, 77, 4_793_490] {
            for sequence in [1, 2, 448, 1 << 40, (1 << 62) - 1] {
                assert_eq!(sequence_of(slice, live_mark(slice, sequence)), sequence);
            }
        }
    }
}
