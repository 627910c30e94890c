//! Making and mounting a volume.

pub(crate) mod find;
pub mod repair;
pub mod salvage;
pub(crate) mod settle;

use super::commit::marker;
use super::format::{
    Entry, FIXED_BLOCKS, Header, POOL_START, Pointer, SLICE_ENTRIES, TAIL_BLOCK, Tail, entries,
};
use super::tree::SliceNr;
use super::{Vlog, slices};
use crate::eager::Mapped;
use crate::eager::freemap::FreeMap;
use find::{Form, Found, Recovered, Recovery, damaged, header};
use seekless_engine::checksum::Sums;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions, RecoverySteps};
use seekless_engine::superblock::Superblock;
use settle::Rebuilt;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Writes an empty volume.
pub(super) fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
    let device = disk.blocks();
    let superblock = Superblock {
        layout: options.layout,
        version: Superblock::version_for(Sums::NEWEST, 1),
        id: options.id,
        blocks: options.blocks,
        device_blocks: device,
        options: 0,
        sums: Sums::NEWEST,
    };
    let root = Pointer { place: 0, sequence: 0 };
    let tail = Tail { root, next_sequence: 1, commit: 0, digest: 0, live: 0 };
    disk.write(TAIL_BLOCK, Data::bytes(tail.encode(options.identity())))?;
    superblock.write(disk)?;
    disk.flush_for(Edge::VlogFormatFlush)?;
    Ok(())
}

/// The form of this layout: each entry is of a block of the volume.
const FORM: Form = Form {
    slices,
    pool_start: |_| POOL_START,
    written: |header, block| {
        let is_changed = |index: usize| header.changed[index / 64] & (1 << (index % 64)) != 0;
        let changed = entries(block).enumerate().filter(|(index, _)| is_changed(*index));
        changed.map(|(_, entry)| entry).collect()
    },
    named: |_, block, places| {
        places.extend(entries(block).map(Entry::place).filter(|&place| place != 0));
    },
};

/// Recovers the state of a volume.
pub(super) fn mount(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<Vlog, LayoutError> {
    let mut recovery = Recovery::new(disk, superblock, steps, &FORM);
    let (path, found) = recovery.find()?;
    let mut volume = Vlog::empty(superblock, options);
    recovery.load(&mut volume, &found)?;
    recovery.look_past_unreadable(&volume.free, options)?;
    if !options.read_only {
        recovery.settle(&mut volume, &found, path)?;
        volume.punching.look(recovery.disk, &volume.free);
    }
    if volume.compactor.knows_owners() {
        recovery.steps.begin("index block owners");
        volume.learn_owners();
    }
    Ok(volume)
}

impl Recovery<'_> {
    /// Fills map, free map and tree.
    fn load(&mut self, volume: &mut Vlog, found: &Recovered) -> Result<(), LayoutError> {
        self.steps.begin("load map");
        self.steps.count(found.live.len() as u64, "map blocks");
        let end = self.superblock.device_blocks - 1;
        volume.free.release_all(POOL_START as u32..end as u32);
        let mut slice_at = BTreeMap::new();
        for one in &found.live {
            let Header { slice, sequence, .. } = one.header;
            self.take(volume, one.place)?;
            volume.tree.restore(slice, Pointer { place: one.place, sequence });
            slice_at.insert(sequence, slice);
            self.load_entries(volume, one)?;
        }
        for one in &found.live {
            let children: SmallVec<[(SliceNr, u64); 4]> = one
                .header
                .pointers
                .iter()
                .filter_map(|pointer| Some((*slice_at.get(&pointer.sequence)?, pointer.sequence)))
                .collect();
            volume.tree.restore_children(one.header.slice, &children);
        }
        if let Some(root) = found.live.iter().max_by_key(|one| one.header.sequence) {
            volume.tree.restore_root(root.header.slice);
        }
        volume.next_sequence = found.next_sequence;
        volume.commits.restore(found.last, found.next_commit, found.last);
        volume.last_with_changes = found.last;
        Ok(())
    }

    fn load_entries(&mut self, volume: &mut Vlog, one: &Found) -> Result<(), LayoutError> {
        self.steps.read(1);
        let (own, slices, wanted) = (self.superblock, self.slices(), &one.header);
        let is_it = |_, block: &Piece| {
            let found = header(&own, slices, one.place, &block.to_bytes());
            found.is_some_and(|it| (it.slice, it.sequence) == (wanted.slice, wanted.sequence))
        };
        let data = self.disk.read_whole(u64::from(one.place), 1, &is_it);
        let Some(data) = data.ok().filter(|data| is_it(0, &data.block(0))) else {
            return damaged(format!("map block {} changed while it was read", one.place));
        };
        let first = one.header.slice as usize * SLICE_ENTRIES;
        let blocks = self.superblock.blocks as usize;
        let bytes = data.to_bytes();
        volume.map.load(one.header.slice, entries(&bytes));
        for (index, entry) in entries(&bytes).enumerate() {
            if !entry.is_mapped() {
                continue;
            }
            if first + index >= blocks {
                return damaged(format!("map block {} names a block past the end", one.place));
            }
            self.take(volume, entry.place())?;
        }
        Ok(())
    }

    fn take(&self, volume: &mut Vlog, place: u32) -> Result<(), LayoutError> {
        let end = self.superblock.device_blocks - 1;
        if !(POOL_START..end).contains(&u64::from(place)) {
            return damaged(format!("the map names block {place}, which is outside the pool"));
        }
        if !volume.free.is_free(u64::from(place)) {
            return damaged(format!("block {place} is named twice"));
        }
        volume.free.take(place);
        Ok(())
    }
}

impl Rebuilt for Vlog {
    fn free(&self) -> &FreeMap {
        &self.free
    }

    fn root(&self) -> Option<SliceNr> {
        self.tree.root()
    }

    fn write_marker(
        &mut self,
        disk: &mut dyn Disk,
        found: &Recovered,
        root: SliceNr,
        place: u32,
    ) -> Result<(), LayoutError> {
        self.free.take(place);
        let mut sequence = self.next_sequence;
        let mut appended = SmallVec::new();
        self.tree.append(root, &mut sequence, || place, &mut appended);
        assert_eq!(appended.len(), 1, "a root's pointers fit again");
        self.next_sequence = sequence;
        let (digest, pointers) = (self.tree.digest(), self.tree.pointers(root));
        let header =
            marker(root, appended[0].sequence, found.next_commit, found.last, digest, pointers);
        let block = self.map.block(self.id, place, header);
        disk.write(u64::from(place), Data::block_of(Body::Lazy(block)))?;
        self.free.release(appended[0].superseded);
        self.commits.restore(found.next_commit, found.next_commit + 1, found.next_commit);
        self.last_with_changes = found.next_commit;
        Ok(())
    }
}

const _: () = assert!(FIXED_BLOCKS == POOL_START + 1);

#[cfg(test)]
mod tests;
