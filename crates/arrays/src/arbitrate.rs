//! Which member is wrong where members disagree: the checksums of the layout above know.
//!
//! An array has no checksums. Where copies differ or parity does not fit, each member in turn is
//! taken for the one that is wrong, and the layout is mounted and checked as if that were so. What
//! is believed in the end is what the layout finds whole. Nothing is written here.

use super::VolumeError;
use super::geometry::{Geometry, Place};
use super::scrub::{CheckVolume, Row};
use seekless_engine::data::Data;
use seekless_engine::disk::{Disk, check_range};
use seekless_engine::io::IoError;
use seekless_engine::layout::LayoutError;
use seekless_engine::units::BlockNr;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What is believed of rows about which the members disagree.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Which candidate of each row.
    pub believed: BTreeMap<Row, usize>,
    /// Rows for which no candidate holds what the layout has stored there.
    pub left: BTreeSet<Row>,
}

/// How far a mount came: the youngest thing it found, then how little it dropped. A candidate
/// that hides what others show is worse than they are, though all it shows is whole.
type Reach = (u128, Reverse<u64>);

/// Finds out what to believe of `rows`.
///
/// # Errors
/// Where the layout can be mounted with none of the candidates.
pub(super) fn arbitrate(
    disks: &mut [&mut dyn Disk],
    geometry: Geometry,
    rows: &BTreeSet<Row>,
    check: CheckVolume,
) -> Result<Verdict, VolumeError> {
    debug_assert!(!rows.is_empty(), "there is nothing to decide");
    debug_assert_eq!(disks.len(), geometry.members, "all members are there to be compared");
    let candidates = candidates(&geometry);
    let mut bench = Bench { disks, geometry, believed: BTreeMap::new(), check };
    let mut best: Option<(Reach, usize, BTreeSet<Row>)> = None;
    let mut refusal = None;
    for candidate in 0..candidates {
        bench.believed = rows.iter().map(|&row| (row, candidate)).collect();
        match bench.check() {
            Ok((reach, damaged)) if best.as_ref().is_none_or(|(most, ..)| *most < reach) => {
                best = Some((reach, candidate, damaged));
            }
            Ok(_) => {}
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    let Some((reach, first, mut damaged)) = best else {
        let reason = refusal.map_or_else(String::new, |error| error.to_string());
        return Err(VolumeError::Undecided { reason });
    };
    bench.believed = rows.iter().map(|&row| (row, first)).collect();
    if damaged.is_empty() {
        return Ok(Verdict { believed: bench.believed, left: damaged });
    }
    // What is damaged with this candidate may be whole with another: rows are on their own.
    for candidate in (0..candidates).filter(|&one| one != first) {
        if damaged.is_empty() {
            break;
        }
        let before = bench.believed.clone();
        bench.believed.extend(damaged.iter().map(|&row| (row, candidate)));
        match bench.check() {
            Ok((found, still)) if found >= reach => {
                let back = still.iter().filter_map(|row| Some((*row, *before.get(row)?)));
                bench.believed.extend(back.collect::<Vec<_>>());
                damaged = still;
            }
            _ => bench.believed = before,
        }
    }
    // What was tried together is not what is believed together.
    let undecided = |error: LayoutError| VolumeError::Undecided { reason: error.to_string() };
    let (_, left) = bench.check().map_err(undecided)?;
    Ok(Verdict { believed: bench.believed, left })
}

/// How many things may be believed of a row: on RAID-1 any of the copies, on RAID-5 that the
/// parity is wrong, or any one of the members.
fn candidates(geometry: &Geometry) -> usize {
    geometry.members + usize::from(geometry.parity(0).is_some())
}

/// What each member should hold in a row if a candidate is believed, from what can be read of
/// it. Nothing if too little can be read.
pub(super) fn right(
    geometry: &Geometry,
    row: Row,
    candidate: usize,
    mut held: Vec<Option<Data>>,
) -> Option<Vec<Data>> {
    debug_assert_eq!(held.len(), geometry.members, "what each member holds");
    let mut missing = (0..held.len()).filter(|&member| held[member].is_none());
    let Some(parity) = geometry.parity(row.0) else {
        let copy = held.get(candidate).cloned().flatten();
        let copy = copy.or_else(|| held.iter().flatten().next().cloned())?;
        return Some(vec![copy; held.len()]);
    };
    let wrong = match (missing.next(), missing.next()) {
        (None, _) => candidate.checked_sub(1).unwrap_or(parity),
        (Some(member), None) => member,
        (Some(_), Some(_)) => return None,
    };
    held[wrong] = None;
    held[wrong] = held.iter().flatten().cloned().reduce(|sum, data| sum.xor(&data));
    held.into_iter().collect()
}

/// The array as it would be if candidates were believed; read only.
struct Bench<'a, 'd> {
    disks: &'a mut [&'d mut dyn Disk],
    geometry: Geometry,
    believed: BTreeMap<Row, usize>,
    check: CheckVolume,
}

impl Bench<'_, '_> {
    /// How far a mount comes, and which of the rows in question the layout finds damaged.
    fn check(&mut self) -> Result<(Reach, BTreeSet<Row>), LayoutError> {
        let (_, mount, found) = (self.check)(self)?;
        let row = |&at: &BlockNr| {
            let Place { stripe, row, .. } = self.geometry.place(at);
            (stripe, row)
        };
        let damaged = found.damaged.iter().map(row);
        let damaged = damaged.filter(|row| self.believed.contains_key(row)).collect();
        Ok(((found.youngest, Reverse(mount.commits_dropped)), damaged))
    }

    /// Reads blocks of one chunk.
    fn read_chunk(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        let Place { stripe, index, row } = self.geometry.place(at);
        let member = self.geometry.member(stripe, index);
        if self.believed.range((stripe, row)..(stripe, row + count)).next().is_none() {
            return self.disks[member].read(self.geometry.block(stripe, row), count);
        }
        let mut whole = Data::none();
        for row in row..row + count {
            let block = self.geometry.block(stripe, row);
            let Some(&candidate) = self.believed.get(&(stripe, row)) else {
                whole.append(self.disks[member].read(block, 1)?);
                continue;
            };
            let held = self.disks.iter_mut().map(|disk| disk.read(block, 1).ok()).collect();
            let right = right(&self.geometry, (stripe, row), candidate, held);
            let mut right = right.ok_or(IoError::Media { block: at })?;
            whole.append(right.swap_remove(member));
        }
        Ok(whole)
    }
}

impl Disk for Bench<'_, '_> {
    fn blocks(&self) -> u64 {
        self.geometry.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        check_range(self.geometry.blocks(), at, count)?;
        let mut whole = Data::none();
        let (mut at, end) = (at, at + u64::from(count));
        while at < end {
            let in_chunk = self.geometry.chunk - self.geometry.place(at).row;
            let count = u64::from(in_chunk).min(end - at);
            whole.append(self.read_chunk(at, count as u32)?);
            at += count;
        }
        Ok(whole)
    }

    fn write(&mut self, at: BlockNr, _data: Data) -> Result<(), IoError> {
        // A check mounts read-only; if it did write, the copies in question would be lost.
        Err(IoError::Media { block: at })
    }

    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        if at >= self.geometry.blocks() {
            return None;
        }
        // The first stripe of which some member holds something.
        let first = self.geometry.block(self.geometry.place(at).stripe, 0);
        let next = self.disks.iter_mut().filter_map(|disk| disk.next_data(first)).min()?;
        let next = self.geometry.stripe_of(next.max(first)).0;
        let from = at.max(next * self.geometry.stripe_blocks());
        (from < self.geometry.blocks()).then_some(from)
    }
}
