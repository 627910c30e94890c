//! Layers: layouts, volumes and middleware as state machines without I/O.

use crate::arm::{Arm, Head};
use crate::device::Device;
use crate::io::{Done, Extent, Io, IoError, Op, Rebuild, Tag};
use crate::member::Member;
use crate::planted::{PlantedBug, planted};
use crate::replaceable::Replaceable;
use crate::rng::Rng;
use crate::transaction::Transaction;
use crate::units::{BlockNr, Time};
use crate::upkeep::{Scrub, Upkeep, UpkeepError};
use std::fmt::Debug;

/// Which of the devices below a layer.
pub type Port = usize;

/// Everything a layer may see and do while it handles an event. Effects are collected here and
/// carried out by the driver afterwards; nothing blocks and nothing answers from inside a call.
#[derive(Debug)]
pub struct Cx<'w> {
    /// The time.
    pub now: Time,
    /// Seeded randomness.
    pub rng: &'w mut Rng,
    /// Since when no client request has been in flight, if none is.
    pub idle_since: Option<Time>,
    /// Requests to the devices below, in order.
    pub below: &'w mut Vec<(Port, Io)>,
    /// Answers to the client or layer above.
    pub above: &'w mut Vec<Done>,
    /// The devices, for their mechanics.
    pub devices: &'w [Box<dyn Device>],
}

/// What goes to a device in place of a request: with [`PlantedBug::MissingFlush`], a read for a
/// flush, which makes nothing durable.
#[inline(always)]
fn planted_lost_flush(io: Io) -> Io {
    let lost = io.op == Op::Flush && planted(PlantedBug::MissingFlush);
    if lost { Io::read(io.tag, 0, 1) } else { io }
}

impl Cx<'_> {
    /// The mechanics of a device, if it has a head.
    pub fn arm(&self, port: Port) -> Option<&dyn Arm> {
        self.devices[port].mechanical()?.arm()
    }

    /// Where the head of a device is, if it has one.
    pub fn head(&self, port: Port) -> Option<Head> {
        self.devices[port].mechanical()?.head(self.now)
    }

    /// True if a device holds blocks more than once.
    pub fn has_copies(&self, port: Port) -> bool {
        self.devices[port].status().has_copies()
    }

    /// True if a device gives trimmed space back to its host.
    pub fn punches(&self, port: Port) -> bool {
        self.devices[port].status().punches()
    }

    /// Sends a request to a device.
    pub fn send(&mut self, port: Port, io: Io) {
        self.below.push((port, planted_lost_flush(io)));
    }

    /// Answers a request from above.
    pub fn answer(&mut self, done: Done) {
        self.above.push(done);
    }

    /// Answers a request from above with an error.
    pub fn fail(&mut self, tag: Tag, error: IoError) {
        self.above.push(Done::new(tag, Err(error)));
    }
}

/// Guarantees that a mount weakens, compared with those of its kind of layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests of more blocks take hold block by block, in any order, and may be torn.
    pub whole_blocks: u32,
    /// Blocks that hold nothing may find no room: a write of one is then refused with
    /// [`IoError::NoSpace`], and nothing else changes.
    pub may_be_full: bool,
    /// Acknowledged writes may be lost until a flush even if the devices keep what they have
    /// completed.
    pub reports_early: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { whole_blocks: u32::MAX, may_be_full: false, reports_early: false }
    }
}

/// Space that a volume has for writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Blocks that can be written before the volume is full. Each write takes one, what it
    /// overwrites comes back later.
    pub blocks: u64,
    /// Blocks that come back without another request.
    pub comes_back: bool,
    /// All blocks that there are for content.
    pub all: u64,
}

/// A volume: takes block requests from above, issues block requests below.
///
/// The driver calls, in this order and never re-entrantly: `submit` for each arrival, `complete`
/// for each answer from below, then `pump` once if there was any, or if a deadline has come.
/// Calling `pump` once too often does no harm.
///
/// These methods move requests. What a volume can say of itself is in [`Status`].
pub trait Layer: Debug + Send {
    /// Size in blocks as seen from above.
    fn blocks(&self) -> u64;

    /// A request from above. Its range and payload length have been checked at the edge.
    fn submit(&mut self, io: Io, cx: &mut Cx<'_>);

    /// An answer from below.
    fn complete(&mut self, port: Port, done: Done, cx: &mut Cx<'_>);

    /// Dispatches foreground work that is ready, then at most one bounded chunk of background work.
    fn pump(&mut self, cx: &mut Cx<'_>);

    /// When to pump again though nothing happens.
    fn deadline(&self) -> Option<Time>;

    /// Asks for a clean shutdown: after the requests in flight are answered and [`Layer::stopped`]
    /// says so, the devices hold a state that the next mount recognises as clean.
    fn stop(&mut self, cx: &mut Cx<'_>);

    /// True when a clean shutdown that was asked for is complete.
    fn stopped(&self) -> bool;

    /// Why the volume refuses writes, if it does: the first error of its write path.
    fn failed(&self) -> Option<IoError>;

    /// Takes on work that an operator asks for.
    ///
    /// # Errors
    /// Why it cannot be done now, or ever.
    fn upkeep(&mut self, _order: Upkeep, _now: Time) -> Result<(), UpkeepError> {
        Err(UpkeepError::NoArray)
    }

    /// What the volume says of itself.
    fn status(&self) -> &dyn Status;

    /// Its places for members, if it is an array that can take a new one.
    fn replaceable(&mut self) -> Option<&mut dyn Replaceable> {
        None
    }

    /// Transactions of several requests, if the volume has them.
    fn transactions(&mut self) -> Option<&mut dyn Transactions> {
        None
    }
}

/// Transactions of several requests: all that one changes takes hold together or not at all.
pub trait Transactions {
    /// A transaction from above, of at most [`Status::transaction_blocks`] blocks. It is answered
    /// once, like a write; with `fua` only when it is durable.
    fn submit(&mut self, tag: Tag, all: Transaction, fua: bool, cx: &mut Cx<'_>);
}

/// What a volume says of itself. Nothing here changes it or takes part in moving requests.
pub trait Status {
    /// A hint: a request for this block comes soon. What is known of it can be fetched from memory
    /// meanwhile.
    fn expect(&self, _at: BlockNr) {}

    /// What lies at `at` and for how many blocks it stays the same, at least 1 and at most `limit`.
    fn extent(&self, _at: BlockNr, limit: u64) -> (Extent, u64) {
        (Extent::Data, limit)
    }

    /// Most blocks of a transaction of several requests; 0 if the volume has none.
    fn transaction_blocks(&self) -> u64 {
        0
    }

    /// True if its transactions change bytes of blocks, and forget ranges of any length.
    fn takes_patches(&self) -> bool {
        false
    }

    /// Most bytes that a transaction may say, as [`Transaction::patch_bytes`] counts them, where it
    /// takes patches.
    fn patch_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Space for writes, if the volume has more addresses than space.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Where its first block lies on device 0, for layouts that have all their blocks there in
    /// order, always: what holds nothing there holds nothing here, and the device may know.
    fn in_place(&self) -> Option<BlockNr> {
        None
    }

    /// True if it hands parts of blocks ([`Io::part`]) on to its devices, if they take them; see
    /// [`Node::takes_parts`](crate::node::Node::takes_parts).
    fn takes_parts(&self) -> bool {
        false
    }

    /// Guarantees that this mount weakens.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// True if it holds blocks more than once; see [`DeviceStatus::has_copies`].
    ///
    /// [`DeviceStatus::has_copies`]: crate::device::DeviceStatus::has_copies
    fn has_copies(&self) -> bool {
        false
    }

    /// The filling of a member since this array was assembled, if there was anything to fill.
    fn rebuild(&self) -> Option<Rebuild> {
        None
    }

    /// The scrub of this array that is under way, or the last one since it was assembled.
    fn scrub(&self) -> Option<Scrub> {
        None
    }

    /// Blocks that members of this array did not give as they should: grows with the counts in
    /// [`Status::members`], and is quick to ask.
    fn member_faults(&self) -> u64 {
        0
    }

    /// Members of this array that failed since it was assembled, with why, in order.
    fn failed_members(&self) -> &[(usize, IoError)] {
        &[]
    }

    /// The members of this array, in order; nothing if it is none.
    fn members(&self) -> Vec<Member> {
        Vec::new()
    }

    /// Share of free blocks in each of `parts` equal stretches of the device, along its arm, for
    /// layouts that choose places; nothing for others.
    fn free_profile(&self, _parts: usize) -> Vec<f64> {
        Vec::new()
    }

    /// Checks, in debug builds, what holds between two events.
    ///
    /// # Panics
    /// If it does not hold.
    fn check(&self) {}

    /// Named counters for reports, in a fixed order.
    fn stats(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
