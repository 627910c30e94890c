//! The client of a volume, and the judge of what a crash has left: the other half of the seam
//! between the run loop and what is proved.

use crate::machine::Machine;
use crate::rules::Complaint;
use crate::script::Request;
use crate::violation::Wrong;
use crate::volume::Volume;
use seekless_engine::rng::Rng;
use seekless_engine::shared::Shared;
use seekless_engine::units::Time;
use std::fmt::Debug;

/// What else has happened to a state besides the power cut, from the least to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowance {
    /// Nothing.
    None,
    /// A device is lost: what was being written may be anything where the subject promises no more
    /// than its device does.
    Lost,
    /// Blocks were damaged before the volume could write down that what they hold is durable:
    /// errors and older versions are allowed, other content is not.
    Damaged,
    /// Both: blocks are damaged and a device is lost, or others may have to make up for it in the
    /// middle of a write.
    LostAndDamaged,
}

impl Allowance {
    /// What two things allow that have happened together.
    pub fn and(self, other: Allowance) -> Allowance {
        match (self.min(other), self.max(other)) {
            (Allowance::Lost, Allowance::Damaged) => Allowance::LostAndDamaged,
            (_, worse) => worse,
        }
    }

    /// True if a device is lost.
    pub fn is_lost(self) -> bool {
        matches!(self, Allowance::Lost | Allowance::LostAndDamaged)
    }

    /// True if blocks are damaged.
    pub fn is_damaged(self) -> bool {
        self >= Allowance::Damaged
    }
}

/// What excuses an answer that would be wrong otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excuse {
    /// Blocks are damaged that no device makes up for: reads may fail.
    pub damaged: bool,
    /// More devices have failed than the subject can do without, or damage ends writing: changes
    /// may fail.
    pub refuses: bool,
    /// More devices have failed than the subject can do without: reads may mix versions.
    pub failed: bool,
}

/// Operations that the client heard of, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Their changes are acknowledged and durable by contract.
    pub durable: Vec<u32>,
    /// Their changes are acknowledged only.
    pub acknowledged: Vec<u32>,
}

/// What a client did and heard, and what that allows.
///
/// Between two mounts the run loop hands it requests to send and replies to hear. After a crash
/// the run loop has it read each recovered state and judge what it found.
pub trait Oracle: Debug {
    /// Something that the client asks for.
    type Request: Request;
    /// What it asks.
    type Volume: Volume;
    /// What a volume holds, in a form that is quick to compare.
    type Content: Clone + PartialEq + Debug;

    /// The volume was mounted: it may promise less because of how it was.
    fn mounted(&mut self, volume: &Self::Volume);

    /// The client sends a request.
    fn send(&mut self, send: Send<'_, Self::Request>, volume: &mut Self::Volume);

    /// The client hears a reply. What is wrong with it, if that is not excused.
    fn hear(
        &mut self,
        reply: <Self::Volume as Volume>::Reply,
        volume: &Self::Volume,
        excuse: Excuse,
    ) -> Option<Wrong>;

    /// True if the client may send its next request now; else events pass before it does.
    fn is_ready(&self) -> bool {
        true
    }

    /// The volume was shut down cleanly.
    fn stopped(&mut self) {}

    /// Requests that are not answered yet.
    fn waiting(&self) -> usize;

    /// What the client has heard of in this epoch.
    fn heard(&self) -> Heard;

    /// Changes whenever the verdict on a content may.
    fn revision(&self) -> u64;

    /// The volume was mounted anew and holds this: a new epoch begins.
    fn restart(&mut self, content: &Self::Content);

    /// Reads everything that a volume holds.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&mut self, volume: &mut Self::Volume) -> Result<Self::Content, String>;

    /// Reads everything that can be read of a volume; what cannot is an error in the content.
    fn read_what_can_be(&mut self, volume: &mut Self::Volume) -> Self::Content;

    /// Tells contents apart, most of the time.
    fn print(content: &Self::Content) -> u64;

    /// Everything that is wrong with a content found after a crash, a sentence each.
    fn judge(&self, found: &Self::Content, allowance: Allowance) -> Vec<Complaint>;

    /// True if what lies on the media at the end of an epoch is judged beside what a mount shows of
    /// it: a mount does not show what a check has found.
    fn judges_ends(&self) -> bool {
        false
    }

    /// The first thing that is not as expected; with `errors`, errors are allowed.
    fn differs(
        &self,
        found: &Self::Content,
        expected: &Self::Content,
        errors: bool,
    ) -> Option<String>;

    /// What does not work in a volume that was recovered, a sentence each.
    fn exercise(&self, volume: &mut Self::Volume, rng: &mut Rng) -> Vec<Complaint>;
}

/// A request that is sent, and what the client may look at.
#[derive(Debug)]
pub struct Send<'r, R> {
    /// What is asked.
    pub request: R,
    /// Number of the operation.
    pub operation: u32,
    /// When.
    pub now: Time,
    /// The devices, whose blocks a client may copy.
    pub machine: &'r Shared<Machine>,
}
