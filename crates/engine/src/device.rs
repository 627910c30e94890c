//! Devices: where blocks rest. The seam between the two worlds.

pub mod medium;
pub mod ram;

use crate::account::Account;
use crate::arm::{Arm, Head};
use crate::io::{Done, Io, IoError};
use crate::io::{Extent, Rebuild};
use crate::member::Member;
use crate::units::{BlockNr, Time};
use crate::upkeep::{Scrub, Upkeep, UpkeepError};
use std::any::Any;
use std::fmt::Debug;

/// Something that stores blocks: a simulated disk, memory, a file, a block device.
///
/// Requests are answered through [`Device::reap`], never from inside [`Device::submit`].
pub trait Device: Debug + Send {
    /// Size in blocks.
    fn blocks(&self) -> u64;

    /// Accepts a request. Every accepted request is answered exactly once.
    fn submit(&mut self, now: Time, io: Io);

    /// Appends the answers that are due at `now`.
    fn reap(&mut self, now: Time, done: &mut Vec<Done>);

    /// When the next answer is due: `Some` in virtual time, `None` if nothing is in flight or if
    /// only the operating system knows.
    fn next_event(&self) -> Option<Time>;

    /// True if a completed write may still be lost until the next flush completes.
    fn volatile(&self) -> bool;

    /// What the device says of itself.
    fn status(&self) -> &dyn DeviceStatus;

    /// Head and geometry, for devices that have them and let layouts plan on them.
    fn mechanical(&self) -> Option<&dyn Mechanical> {
        None
    }

    /// True if it may have answers before [`Device::next_event`] says so: the operating system
    /// carries out its requests, or some of them.
    fn is_sudden(&self) -> bool {
        false
    }

    /// What lies at `at` and for how many blocks it stays the same, at least 1 and at most `limit`,
    /// as far as the device knows: a hole reads as zeros. All that it has answered counts.
    fn extent(&mut self, _at: BlockNr, limit: u64) -> (Extent, u64) {
        (Extent::Data, limit)
    }

    /// Takes on work that an operator asks for, if it is an array.
    ///
    /// # Errors
    /// Why it cannot be done now, or ever.
    fn upkeep(&mut self, _order: Upkeep, _now: Time) -> Result<(), UpkeepError> {
        Err(UpkeepError::NoArray)
    }

    /// Itself, if it is more than a device to its maker: an array.
    fn as_any(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// Asks for a clean shutdown, for devices that keep state of their own; nothing but what this
    /// causes is under way.
    fn stop(&mut self, _now: Time) {}

    /// True when a clean shutdown that was asked for is complete.
    fn stopped(&self) -> bool {
        true
    }
}

/// The mechanics of a device with a head.
pub trait Mechanical {
    /// Its geometry and motion, if layouts may plan on them.
    fn arm(&self) -> Option<&dyn Arm>;

    /// Where the head is.
    fn head(&self, now: Time) -> Option<Head>;
}

/// What a device says of itself. Nothing here changes it or takes part in moving requests.
pub trait DeviceStatus {
    /// True if it holds blocks more than once, or can compute them: a read that says what it
    /// expects ([`crate::io::Io::expected`]) is answered with what is right where one of the copies
    /// is not, and that one is put right.
    fn has_copies(&self) -> bool {
        false
    }

    /// True if it carries out writes of single sectors ([`crate::io::Io::part`]) without a read of
    /// the rest of their blocks.
    fn takes_parts(&self) -> bool {
        false
    }

    /// Most blocks of a transaction ([`crate::io::Io::places`]); 0 if it has none.
    fn transaction_blocks(&self) -> u64 {
        0
    }

    /// True if a trim gives space back to the host of the device, such as the file system of an
    /// image: a volume may trim what it does not use.
    fn punches(&self) -> bool {
        false
    }

    /// How a member is filled that was put into an array, if this is one.
    fn rebuild(&self) -> Option<Rebuild> {
        None
    }

    /// The scrub that is under way, or the last one, if this is an array.
    fn scrub(&self) -> Option<Scrub> {
        None
    }

    /// Blocks that its members did not give as they should, if this is an array.
    fn member_faults(&self) -> u64 {
        0
    }

    /// Members that failed since this array was assembled, with why, if this is one.
    fn failed_members(&self) -> &[(usize, IoError)] {
        &[]
    }

    /// Its members, in order, if this is an array.
    fn members(&self) -> Vec<Member> {
        Vec::new()
    }

    /// Named counters for reports, in a fixed order.
    fn stats(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Hands over the account of each device that keeps one: its own, or those of what is inside.
    fn accounts(&self, _each: &mut dyn FnMut(&Account)) {}
}

impl dyn Device + '_ {
    /// Geometry and motion, if layouts may plan on them.
    pub fn arm(&self) -> Option<&dyn Arm> {
        self.mechanical()?.arm()
    }

    /// Where the head is, if the device has one.
    pub fn head(&self, now: Time) -> Option<Head> {
        self.mechanical()?.head(now)
    }
}
