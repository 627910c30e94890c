//! What the eager-writing layouts, the virtual log and Loge, have in common: every write goes to a
//! free block near the head, and a map in memory says where each block of the volume lies.
//!
//! [`freemap`] and [`columns`] know which blocks are free and which of them passes the head first;
//! [`place`] has the plan of one batch, and where blocks go on a device without a head. [`read`] is
//! the whole way of a read. [`write`] collects commands, and [`writes`] follows those in flight.
//! [`commit`] is about when what has been written is durable, and when a superseded block may be
//! used again. [`check`] compares a map with the device, and [`punch`] gives free blocks back to
//! its host. How a block is chosen, and what is kept on disk, is up to each layout.

pub mod check;
pub mod columns;
pub mod commit;
pub mod freemap;
pub mod one_by_one;
pub mod place;
pub mod punch;
pub mod read;
pub mod runs;
pub mod write;
pub mod writes;

/// Blocks that a request of more is split into; each part is atomic. 1 MiB.
pub const ATOMIC_BLOCKS: u64 = 256;
/// Most blocks of data in one batch on a device that commits each batch at once.
pub const BATCH_BLOCKS: u32 = 1024;
/// Fewer blocks than this are no run of their own.
pub const SHORT_RUN: u32 = 8;

/// What a map in memory says of a block of the volume.
pub trait Mapped: Copy {
    /// True if the block is stored.
    fn is_mapped(self) -> bool;

    /// Device block; meaningless if unmapped.
    fn place(self) -> u32;

    /// Checksum of what is stored.
    fn checksum(self) -> u32;

    /// True if its first byte is stored inverted: as it is, the block would be taken for a record
    /// of the layout.
    fn escaped(self) -> bool {
        false
    }
}
