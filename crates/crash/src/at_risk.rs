//! What the kernel knows of a write that a power cut may undo.

use crate::pending::{BlockWrite, Pending};
use seekless_engine::units::BLOCK_SECTORS;

/// What the kernel knows of a pending write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtRisk {
    /// Number of its device. Writes of two devices have no order.
    pub device: usize,
    /// When it was submitted.
    pub submitted: u64,
    /// When it completed. A write submitted at this time or later comes after it.
    pub completed: Option<u64>,
    /// It was forced (FUA) and has completed: no power cut takes it.
    pub forced: bool,
    /// Sectors at which it tears, counted from a block boundary; `None` if it never does.
    pub sectors: Option<usize>,
    /// Earlier writes of the list, by index, without which it is not on the medium: see
    /// [`crate::needs`]. The writes of devices have none, and forced ones must not have any.
    pub needs: Vec<usize>,
    /// The request that it is a part of, if a request makes several writes. Those follow one
    /// another, and are tried lost and kept together, too.
    pub part_of: Option<u64>,
}

impl AtRisk {
    /// A write of so many whole blocks.
    pub fn of_blocks(device: usize, submitted: u64, completed: Option<u64>, blocks: u32) -> AtRisk {
        let sectors = Some(blocks as usize * BLOCK_SECTORS as usize);
        let (forced, needs, part_of) = (false, Vec::new(), None);
        AtRisk { device, submitted, completed, forced, sectors, needs, part_of }
    }

    /// A pending write of a device. A transaction never tears.
    pub fn of_write(device: usize, one: &Pending<BlockWrite>) -> AtRisk {
        let whole = AtRisk::of_blocks(device, one.number, one.completed, one.write.blocks());
        let sectors = whole.sectors.filter(|_| one.write.places.is_none());
        AtRisk { sectors, ..whole }
    }

    /// True if the other one had completed before this one was submitted.
    pub(crate) fn comes_after(&self, other: &AtRisk) -> bool {
        self.device == other.device && other.completed.is_some_and(|at| at <= self.submitted)
    }
}
