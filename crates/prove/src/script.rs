//! What happens in a run, as data: requests of the client, the passing of time, faults, ends.
//! A violation shrinks by leaving some of it out.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that a client asks for.
pub trait Request: Copy + fmt::Debug + fmt::Display {
    /// Its length, if it has one: in blocks, or in whatever it may be cut short by.
    fn length(&self) -> Option<u32>;

    /// The same request, no longer than `most`, which is at least 1.
    fn limited(self, most: u32) -> Self;
}

/// Where a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// Any block.
    Anywhere(u64),
    /// A block that holds something other than zeros and client data, or has a label.
    Metadata(u64),
    /// The first block: the superblock.
    First,
    /// The last one: its copy.
    Last,
    /// The block behind the superblock, where a clean shutdown leaves its record.
    Tail,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// After so many more writes of a device one fails.
    Write(u64),
    /// The same, and the first block of that write cannot be written from then on.
    BadPlace(u64),
    /// After so many more writes of a device it is full.
    Full(u64),
    /// After so many more flushes of a device one fails.
    Flush(u64),
    /// A block cannot be read.
    Unreadable(Place),
    /// A bit of a block is wrong; the number chooses which.
    Rot(Place, u64),
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation<R> {
    /// The client asks for something.
    Request(R),
    /// So many device events pass.
    Pass(u32),
    /// A quarter of a second passes, then so many events of background work.
    Rest(u32),
    /// Something breaks.
    Break(Fault),
    /// What was to fail fails no more.
    Heal,
    /// The volume is stopped (`true`) or its power cut, and it is mounted again.
    End(bool),
}

impl<R: Request> Operation<R> {
    /// Length of a request, if it has one.
    pub fn length(&self) -> Option<u32> {
        match self {
            Operation::Request(request) => request.length(),
            _ => None,
        }
    }

    /// The same operation with a request no longer than that.
    pub(crate) fn limited(self, most: Option<u32>) -> Operation<R> {
        match (self, most) {
            (Operation::Request(request), Some(most)) => Operation::Request(request.limited(most)),
            (operation, _) => operation,
        }
    }
}

impl<R: Request> fmt::Display for Operation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Request(request) => fmt::Display::fmt(request, f),
            Operation::Pass(u32::MAX) => f.write_str("wait for all answers"),
            Operation::Pass(events) => write!(f, "wait for {events} device events"),
            Operation::Rest(_) => f.write_str("leave the volume alone for a while"),
            Operation::Break(fault) => fmt::Display::fmt(fault, f),
            Operation::Heal => f.write_str("end the faults"),
            Operation::End(true) => f.write_str("stop and mount again"),
            Operation::End(false) => f.write_str("cut the power and mount again"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Write(after) => write!(f, "a write fails, after {after} more"),
            Fault::BadPlace(after) => write!(f, "a place turns bad, after {after} more writes"),
            Fault::Full(after) => write!(f, "the device is full after {after} writes"),
            Fault::Flush(after) => write!(f, "a flush fails, after {after} more"),
            Fault::Unreadable(place) => write!(f, "unreadable: {place}"),
            Fault::Rot(place, _) => write!(f, "rotten: {place}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Anywhere(_) => "any block",
            Place::Metadata(_) => "a block of metadata",
            Place::First => "the superblock",
            Place::Last => "the last block",
            Place::Tail => "the tail record",
        })
    }
}
