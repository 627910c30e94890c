//! A mounted volume, as the run loop drives it.

use seekless_engine::device::Device;
use seekless_engine::units::Time;
use std::fmt::Debug;

/// A mounted volume, to be joined with the devices it was found on.
pub trait Mounted: Debug {
    /// The volume.
    type Volume: Volume;

    /// Blocks that the mount read.
    fn blocks_read(&self) -> u64;

    /// The volume over `devices`, in the order in which they were mounted.
    fn join(self, devices: Vec<Box<dyn Device>>, seed: u64) -> Self::Volume;
}

/// A mounted volume on its devices, as the run loop drives it.
pub trait Volume: Debug {
    /// An answer to its client.
    type Reply;

    /// It in a few words.
    fn describe(&self) -> String;

    /// When something happens next by itself.
    fn next_event(&self) -> Option<Time>;

    /// Lets everything happen that is due and appends the answers.
    fn settle(&mut self, now: Time, replies: &mut Vec<Self::Reply>);

    /// Asks for a clean shutdown.
    fn stop(&mut self, now: Time);

    /// True when a clean shutdown is complete.
    fn stopped(&self) -> bool;

    /// True if it refuses writes because of an error on the write path.
    fn has_failed(&self) -> bool;
}
