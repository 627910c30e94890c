//! Structures of which a volume has more than one copy, or which follow from others (`SPEC.md`).
//!
//! Damage of one of them excuses nothing: the volume mounts, and every block reads right.

use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::{Disk as _, MediumDisk};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BlockNr;
use seekless_layouts::Kind;

/// Blocks from one label block of `loge` to the next.
const LABEL_GROUP: BlockNr = 128;
/// The record of a clean shutdown of `vlog`: without it a mount scans for map blocks.
const TAIL: BlockNr = 1;
/// The records of checkpoints of a log-structured volume of this size, two of two copies each.
const CHECKPOINTS: std::ops::RangeInclusive<BlockNr> = 1..=4;

/// True if a volume on a device of its own makes up for the loss of a block by itself. Some
/// structures follow from others only `at_rest`, after a clean shutdown.
pub fn makes_up(
    kind: Kind,
    media: &[Cells],
    (device, at): (usize, BlockNr),
    at_rest: bool,
) -> bool {
    let medium = &media[device];
    let last = medium.blocks() - 1;
    match at {
        0 => is_superblock(medium, last),
        at if at == last => is_superblock(medium, 0),
        _ => at_rest && follows(kind, medium, at),
    }
}

/// True if a block follows from others after a clean shutdown.
fn follows(kind: Kind, medium: &Cells, at: BlockNr) -> bool {
    match kind {
        Kind::VLOG => at == TAIL,
        Kind::LOGE => !medium.has_labels() && at.is_multiple_of(LABEL_GROUP),
        kind if kind.is_log_structured() => CHECKPOINTS.contains(&at),
        _ => false,
    }
}

fn is_superblock(medium: &Cells, at: BlockNr) -> bool {
    let block = MediumDisk(&mut medium.clone()).read(at, 1);
    block.is_ok_and(|block| Superblock::decode(&block.to_bytes()).is_ok())
}
