//! Checking a volume: every block that anything leads to is read and compared, and no other is
//! missing from those that are free.

use super::Vlfs;
use super::format::{Entry, FIXED_BLOCKS};
use super::walk::{Block, Visitor, Walk};
use crate::eager::Mapped as _;
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::layout::{CheckReport, LayoutError};
use std::fmt;

/// Collects what has to be compared, and what is wrong.
#[derive(Default)]
struct Compared {
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

impl Visitor for Compared {
    fn meets(&mut self, block: Block, entry: Entry) -> bool {
        self.blocks += 1;
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
    let visitor = Compared::default();
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
    let pool = volume.device_blocks - FIXED_BLOCKS;
    let known = blocks + u64::from(volume.tree.live()) + volume.free.free();
    if known != pool {
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
