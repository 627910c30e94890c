//! Checking a volume: every block that anything leads to is read and compared, and no other is
//! missing from those that are free.

use super::Vlfs;
use super::format::Entry;
use super::walk::{Block, Visitor, Walk};
use crate::bits::Bits;
use crate::eager::Mapped as _;
use crate::eager::freemap::FreeMap;
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::layout::{CheckReport, LayoutError};
use std::fmt;

/// Collects what has to be compared, and what is wrong.
struct Compared<'v> {
    free: &'v FreeMap,
    unseen: Bits,
    blocks: u64,
    content: Vec<(Block, Entry)>,
    problems: Vec<String>,
}

fn name(block: Block) -> String {
    match block {
        Block::Inodes(index) => format!("inode block {index}"),
        Block::Indirect(object) => format!("an indirect block of object {object}"),
        Block::Content(object) => format!("a block of object {object}"),
    }
}

impl Visitor for Compared<'_> {
    fn meets(&mut self, block: Block, entry: Entry) -> bool {
        self.blocks += 1;
        let place = entry.place();
        if self.free.is_free(place.into()) {
            self.problems.push(format!("{} at {place} counts as free", name(block)));
        }
        if !self.unseen.remove(place) {
            self.problems.push(format!("{} at {place} is something else as well", name(block)));
            return false;
        }
        if let Block::Content(_) = block {
            self.content.push((block, entry));
        }
        true
    }

    fn lacks(&mut self, block: Block, entry: Entry, error: IoError) {
        self.problems.push(format!("{} at {}: {error}", name(block), entry.place()));
    }
}

/// See [`seekless_engine::layout::Layout::check`].
pub(super) fn check(volume: &Vlfs, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
    let mut unseen = Bits::none(volume.device_blocks as u32);
    volume.pool().for_each(|at| unseen.insert(at as u32));
    (0..volume.tree.slices()).for_each(|slice| _ = unseen.remove(volume.tree.node(slice).place));
    let (blocks, content, problems) = (0, Vec::new(), Vec::new());
    let visitor = Compared { free: &volume.free, unseen, blocks, content, problems };
    let mut walk = Walk { disk, id: volume.id, sums: volume.sums, visitor };
    for (slice, own) in volume.objects.slices() {
        walk.slice(slice, &own.content);
    }
    for (block, entry) in std::mem::take(&mut walk.visitor.content) {
        match walk.read(entry) {
            Ok(_) => {}
            Err(IoError::PowerOff) => return Err(IoError::PowerOff.into()),
            Err(error) => walk.visitor.lacks(block, entry, error),
        }
    }
    let Compared { blocks, mut problems, .. } = walk.visitor;
    let pool = volume.pool();
    let kept = volume.checkpoints.kept().len() as u64;
    let known = blocks + u64::from(volume.tree.live()) + kept + volume.free.free();
    // A mount that has begun at a checkpoint may not know of all that is free.
    if known > pool.end - pool.start || known < pool.end - pool.start && !volume.reclaim.is_wanted()
    {
        let pool = pool.end - pool.start;
        problems.push(format!("{known} blocks are in use or free, the pool has {pool}"));
    }
    Ok(CheckReport { problems, ..CheckReport::default() })
}

/// See [`seekless_engine::layout::Layout::dump`].
pub(super) fn dump(
    volume: &Vlfs,
    _disk: &mut dyn Disk,
    out: &mut dyn fmt::Write,
) -> Result<(), LayoutError> {
    for (slice, own) in volume.objects.slices() {
        let node = volume.tree.node(slice);
        let patches = &own.content.patches;
        let _ = writeln!(
            out,
            "slice {slice}: map block {} (sequence {}), {} bytes of patches",
            node.place,
            node.sequence,
            patches.encoded_bytes()
        );
        for (index, entry) in own.content.groups.iter().enumerate().filter(|(_, e)| e.is_mapped()) {
            let _ = writeln!(out, "  inode block {index}: {entry:?}");
        }
        for (member, changes) in patches.objects() {
            let (cuts, placed) = (changes.cuts.len(), changes.placed.len());
            let edits: usize = changes.edits.values().map(Vec::len).sum();
            let _ = writeln!(out, "  member {member}: {cuts} cuts, {placed} blocks, {edits} edits");
        }
    }
    Ok(())
}
