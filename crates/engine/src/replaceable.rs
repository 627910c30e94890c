//! An array that takes a new member while it is used.

use crate::disk::Disk;
use crate::upkeep::UpkeepError;

/// The place of a member that is out of its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vacancy {
    /// Whose place it is.
    pub member: usize,
    /// Blocks that a device needs to take it.
    pub blocks: u64,
}

/// An array that takes a new member while it is used.
pub trait Replaceable {
    /// The first place that is free.
    ///
    /// # Errors
    /// Why none can be taken now.
    fn vacancy(&self) -> Result<Vacancy, UpkeepError>;

    /// Writes to a disk what makes it a member to be filled. The array is as before until
    /// [`Replaceable::admit`], which must follow before anything else.
    ///
    /// # Errors
    /// As for [`Replaceable::vacancy`], and what the disk reports.
    fn prepare(&mut self, disk: &mut dyn Disk) -> Result<Vacancy, UpkeepError>;

    /// The disk that was prepared is behind the port of its place now. `volatile`: it may lose
    /// completed writes until it is flushed.
    fn admit(&mut self, volatile: bool);
}
