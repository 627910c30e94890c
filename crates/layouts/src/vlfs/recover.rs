//! Making and mounting a volume: as the virtual log does, then a walk from the map blocks down to
//! all blocks in use.

use super::format::{
    Entry, FIXED_BLOCKS, Header, POOL_START, TAIL_BLOCK, Tail, changed, decode_content, encode_map,
    written,
};
use super::walk::{Block, Visitor, Walk};
use super::{Vlfs, slices};
use crate::eager::Mapped as _;
use crate::eager::freemap::FreeMap;
use crate::vlog::format::{Pointer, decode_header};
use crate::vlog::recover::find::{Form, Recovered, Recovery, damaged};
use crate::vlog::recover::settle::Rebuilt;
use seekless_engine::checksum::Sums;
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions, RecoverySteps};
use seekless_engine::superblock::Superblock;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What its map blocks say.
const FORM: Form = Form {
    slices: |blocks| u64::from(slices(blocks)),
    written: |header, block| {
        let content = decode_content(block);
        content.map_or_else(Vec::new, |content| written(header, &content))
    },
    named: |recovery, block, places| {
        let Some(content) = decode_content(block) else { return };
        let (id, sums) = (recovery.superblock.identity(), recovery.superblock.sums);
        let slice = decode_slice(block);
        let visitor = Named(places);
        Walk { disk: &mut *recovery.disk, id, sums, visitor }.slice(slice, &content);
    },
};

/// The slice that a map block is of.
fn decode_slice(block: &[u8]) -> u32 {
    seekless_engine::superblock::le32(block, 64)
}

/// Collects places.
struct Named<'p>(&'p mut Vec<u32>);

impl Visitor for Named<'_> {
    fn meets(&mut self, _: Block, entry: Entry) -> bool {
        self.0.push(entry.place());
        true
    }

    /// Superseded, and written over meanwhile: it leads nowhere now.
    fn lacks(&mut self, _: Block, _: Entry, _: IoError) {}
}

/// Writes an empty volume.
pub(super) fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
    let superblock = Superblock {
        layout: options.layout,
        version: Superblock::version_for(Sums::NEWEST, 1),
        id: options.id,
        blocks: options.blocks,
        device_blocks: disk.blocks(),
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

/// Recovers the state of a volume.
pub(super) fn mount(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<Vlfs, LayoutError> {
    let mut recovery = Recovery::new(disk, superblock, steps, &FORM);
    let (path, found) = recovery.find()?;
    let mut volume = Vlfs::empty(superblock, options);
    load(&mut recovery, &mut volume, &found)?;
    match take_all(&mut recovery, &mut volume) {
        // What can be read is served; a check names the rest.
        Err(LayoutError::Damaged(_)) if options.read_only => {}
        other => other?,
    }
    recovery.look_past_unreadable(&volume.free, options)?;
    if !options.read_only {
        recovery.settle(&mut volume, &found, path)?;
        volume.punching.look(recovery.disk, &volume.free);
    }
    if let Some(compacting) = &mut volume.compacting {
        compacting.extend(volume.objects.slices().map(|(slice, _)| slice));
    }
    Ok(volume)
}

/// Fills objects, free map and tree.
fn load(
    recovery: &mut Recovery<'_>,
    volume: &mut Vlfs,
    found: &Recovered,
) -> Result<(), LayoutError> {
    recovery.steps.begin("load map");
    recovery.steps.count(found.live.len() as u64, "map blocks");
    let end = recovery.superblock.device_blocks - 1;
    volume.free.release_all(POOL_START as u32..end as u32);
    let mut slice_at = BTreeMap::new();
    for one in &found.live {
        let Header { slice, sequence, .. } = one.header;
        take(&mut volume.free, end, one.place)?;
        volume.tree.restore(slice, Pointer { place: one.place, sequence });
        slice_at.insert(sequence, slice);
        let (id, wanted) = (recovery.superblock.identity(), (slice, sequence));
        let is_it = |_, block: &Piece| {
            let header = decode_header(id, one.place, &block.to_bytes());
            header.is_some_and(|it| (it.slice, it.sequence) == wanted)
        };
        recovery.steps.read(1);
        let data = recovery.disk.read_whole(u64::from(one.place), 1, &is_it);
        let Some(data) = data.ok().filter(|data| is_it(0, &data.block(0))) else {
            return damaged(format!("map block {} changed while it was read", one.place));
        };
        let Some(mut content) = decode_content(&data.to_bytes()) else {
            return damaged(format!("map block {} says what makes no sense", one.place));
        };
        content.patches.settle();
        let own = volume.objects.slice_mut(slice);
        own.content = content;
        if own.content.patches.objects().any(|(_, changes)| !changes.cuts.is_empty()) {
            volume.cut.insert(slice);
        }
    }
    for one in &found.live {
        let known = |pointer: &Pointer| Some((*slice_at.get(&pointer.sequence)?, pointer.sequence));
        let children: SmallVec<[(u32, u64); 4]> =
            one.header.pointers.iter().filter_map(known).collect();
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

fn take(free: &mut FreeMap, end: u64, place: u32) -> Result<(), LayoutError> {
    if !(POOL_START..end).contains(&u64::from(place)) {
        return damaged(format!("the map names block {place}, which is outside the pool"));
    }
    if !free.is_free(u64::from(place)) {
        return damaged(format!("block {place} is named twice"));
    }
    free.take(place);
    Ok(())
}

/// Takes every block that an object has.
fn take_all(recovery: &mut Recovery<'_>, volume: &mut Vlfs) -> Result<(), LayoutError> {
    recovery.steps.begin("walk inodes");
    let end = recovery.superblock.device_blocks - 1;
    let visitor = Taken { free: &mut volume.free, end, blocks: 0, wrong: None };
    let (id, sums) = (recovery.superblock.identity(), recovery.superblock.sums);
    let mut walk = Walk { disk: &mut *recovery.disk, id, sums, visitor };
    for (slice, own) in volume.objects.slices() {
        walk.slice(slice, &own.content);
    }
    let Taken { blocks, wrong, .. } = walk.visitor;
    recovery.steps.count(blocks, "blocks in use");
    wrong.map_or(Ok(()), Err)
}

/// Takes blocks out of those that are free.
struct Taken<'f> {
    free: &'f mut FreeMap,
    end: u64,
    blocks: u64,
    wrong: Option<LayoutError>,
}

impl Visitor for Taken<'_> {
    fn meets(&mut self, _: Block, entry: Entry) -> bool {
        self.blocks += 1;
        match take(self.free, self.end, entry.place()) {
            Ok(()) => true,
            Err(error) => {
                self.wrong.get_or_insert(error);
                false
            }
        }
    }

    fn lacks(&mut self, block: Block, entry: Entry, error: IoError) {
        let what = match block {
            Block::Inodes(_) => "inodes".to_owned(),
            Block::Indirect(object) | Block::Content(object) => format!("object {object}"),
        };
        let place = entry.place();
        let error = format!("block {place}, which leads to the blocks of {what}: {error}");
        self.wrong.get_or_insert(LayoutError::Damaged(error));
    }
}

impl Rebuilt for Vlfs {
    fn free(&self) -> &FreeMap {
        &self.free
    }

    fn root(&self) -> Option<u32> {
        self.tree.root()
    }

    fn write_marker(
        &mut self,
        disk: &mut dyn Disk,
        found: &Recovered,
        root: u32,
        place: u32,
    ) -> Result<(), LayoutError> {
        self.free.take(place);
        let mut sequence = self.next_sequence;
        let mut appended = SmallVec::new();
        self.tree.append(root, &mut sequence, || place, &mut appended);
        assert_eq!(appended.len(), 1, "a root's pointers fit again");
        self.next_sequence = sequence;
        let header = Header {
            sequence: appended[0].sequence,
            commit: found.next_commit,
            previous: found.last,
            durable: found.last,
            digest: self.tree.digest(),
            slice: root,
            index: 0,
            members: 1,
            changed: changed(0, true),
            pointers: self.tree.pointers(root),
        };
        let content = &self.objects.slice_mut(root).content;
        let block = encode_map(self.id, place, &header, content);
        disk.write(u64::from(place), Data::bytes(block))?;
        self.free.release(appended[0].superseded);
        self.commits.restore(found.next_commit, found.next_commit + 1, found.next_commit);
        self.last_with_changes = found.next_commit;
        Ok(())
    }
}

const _: () = assert!(FIXED_BLOCKS == POOL_START + 1);
