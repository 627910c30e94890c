//! Summaries of groups: load them at mount, store them in headers, choose among them.

use crate::ffs::ondisk::format::SECTOR_BITS;
use crate::ffs::ondisk::geometry::Geometry;
use crate::ffs::ondisk::group::{Counters, GroupHeader, offset};
use crate::ffs::space::alloc::bits::{Bits, free_runs, ones};
use crate::ffs::volume::{Group, Volume};
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::Errno;
use seekless_fs::tx::{PageKind, SECTOR_CONTENT, Stop, Tx};

/// Notes that the blocks of the maps of a group will be wanted.
fn expect_maps(tx: &mut dyn Tx, geometry: &Geometry, group: u32) {
    let first = geometry.maps_of(group);
    for block in first..first + u64::from(geometry.map_blocks()) {
        tx.expect(block, PageKind::Bitmap);
    }
}

/// Reads the maps of a group and puts its summary into the volume. A mount does this for each
/// group, each in an operation of its own.
///
/// # Errors
/// Those of [`Tx::page`]; [`Errno::Io`] if the header is no header.
pub fn load(tx: &mut dyn Tx, vol: &mut Volume, group: u32) -> Result<(), Stop> {
    let geometry = &vol.geometry;
    expect_maps(tx, geometry, group);
    let place = geometry.header_of(group);
    let page = tx.page(place.block, PageKind::Bitmap)?;
    let header = GroupHeader::decode(&page[place.at..]).ok_or(Errno::Io)?;
    let inodes = geometry.sizes().inodes_per_group;
    let mut summary = Group {
        directories: header.counters.directories,
        block_rotor: header.block_rotor.min(geometry.group_fragments(group) - 1),
        fragment_rotor: header.fragment_rotor.min(geometry.group_fragments(group) - 1),
        inode_rotor: header.inode_rotor.min(header.initialised).min(inodes - 1),
        initialised: header.initialised.min(inodes),
        ..Group::default()
    };
    let bits = Bits::inodes(geometry, group);
    bits.scan(tx, 0, inodes, |_, word| {
        summary.free_inodes += word.count_zeros();
        None::<()>
    })?;
    let per_block = geometry.fragments_per_block();
    Bits::fragments(geometry, group).scan(tx, 0, u32::MAX, |_, word| {
        for block in 0..64 / per_block {
            let mask = (word >> (block * per_block)) as u8 & ones(per_block);
            summary.count_block(mask, per_block, true);
        }
        None::<()>
    })?;
    vol.set_group(group, summary);
    if tx.takes_groups() && header.counters != counters_of(&summary) {
        // The log has the maps, and counters are stored late.
        vol.is_behind(group);
    }
    Ok(())
}

fn counters_of(summary: &Group) -> Counters {
    Counters {
        directories: summary.directories,
        free_blocks: summary.free_blocks,
        free_fragments: summary.free_fragments,
        free_inodes: summary.free_inodes,
    }
}

/// The number of directories of a group has changed. It cannot be counted from the maps, so a log
/// has it with the operation.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn note_directories(tx: &mut dyn Tx, vol: &Volume, group: u32) -> Result<(), Stop> {
    if !tx.takes_groups() {
        return Ok(());
    }
    let place = vol.geometry.header_of(group);
    tx.page(place.block, PageKind::Bitmap)?;
    let directories = vol.group(group).directories.to_le_bytes();
    tx.set(place.block, place.at + offset::DIRECTORIES, &directories);
    Ok(())
}

/// The mark of a group, from its header alone: inodes of its table that are initialised.
///
/// # Errors
/// Those of [`Tx::part`]; [`Errno::Io`] if the header is no header.
pub fn mark(tx: &mut dyn Tx, vol: &Volume, group: u32) -> Result<u32, Stop> {
    let place = vol.geometry.header_of(group);
    let sector = tx.part(place.block, place.at, SECTOR_BYTES, PageKind::Bitmap)?;
    let header = GroupHeader::decode(sector).ok_or(Errno::Io)?;
    Ok(header.initialised.min(vol.geometry.sizes().inodes_per_group))
}

/// Writes the summary of a group into its header. The caller stores the groups that
/// [`Volume::stale_group`] names, each in an operation of its own, before a clean unmount.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn store(tx: &mut dyn Tx, vol: &mut Volume, group: u32) -> Result<(), Stop> {
    let place = vol.geometry.header_of(group);
    let summary = *vol.group(group);
    let header = GroupHeader {
        number: group,
        written: tx.now(),
        block_rotor: summary.block_rotor,
        fragment_rotor: summary.fragment_rotor,
        inode_rotor: summary.inode_rotor,
        counters: counters_of(&summary),
        initialised: summary.initialised,
    };
    let mut content = [0; SECTOR_CONTENT];
    header.encode(&mut content);
    tx.page(place.block, PageKind::Bitmap)?;
    tx.set(place.block, place.at, &content);
    vol.stored(group);
    Ok(())
}

impl Group {
    /// Counts a block with these bits in, or out.
    pub fn count_block(&mut self, mask: u8, fragments_per_block: u32, counts_in: bool) {
        let change = |counter: &mut u32, by: u32| {
            *counter = if counts_in { *counter + by } else { *counter - by };
        };
        if mask == 0 {
            change(&mut self.free_blocks, 1);
            return;
        }
        free_runs(mask, fragments_per_block, |_, length| {
            change(&mut self.free_fragments, length);
            change(&mut self.runs[length as usize], 1);
        });
    }
}

/// All groups, in the order in which an allocation tries them: the wanted one, then in steps that
/// double, then one by one.
pub fn order(wanted: u32, groups: u32) -> impl Iterator<Item = u32> {
    let mut step = 1;
    let mut at = wanted;
    let jumps = std::iter::from_fn(move || {
        if step >= groups {
            return None;
        }
        at = (at + step) % groups;
        step *= 2;
        Some(at)
    });
    let rest = (1..groups).map(move |n| (wanted + n) % groups);
    std::iter::once(wanted).chain(jumps).chain(rest)
}

/// The group for a new directory: at least the average of free inodes, then the fewest
/// directories. Groups after `near` come first among equals.
pub fn for_directory(vol: &Volume, near: u32) -> u32 {
    let groups = vol.groups();
    let count = groups.len() as u32;
    let free: u64 = groups.iter().map(|g| u64::from(g.free_inodes)).sum();
    let average = (free / u64::from(count)).max(1);
    (0..count)
        .map(|n| (near + n) % count)
        .filter(|&g| u64::from(vol.group(g).free_inodes) >= average)
        .filter(|&g| vol.group(g).free_blocks > 0)
        .min_by_key(|&g| vol.group(g).directories)
        .unwrap_or(near)
}

/// The group for the next section of a file: from `after` on, the first with at least the average
/// of free blocks.
pub fn for_section(vol: &Volume, after: u32) -> u32 {
    let groups = vol.groups();
    let count = groups.len() as u32;
    let free: u64 = groups.iter().map(|g| u64::from(g.free_blocks)).sum();
    let average = free / u64::from(count);
    (0..count)
        .map(|n| (after + n) % count)
        .find(|&g| u64::from(vol.group(g).free_blocks) >= average)
        .unwrap_or(after)
}

/// Bits of a sector hold whole bytes and whole blocks, so no block crosses a sector.
const _: () = assert!(SECTOR_BITS.is_multiple_of(8));

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_group_is_tried() {
        for groups in [1, 2, 3, 7, 16] {
            for wanted in 0..groups {
                let seen: BTreeSet<u32> = order(wanted, groups).collect();
                assert_eq!(seen.len() as u32, groups, "from {wanted} of {groups}");
                assert_eq!(order(wanted, groups).next(), Some(wanted));
            }
        }
    }
}
