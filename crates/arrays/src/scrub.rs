//! Scrubbing: reads everything on all members and compares it; on request, repairs it.

use super::arbitrate::{arbitrate, right};
use super::geometry::Geometry;
use super::member::{MemberState, MemberSuperblock};
use super::{Level, VolumeError};
use seekless_engine::data::{Data, cancel};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::layout::{CheckReport, LayoutError, MountReport};
use seekless_engine::superblock::Superblock;
use std::collections::BTreeSet;

/// Blocks of each member that are read at a time (1 MiB).
const STEP_BLOCKS: u64 = 256;

/// A row of blocks, one of each member, that hold copies of each other or data and its parity:
/// stripe, and row in it.
pub(super) type Row = (u64, u32);

/// Mounts what an array holds without writing and checks it: the layout above, which the array
/// does not know, says what is whole.
pub type CheckVolume =
    fn(&mut dyn Disk) -> Result<(Superblock, MountReport, CheckReport), LayoutError>;

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Stripes read.
    pub stripes: u64,
    /// Stripes in which copies differ or parity does not fit.
    pub mismatched: Vec<u64>,
    /// Runs of blocks that could not be read: member and first block.
    pub unreadable: Vec<(usize, u64)>,
    /// Stripes repaired on a member, each counted once for each member.
    pub repaired: u64,
    /// Stripes left as they are, wholly or in part: whichever member is believed, they do not hold
    /// what the layout has stored there.
    pub left: Vec<u64>,
}

/// Reads all stripes of an array whose members are all there, in their places. With `repair`,
/// what the members should hold is what the layout on the array finds whole by its checksums;
/// where it has none, parity is computed from the data and copies are taken from the first
/// member, unless the layout cannot be mounted, or finds less, if these are believed. Blocks that
/// cannot be read are computed from the others. Nothing is written before all of that is known.
/// `progress` hears how many stripes are done.
///
/// # Errors
/// A level without redundancy, members that are not active, members of which none can be believed
/// (nothing is written then), and what the media report about writes.
pub fn scrub(
    disks: &mut [&mut dyn Disk],
    superblock: &MemberSuperblock,
    repair: Option<CheckVolume>,
    progress: &mut dyn FnMut(u64),
) -> Result<Scrubbed, VolumeError> {
    let geometry = superblock.geometry;
    if geometry.level == Level::Raid0 {
        return Err(VolumeError::BadShape("RAID-0 has nothing to compare".into()));
    }
    let out: Vec<usize> = (0..geometry.members)
        .filter(|&member| superblock.states[member] != MemberState::Active)
        .collect();
    if !out.is_empty() {
        let (missing, who) = (out.len(), super::assemble::names(&out));
        return Err(VolumeError::Degraded { missing, members: geometry.members, who });
    }
    debug_assert_eq!(disks.len(), geometry.members, "a scrub has all members in their places");
    let mut found = Scrubbed::default();
    let mut suspects = BTreeSet::new();
    let each = (STEP_BLOCKS / u64::from(geometry.chunk)).max(1);
    let mut first = 0;
    while first < geometry.stripes {
        // Where no member holds anything there is nothing to compare.
        let from = geometry.block(first, 0);
        let next = disks.iter_mut().filter_map(|disk| disk.next_data(from)).min();
        let Some(next) = next.map(|block| geometry.stripe_of(block.max(from)).0) else { break };
        first = first.max(next);
        let end = (first + each).min(geometry.stripes);
        for stripe in first..end {
            compare(disks, &geometry, stripe, &mut suspects, &mut found);
        }
        first = end;
        progress(first);
    }
    if let Some(check) = repair.filter(|_| !suspects.is_empty()) {
        heal(disks, &geometry, &suspects, check, &mut found)?;
    }
    Ok(found)
}

/// Reads a stripe on all members, and notes rows in which they disagree or cannot all be read.
fn compare(
    disks: &mut [&mut dyn Disk],
    geometry: &Geometry,
    stripe: u64,
    suspects: &mut BTreeSet<Row>,
    found: &mut Scrubbed,
) {
    let at = geometry.block(stripe, 0);
    let mut chunks: Vec<Option<Data>> = Vec::with_capacity(disks.len());
    for (member, disk) in disks.iter_mut().enumerate() {
        let data = disk.read(at, geometry.chunk).ok();
        if data.is_none() {
            found.unreadable.push((member, at));
        }
        chunks.push(data);
    }
    found.stripes += 1;
    let whole: Option<Vec<Data>> = chunks.into_iter().collect();
    let Some(chunks) = whole else {
        suspects.extend((0..geometry.chunk).map(|row| (stripe, row)));
        return;
    };
    if agree(geometry, &chunks) {
        return;
    }
    found.mismatched.push(stripe);
    for row in 0..geometry.chunk {
        let blocks: Vec<Data> = chunks.iter().map(|data| data.slice(row, 1)).collect();
        if !agree(geometry, &blocks) {
            suspects.insert((stripe, row));
        }
    }
}

/// True if copies are the same, or parity fits.
fn agree(geometry: &Geometry, held: &[Data]) -> bool {
    match geometry.level {
        Level::Raid5 => cancel(&held.iter().collect::<Vec<_>>()),
        _ => held.iter().all(|data| same(data, &held[0])),
    }
}

fn same(one: &Data, other: &Data) -> bool {
    one == other || one.to_bytes() == other.to_bytes()
}

/// Lets the layout arbitrate, and writes what should be there.
fn heal(
    disks: &mut [&mut dyn Disk],
    geometry: &Geometry,
    suspects: &BTreeSet<Row>,
    check: CheckVolume,
    found: &mut Scrubbed,
) -> Result<(), VolumeError> {
    let verdict = arbitrate(disks, *geometry, suspects, check)?;
    let mut repaired = BTreeSet::new();
    let mut left = BTreeSet::new();
    for (&row, &candidate) in &verdict.believed {
        let at = geometry.block(row.0, row.1);
        let held: Vec<_> = disks.iter_mut().map(|disk| disk.read(at, 1).ok()).collect();
        let right = right(geometry, row, candidate, held.clone());
        let right = right.filter(|_| !verdict.left.contains(&row));
        let Some(right) = right else {
            left.insert(row.0);
            continue;
        };
        for (member, data) in right.into_iter().enumerate() {
            if held[member].as_ref().is_some_and(|held| same(held, &data)) {
                continue;
            }
            let written = disks[member].write(at, data);
            written.map_err(|error| VolumeError::Io { member, error })?;
            repaired.insert((row.0, member));
        }
    }
    for (member, disk) in disks.iter_mut().enumerate() {
        disk.flush_for(Edge::ScrubFlush).map_err(|error| VolumeError::Io { member, error })?;
    }
    found.repaired = repaired.len() as u64;
    found.left = left.into_iter().collect();
    Ok(())
}
