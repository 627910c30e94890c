//! Scrubbing: reads everything on all members and compares it; on request, repairs it.

use super::geometry::Geometry;
use super::member::{MemberSuperblock, Standing};
use super::{Level, VolumeError};
use crate::data::{Data, cancel};
use crate::disk::Disk;

/// Blocks of each member that are read at a time (1 MiB).
const STEP_BLOCKS: u64 = 256;

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Stripes read.
    pub stripes: u64,
    /// Stripes in which copies differ or parity does not fit.
    pub mismatched: Vec<u64>,
    /// Runs of blocks that could not be read: member and first block.
    pub unreadable: Vec<(usize, u64)>,
    /// Stripes and runs repaired.
    pub repaired: u64,
}

/// Reads all stripes of an array whose members are all there, in their places. With `repair`,
/// parity is computed anew from the data, copies are taken from the first member, and blocks that
/// cannot be read are computed from the others. `progress` hears how many stripes are done.
///
/// # Errors
/// A level without redundancy, members that are not active, and what the media report about
/// writes.
pub fn scrub(
    disks: &mut [&mut dyn Disk],
    superblock: &MemberSuperblock,
    repair: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Scrubbed, VolumeError> {
    let geometry = superblock.geometry;
    if geometry.level == Level::Raid0 {
        return Err(VolumeError::BadShape("RAID-0 has nothing to compare".into()));
    }
    let out: Vec<usize> = (0..geometry.members)
        .filter(|&member| superblock.standings[member] != Standing::Active)
        .collect();
    if !out.is_empty() {
        let (missing, who) = (out.len(), super::assemble::names(&out));
        return Err(VolumeError::Degraded { missing, members: geometry.members, who });
    }
    let mut found = Scrubbed::default();
    let each = (STEP_BLOCKS / u64::from(geometry.chunk)).max(1);
    let mut first = 0;
    while first < geometry.stripes {
        // Where no member holds anything there is nothing to compare.
        let from = geometry.block(first, 0);
        let next = disks.iter_mut().filter_map(|disk| disk.next_data(from)).min();
        let Some(next) = next.map(|block| geometry.stripe_of(block.max(from)).0) else { break };
        first = first.max(next);
        let end = (first + each).min(geometry.stripes);
        step(disks, &geometry, first..end, repair, &mut found)?;
        first = end;
        progress(first);
    }
    if repair {
        for (member, disk) in disks.iter_mut().enumerate() {
            disk.flush().map_err(|error| VolumeError::Io { member, error })?;
        }
    }
    Ok(found)
}

fn step(
    disks: &mut [&mut dyn Disk],
    geometry: &Geometry,
    stripes: std::ops::Range<u64>,
    repair: bool,
    found: &mut Scrubbed,
) -> Result<(), VolumeError> {
    let chunk = geometry.chunk;
    for stripe in stripes {
        let at = geometry.block(stripe, 0);
        let mut chunks: Vec<Option<Data>> = Vec::with_capacity(disks.len());
        for (member, disk) in disks.iter_mut().enumerate() {
            let data = disk.read(at, chunk).ok();
            if data.is_none() {
                found.unreadable.push((member, at));
            }
            chunks.push(data);
        }
        found.stripes += 1;
        let wrong = match geometry.level {
            Level::Raid5 => right_parity(&chunks, geometry, stripe),
            _ => right_copies(&chunks),
        };
        if chunks.iter().all(Option::is_some) && !wrong.is_empty() {
            found.mismatched.push(stripe);
        }
        for (member, data) in wrong.into_iter().filter(|_| repair) {
            found.repaired += 1;
            let written = disks[member].write(at, data);
            written.map_err(|error| VolumeError::Io { member, error })?;
        }
    }
    Ok(())
}

/// Members whose chunk is not what it should be, and what it should be.
fn right_parity(chunks: &[Option<Data>], geometry: &Geometry, stripe: u64) -> Vec<(usize, Data)> {
    let present: Vec<&Data> = chunks.iter().flatten().collect();
    if present.len() == chunks.len() && cancel(&present) {
        return Vec::new();
    }
    let missing: Vec<usize> =
        (0..chunks.len()).filter(|&member| chunks[member].is_none()).collect();
    let Some(sum) = present.into_iter().cloned().reduce(|sum, data| sum.xor(&data)) else {
        return Vec::new();
    };
    let parity = geometry.parity(stripe).expect("RAID-5 has parity");
    match (missing.as_slice(), &chunks[parity]) {
        ([], Some(old)) => vec![(parity, sum.xor(old))],
        ([member], _) => vec![(*member, sum)],
        _ => Vec::new(),
    }
}

fn right_copies(chunks: &[Option<Data>]) -> Vec<(usize, Data)> {
    let Some(right) = chunks.iter().flatten().next() else { return Vec::new() };
    let differs = |data: &Option<Data>| {
        data.as_ref().is_none_or(|data| data != right && data.to_bytes() != right.to_bytes())
    };
    let wrong = (0..chunks.len()).filter(|&member| differs(&chunks[member]));
    wrong.map(|member| (member, right.clone())).collect()
}
