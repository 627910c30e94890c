//! Calls that have no reply yet, how far they have come, and what a run of one brings.

use crate::call::{Answer, Call, CallId, Credentials, Ino, Request, Timestamp};
use crate::core::input::Pins;
use crate::log::Lsn;
use crate::tx::{BlockNo, Deferred, Field};
use bytes::Bytes;
use seekless_engine::units::BlockNr;
use std::collections::BTreeSet;
use std::ops::Range;

/// What a call, or the file system itself, wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// The request of a call.
    Request(Request),
    /// Deletes an inode without names.
    Reap(Ino),
    /// Stores what the format notes late ([`super::Personality::is_behind`]).
    Store,
    /// Carries out what waited for bytes to be on the disk.
    Free(Vec<Deferred>),
    /// A step of the background work that is under way.
    Background,
}

/// How far a call of several steps has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Bytes read or written.
    pub done: u64,
    /// Where it goes on in the file.
    pub at: u64,
    /// What a read has brought.
    pub read: Vec<Bytes>,
}

/// A call that has no reply yet.
#[derive(Clone, Debug)]
pub struct Pending<M> {
    /// None for work of the file system itself.
    pub id: Option<CallId>,
    /// The caller.
    pub who: Credentials,
    /// The time of the call.
    pub now: Timestamp,
    /// What is to be done.
    pub work: Work,
    /// Runs since the last step that succeeded.
    pub runs: u32,
    /// Blocks that it has waited for.
    pub pins: Pins,
    /// How far a call of several steps has come.
    pub state: State,
    /// The inode that it holds between its steps.
    pub held: Option<Ino>,
    /// What it waits for, when it waits for durability.
    pub durable: Option<Box<Durable<M>>>,
    /// Bytes that are to be on the disk before it is answered.
    pub writes: Vec<Field>,
    /// The log is to be durable up to here before it is answered.
    pub logged: Lsn,
    /// Its answer, while it waits.
    pub answer: Option<Answer>,
    /// It runs again when what it waits for is durable.
    pub again: bool,
    /// A deletion that was put off, or a sync that waits for some.
    pub late: bool,
    /// It reads, and notes the time of that: the log must have room.
    pub notes: bool,
}

impl<M> Pending<M> {
    /// Work of the file system itself.
    pub fn own(work: Work, now: Timestamp) -> Pending<M> {
        Pending::new(None, Credentials::default(), now, work)
    }

    fn new(id: Option<CallId>, who: Credentials, now: Timestamp, work: Work) -> Pending<M> {
        let (state, pins, held, durable) = (State::default(), Pins::new(), None, None);
        let (writes, answer, again, late, notes) = (Vec::new(), None, false, false, false);
        let (runs, logged) = (0, Lsn::default());
        Pending {
            id,
            who,
            now,
            work,
            runs,
            pins,
            state,
            held,
            durable,
            writes,
            logged,
            answer,
            again,
            late,
            notes,
        }
    }

    /// A call that has come.
    pub(super) fn of(call: Call) -> Pending<M> {
        Pending::new(Some(call.id), call.who, call.now, Work::Request(call.request))
    }
}

/// What a run that succeeded brings.
#[derive(Debug)]
pub enum Step<M> {
    /// The call has come to its end.
    Done(Good),
    /// It goes on from here, and holds the inode until then.
    More {
        /// How far it has come.
        state: State,
        /// The inode.
        holds: Option<Ino>,
    },
    /// It has come to its end when this is durable.
    Durable(Durable<M>),
    /// Gives blocks of 4096 bytes back to the volume, and goes on from here when that has answered.
    Trim {
        /// The blocks. Nothing on the disk uses them.
        ranges: Vec<Range<BlockNr>>,
        /// How far it has come.
        state: State,
    },
}

/// The end of a call, with what becomes true in memory.
#[derive(Debug)]
pub struct Good {
    /// The answer.
    pub answer: Answer,
    /// The lookup count of this inode rises.
    pub looked_up: Option<Ino>,
    /// This inode is open afterwards; the handle goes into the answer.
    pub opened: Option<Ino>,
    /// The last name of this inode has gone.
    pub unnamed: Option<Ino>,
}

impl From<Answer> for Good {
    fn from(answer: Answer) -> Good {
        Good { answer, looked_up: None, opened: None, unnamed: None }
    }
}

impl<M> From<Answer> for Step<M> {
    fn from(answer: Answer) -> Step<M> {
        Step::Done(answer.into())
    }
}

/// What a call for durability waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable<M> {
    /// These blocks, or everything.
    pub blocks: Option<Vec<BlockNo>>,
    /// Those of the blocks that go first, where writes are not ordered.
    pub bodies: Vec<BlockNo>,
    /// The bytes of the blocks that count, where writes are ordered.
    pub fields: Vec<Field>,
    /// What the format notes as durable afterwards.
    pub mark: Option<M>,
    /// What was not written when a call for everything began, where writes are not ordered.
    pub everything: Vec<BlockNo>,
    /// The time of the policy when the call began to wait.
    pub since: u64,
    /// Rounds so far.
    pub rounds: u32,
    /// Those of them that wrote without an order.
    pub unordered: u32,
    /// The round under way is the last one.
    pub last: bool,
    /// The log is to be durable up to here, too.
    pub logged: Option<Lsn>,
}

impl<M> Durable<M> {
    /// These blocks, or everything.
    pub fn new(blocks: Option<Vec<BlockNo>>, fields: Vec<Field>, mark: Option<M>) -> Durable<M> {
        let (bodies, everything) = (Vec::new(), Vec::new());
        let (since, rounds, unordered, last, logged) = (0, 0, 0, false, None);
        Durable { blocks, bodies, fields, mark, everything, since, rounds, unordered, last, logged }
    }

    /// Blocks that count as awaited until the call is answered.
    pub fn named(&self) -> &[BlockNo] {
        self.blocks.as_deref().unwrap_or(&self.everything)
    }

    /// What a call of a policy that writes at once names.
    pub fn fields(fields: Vec<Field>) -> Durable<M> {
        let blocks: BTreeSet<BlockNo> = fields.iter().map(|field| field.block).collect();
        Durable::new(Some(blocks.into_iter().collect()), fields, None)
    }
}

impl Work {
    /// True if it changes blocks, so that a file system that is read-only refuses it.
    pub(super) fn changes(&self) -> bool {
        match self {
            Work::Reap(_) | Work::Store | Work::Free(_) | Work::Background => true,
            Work::Request(request) => request.is_change(),
        }
    }

    /// True if it reads, and may note the time of that.
    pub(super) fn notes_access(&self) -> bool {
        use Request::{List, Read, ReadLink};
        matches!(self, Work::Request(Read { .. } | ReadLink { .. } | List { .. }))
    }

    /// True if all it does is to make something durable.
    pub(super) fn is_sync(&self) -> bool {
        matches!(self, Work::Request(Request::Fsync { .. } | Request::Sync))
    }

    /// True if it gives space back.
    pub(super) fn frees(&self) -> bool {
        matches!(self, Work::Reap(_) | Work::Free(_) | Work::Background)
    }
}
