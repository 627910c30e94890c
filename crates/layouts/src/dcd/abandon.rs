//! Abandoning a log that is lost: the origin becomes usable alone, with what is home on it.
//!
//! The first 128 KiB come from the rescue copy. They are put back in two steps, between which the
//! caller keeps them in a file: a binding is in the way of them, and a power cut in the middle must
//! not cost the only copy.

use super::binding::Binding;
use super::format::BOUND_BLOCKS;
use super::rescue::{Kept, Rescue};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::layout::LayoutError;

/// What an origin says of the log that it is bound to.
#[derive(Clone, Debug)]
pub struct Abandoned {
    /// Id of the log.
    pub log: u128,
    /// Blocks that were in the log only when the origin last heard of it.
    pub dirty: u64,
    /// Blocks that the log can hold, so the most that can be lost; 0 if that is not known.
    pub capacity: u32,
    /// What the origin has of its own first blocks.
    pub kept: Kept,
    /// The first blocks, zeros where they are not kept.
    pub first: Data,
}

/// Reads what is known of a lost log from its origin; `None` if the origin is not bound to one.
///
/// # Errors
/// A damaged binding, and what the medium reports.
pub fn abandoned(origin: &mut dyn Disk) -> Result<Option<Abandoned>, LayoutError> {
    let Some(binding) = Binding::read(origin)? else { return Ok(None) };
    let (kept, first) = Rescue::read(origin)?;
    let Binding { superblock, dirty, capacity, .. } = binding;
    Ok(Some(Abandoned { log: superblock.id, dirty, capacity, kept, first }))
}

/// Notes on the origin that its first blocks are in a file. Call [`restore`] next.
///
/// # Errors
/// An origin that is not bound, and what the medium reports.
pub fn abandon(origin: &mut dyn Disk) -> Result<(), LayoutError> {
    match Binding::read(origin)? {
        Some(binding) => Ok(binding.write(origin, &Rescue::in_file())?),
        None => Err(LayoutError::Apart("the origin is not bound to a log".into())),
    }
}

/// Puts the first blocks back. Cut off, it can be repeated with the same blocks.
///
/// # Errors
/// What the medium reports.
///
/// # Panics
/// If `first` is not 128 KiB.
pub fn restore(origin: &mut dyn Disk, first: &Data) -> Result<(), LayoutError> {
    assert_eq!(u64::from(first.blocks()), BOUND_BLOCKS, "the first blocks are 128 KiB");
    origin.write(1, first.slice(1, BOUND_BLOCKS as u32 - 1))?;
    origin.flush_for(Edge::RestoreRest)?;
    origin.write(0, first.slice(0, 1))?;
    origin.flush_for(Edge::RestoreEnd)?;
    Ok(())
}
