//! Volumes with more addresses than they can store blocks: the extended address space of section
//! 8.4.1 of the paper. Clients lay out their structures in it as they like; a trim, or zeros, frees
//! what they need no longer (zeros that are to keep their room, as NBD's NO_HOLE asks for, are
//! stored like anything else), and the report of how much is stored is in the counters.
//!
//! The price is the trim map, which has a tombstone for each address: half a per cent of the
//! address space, so there are at most [`MOST_SPREAD`] addresses for each block of the device. The
//! table in memory takes no room where nothing is stored. A write that would store more than the
//! volume can hold is refused and changes nothing; overwriting what is stored always finds room.

use super::format::{Areas, FIXED_BLOCKS, GROUP, MAX_DEVICE_BLOCKS, TRIM_SLICE};
use super::{Loge, least_slack, recover};
use crate::eager::Mapped;
use seekless_engine::io::IoError;
use seekless_engine::layer::Cx;
use seekless_engine::layout::{Layout, LayoutError};
use seekless_engine::request_table::Work;
use seekless_engine::superblock::Superblock;

/// Most addresses for each block of a device: the trim map takes less than a sixth of it.
const MOST_SPREAD: u64 = 32;

/// True if a volume has more addresses than it can store blocks.
pub(crate) fn is_sparse(superblock: &Superblock) -> bool {
    superblock.options & recover::SPARSE != 0
}

/// Most addresses of a sparse volume: so many that its trim map leaves room for a block.
pub(crate) fn most_addresses(superblock: &Superblock) -> u64 {
    let Superblock { blocks, device_blocks: device, .. } = *superblock;
    let fits = device <= MAX_DEVICE_BLOCKS && has_room(device, 1, blocks);
    if fits { most_spread(device) } else { 0 }
}

fn most_spread(device: u64) -> u64 {
    (device * MOST_SPREAD).min(MAX_DEVICE_BLOCKS)
}

fn has_room(device: u64, capacity: u64, addresses: u64) -> bool {
    let areas = Areas { blocks: addresses, device_blocks: device, headers: false };
    device > FIXED_BLOCKS && areas.pool() >= capacity + least_slack(capacity)
}

/// Device blocks that a volume needs that can store `capacity` blocks under `addresses` addresses:
/// as without more addresses, and the rest of the trim map.
pub fn sparse_device_blocks(capacity: u64, addresses: u64) -> u64 {
    let trims = addresses.max(capacity).div_ceil(TRIM_SLICE);
    let used = capacity + (capacity / 8).max(1024) + trims + FIXED_BLOCKS;
    used + used / (GROUP - 1) + 2
}

/// Refuses addresses that a volume cannot have.
pub(crate) fn check_sparse(device: u64, capacity: u64, addresses: u64) -> Result<(), LayoutError> {
    let bad = |reason: String| Err(LayoutError::BadSize(reason));
    if capacity == 0 || addresses < capacity {
        return bad("a volume has at least as many addresses as blocks, and one block".into());
    }
    if device > Loge::MOST_DEVICE_BLOCKS || addresses > most_spread(device) {
        return bad(format!(
            "a sparse volume has at most {MOST_SPREAD} addresses for each block of its device, and \
             8 TiB of them"
        ));
    }
    if !has_room(device, capacity, addresses) {
        let needed = sparse_device_blocks(capacity, addresses);
        return Err(LayoutError::TooSmall { device, needed });
    }
    Ok(())
}

/// Blocks that a volume can store: all of its addresses, or as many as its device was sized for.
pub(super) fn capacity(superblock: &Superblock, areas: &Areas) -> u64 {
    if !is_sparse(superblock) {
        return areas.blocks;
    }
    let device = areas.device_blocks;
    let sized = |capacity: u64| sparse_device_blocks(capacity, areas.blocks) <= device;
    let fits = |capacity: u64| areas.pool() >= capacity + least_slack(capacity);
    let sized_for = crate::sizes::largest(device, sized);
    // A device that was only just large enough has less slack.
    if sized_for > 0 { sized_for } else { crate::sizes::largest(device, fits) }
}

impl Loge {
    /// Blocks that a recovery may find stored at most: a trim may be lost, and what was written
    /// after it not.
    fn perhaps_stored(&self) -> u64 {
        self.stored + self.commits.waiting()
    }

    /// Blocks that what waits next would store for the first time; at least that where there is
    /// room for more.
    fn newly_stored(&self) -> u64 {
        let hole = |at: u64| !self.table.get(at).is_mapped();
        let count = match self.requests.front() {
            Some(Work::Write { data, .. })
                if self.perhaps_stored() + u64::from(data.blocks()) <= self.capacity =>
            {
                data.blocks() as usize
            }
            Some(Work::Write { at, data, keep, .. }) => {
                let stores = |index: u32| self.stored_piece(data, index, *keep).is_some();
                let blocks = (*at..).zip(0..data.blocks());
                blocks.filter(|&(at, index)| hole(at) && stores(index)).count()
            }
            Some(Work::Group { all, .. }) => {
                all.changes().filter(|&(at, piece)| piece.is_some() && hole(at)).count()
            }
            _ => 0,
        };
        count as u64
    }

    /// Refuses what waits next as long as it would store more than the volume can hold, or is part
    /// of a request that was refused. What is on its way is awaited first: it may overwrite the
    /// same blocks, or free some.
    pub(super) fn refuse_what_exceeds(&mut self, cx: &mut Cx<'_>) {
        while let Some(&(Work::Write { request, .. } | Work::Group { request, .. })) =
            self.requests.front()
        {
            let settled = self.writes.is_empty() && self.commits.waiting() == 0;
            let full = self.is_sparse() && settled && self.next_exceeds(0);
            if !full && !self.requests.has_failed(request) {
                return;
            }
            self.requests.pop();
            self.requests.fail(request, IoError::NoSpace);
            self.requests.part_done(request, cx);
        }
    }

    pub(super) fn is_sparse(&self) -> bool {
        self.capacity < self.areas.blocks
    }

    fn next_exceeds(&self, flying: u64) -> bool {
        let new = self.newly_stored();
        new > 0 && self.perhaps_stored() + flying + new > self.capacity
    }

    /// True if what waits next has to wait for what is on its way, which may fill the volume.
    pub(super) fn next_may_exceed(&self) -> bool {
        self.is_sparse() && !self.writes.is_empty() && {
            let flying: usize = self.writes.iter().map(|one| one.blocks()).sum();
            self.next_exceeds(flying as u64)
        }
    }

    /// True if what waits next has to wait until what was freed is free for good.
    pub(super) fn next_needs_flush(&self) -> bool {
        self.is_sparse() && self.commits.waiting() > 0 && self.next_exceeds(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Kind;
    use seekless_engine::checksum::Sums;

    #[test]
    fn a_device_is_sized_for_the_capacity_that_was_asked_for() {
        for (capacity, addresses) in [(100, 5000), (262_144, 2_621_440), (262_144, 262_144)] {
            let device_blocks = sparse_device_blocks(capacity, addresses);
            check_sparse(device_blocks, capacity, addresses).expect("it fits");
            let superblock = Superblock {
                layout: Kind::LOGE.into(),
                version: 5,
                id: 1,
                blocks: addresses,
                device_blocks,
                options: recover::SPARSE,
                sums: Sums::NEWEST,
            };
            let areas = Areas { blocks: addresses, device_blocks, headers: false };
            let found = super::capacity(&superblock, &areas);
            assert!((capacity..capacity + 8).contains(&found), "{found} for {capacity}");
            assert!(addresses <= most_addresses(&superblock));
        }
        assert!(check_sparse(5000, 100, 99).is_err());
        assert!(check_sparse(5000, 100, 5000 * 40).is_err());
        assert!(check_sparse(5000, 4990, 5000).is_err());
    }
}
