//! The byte-to-block adapter: byte requests of clients become block requests of the volume.
//!
//! The last place where a request is checked, and the only one that knows about bytes. A write
//! that covers only part of a block reads the block, changes it and writes it back; meanwhile
//! nothing else may write there, or one of the two changes would be lost. The adapter is the
//! [`Client`] of the server's driver: byte requests come in between two turns, block requests go
//! out in a turn, and answers to byte requests are fetched after it.
//!
//! Invariants: a byte request is in `requests` until its answer is in `answers`; its block requests
//! are in `outbox` or in flight, and `pending` counts them.

mod answer;
mod plan;

pub use answer::{Answer, Fault, Rope};

use bytes::Bytes;
use plan::Span;
use seekless_engine::client::{Below, Client, Slots};
use seekless_engine::data::Data;
use seekless_engine::io::Extent;
use seekless_engine::io::{Done, Io, IoError};
use seekless_engine::layer::Port;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, Time};
use slab::Slab;
use std::convert::Infallible;

/// Extents in one answer to [`Verb::Status`] at most; the client asks again for the rest.
const MOST_EXTENTS: usize = 4096;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read bytes.
    Read,
    /// Write these bytes; their number is the request's length.
    Write(Bytes),
    /// Make every acknowledged write durable.
    Flush,
    /// Forget bytes: whole blocks inside the range read as zeros afterwards.
    Trim,
    /// Make bytes read as zeros.
    Zero {
        /// Write them, so that a later write there cannot run out of space.
        keep_space: bool,
    },
    /// Tell where data is and where holes are.
    Status {
        /// One extent is enough.
        one: bool,
    },
    /// Fetch into a cache, of which there is none.
    Cache,
}

/// A request of a client. `W` tells the caller whose it was.
#[derive(Clone, Debug)]
pub struct Request<W> {
    /// Given back with the answer.
    pub who: W,
    /// What to do.
    pub verb: Verb,
    /// Acknowledge only when durable.
    pub fua: bool,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

/// What a request still has to do when its block requests have been answered.
#[derive(Debug)]
enum Step {
    /// Nothing but answer.
    Answer,
    /// Cut these bytes out of the blocks read: (bytes to skip, bytes to take).
    Cut(usize, usize),
    /// Put the new bytes into the blocks at the edges, which are being read, and write.
    Merge(Box<Merge>),
}

/// A write whose first or last block is only partly new.
#[derive(Debug)]
struct Merge {
    bytes: New,
    fua: bool,
    head: Option<Data>,
    tail: Option<Data>,
}

/// The new content of a range.
#[derive(Clone, Debug)]
enum New {
    Bytes(Bytes),
    Zeros { keep_space: bool },
}

/// A byte request that has not been answered.
#[derive(Debug)]
struct Pending<W> {
    who: W,
    /// Order of arrival.
    sequence: u64,
    span: Span,
    writes: bool,
    /// Nothing else may write to the blocks of the span meanwhile.
    exclusive: bool,
    /// Block requests that have not been answered.
    pending: u8,
    error: Option<IoError>,
    step: Step,
}

/// What a block request does for its byte request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// All of it, or the second half of a write.
    Main,
    /// Reads the first block of a write, which is covered in part.
    Head,
    /// Reads the last one.
    Tail,
}

/// The state of all requests in flight.
#[derive(Debug)]
pub struct Adapter<W> {
    bytes: u64,
    read_only: bool,
    failed: Option<IoError>,
    requests: Slab<Pending<W>>,
    sequence: u64,
    /// Requests that were started and write exclusively.
    exclusive: usize,
    /// Writes that had to read blocks of which they cover a part.
    partial_writes: u64,
    /// Requests that wait for others on the same blocks, in order of arrival.
    waiting: Vec<usize>,
    /// Block requests in flight or to be sent, each with its byte request.
    sent: Slots<(usize, Role)>,
    /// Block requests to be sent in the next turn, in order.
    outbox: Vec<Io>,
    /// Answers to be fetched.
    answers: Vec<(W, Answer)>,
}

impl<W> Adapter<W> {
    /// The byte-to-block adapter of a volume of `blocks` blocks.
    pub fn new(blocks: u64, read_only: bool) -> Adapter<W> {
        Adapter {
            bytes: blocks * BLOCK_BYTES as u64,
            read_only,
            failed: None,
            requests: Slab::new(),
            sequence: 0,
            exclusive: 0,
            partial_writes: 0,
            waiting: Vec::new(),
            sent: Slots::default(),
            outbox: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Requests that have not been answered.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Writes that had to read blocks of which they cover a part.
    pub fn partial_writes(&self) -> u64 {
        self.partial_writes
    }

    /// True if there are block requests to be sent or answers to be fetched.
    pub fn has_news(&self) -> bool {
        !self.outbox.is_empty() || !self.answers.is_empty()
    }

    /// Answers to be fetched, in the order in which requests were done.
    pub fn answers(&mut self) -> &mut Vec<(W, Answer)> {
        &mut self.answers
    }

    /// Answers a request that does not get as far as the volume.
    pub fn refuse(&mut self, who: W, answer: Answer) {
        self.answers.push((who, answer));
    }

    /// From now on writes and flushes are refused, for this reason.
    pub fn fail_volume(&mut self, reason: IoError) {
        self.failed.get_or_insert(reason);
    }

    /// Takes a request in. `extent` is that of the volume; see
    /// [`seekless_engine::node::Node::extent`].
    pub fn request(
        &mut self,
        request: Request<W>,
        extent: &mut dyn FnMut(BlockNr, u64) -> (Extent, u64),
    ) {
        if let Some(answer) = self.at_once(&request, extent) {
            self.answers.push((request.who, answer));
            return;
        }
        let Request { who, verb, fua, offset, length } = request;
        let span = Span { offset, length };
        match verb {
            Verb::Read => {
                let (at, count) = span.blocks();
                let step = Step::Cut(span.skip(), length as usize);
                let key = self.insert(who, span, step, false, false);
                self.send(key, Role::Main, Io::read(0, at, count));
            }
            Verb::Flush => {
                let key = self.insert(who, span, Step::Answer, false, false);
                self.send(key, Role::Main, Io::flush(0));
            }
            Verb::Trim => self.trim(who, span, fua),
            Verb::Write(bytes) => self.write(who, span, New::Bytes(bytes), fua),
            Verb::Zero { keep_space } => {
                self.write(who, span, New::Zeros { keep_space }, fua);
            }
            // Answered at once.
            Verb::Status { .. } | Verb::Cache => {}
        }
    }

    /// What can be answered without a block request: refusals and what needs no work.
    fn at_once(
        &self,
        request: &Request<W>,
        extent: &mut dyn FnMut(BlockNr, u64) -> (Extent, u64),
    ) -> Option<Answer> {
        let Request { verb, offset, length, .. } = request;
        let writes = matches!(verb, Verb::Write(_) | Verb::Trim | Verb::Zero { .. });
        if writes && self.read_only {
            return Some(Answer::refuse(Fault::ReadOnly, "the export is read-only"));
        }
        if (writes || *verb == Verb::Flush)
            && let Some(reason) = self.failed
        {
            return Some(answer::volume_failed(reason));
        }
        if *verb == Verb::Flush {
            return self.read_only.then_some(Answer::Done);
        }
        let end = offset.checked_add(u64::from(*length));
        if end.is_none_or(|end| end > self.bytes) {
            let fault = if writes { Fault::NoSpace } else { Fault::Invalid };
            let message = format!("bytes {offset}+{length} lie outside the export");
            return Some(Answer::Error(fault, message));
        }
        match verb {
            Verb::Write(bytes) if bytes.len() != *length as usize => {
                Some(Answer::refuse(Fault::Invalid, "the payload does not fit the length"))
            }
            Verb::Status { .. } if *length == 0 => {
                Some(Answer::refuse(Fault::Invalid, "the status of no bytes was asked for"))
            }
            Verb::Status { one } => {
                Some(Answer::Status(plan::status(extent, *offset, *length, *one, MOST_EXTENTS)))
            }
            Verb::Cache => Some(Answer::Done),
            Verb::Read if *length == 0 => Some(Answer::Data(Rope::default())),
            _ if *length == 0 => Some(Answer::Done),
            _ => None,
        }
    }

    fn trim(&mut self, who: W, span: Span, fua: bool) {
        // The advice covers whole blocks only; the rest of a block must keep its bytes.
        let Some((at, count)) = span.whole_blocks() else {
            self.answers.push((who, Answer::Done));
            return;
        };
        let whole = Span {
            offset: at * BLOCK_BYTES as u64,
            // No longer than the range it lies in.
            length: (u64::from(count) * BLOCK_BYTES as u64) as u32,
        };
        let merge = Merge { bytes: New::Zeros { keep_space: false }, fua, head: None, tail: None };
        let key = self.insert(who, whole, Step::Merge(Box::new(merge)), true, false);
        self.start_or_wait(key);
    }

    fn write(&mut self, who: W, span: Span, bytes: New, fua: bool) {
        let exclusive = !span.is_whole();
        let merge = Step::Merge(Box::new(Merge { bytes, fua, head: None, tail: None }));
        let key = self.insert(who, span, merge, true, exclusive);
        self.start_or_wait(key);
    }

    fn insert(&mut self, who: W, span: Span, step: Step, writes: bool, exclusive: bool) -> usize {
        self.sequence += 1;
        self.requests.insert(Pending {
            who,
            sequence: self.sequence,
            span,
            writes,
            exclusive,
            pending: 0,
            error: None,
            step,
        })
    }

    fn send(&mut self, key: usize, role: Role, mut io: Io) {
        io.tag = self.sent.insert((key, role));
        self.requests[key].pending += 1;
        self.outbox.push(io);
    }

    /// True if an earlier request must end before this one may start.
    fn is_blocked(&self, key: usize) -> bool {
        let own = &self.requests[key];
        self.requests.iter().any(|(other, slot)| {
            other != key
                && slot.sequence < own.sequence
                && slot.writes
                && (slot.exclusive || own.exclusive)
                && slot.span.shares_block(&own.span)
        })
    }

    fn start_or_wait(&mut self, key: usize) {
        // Whole blocks need not look further while no request writes parts of blocks.
        let crowded =
            self.requests[key].exclusive || self.exclusive > 0 || !self.waiting.is_empty();
        if crowded && self.is_blocked(key) {
            self.waiting.push(key);
        } else {
            self.start(key);
        }
    }

    fn start(&mut self, key: usize) {
        if !self.requests[key].exclusive {
            self.write_merged(key);
            return;
        }
        self.exclusive += 1;
        self.partial_writes += 1;
        let span = self.requests[key].span;
        let (head, tail) = span.partial_blocks();
        if let Some(at) = head {
            self.send(key, Role::Head, Io::read(0, at, 1));
        }
        if let Some(at) = tail {
            self.send(key, Role::Tail, Io::read(0, at, 1));
        }
    }

    /// The second half of a write, or all of it if it covers whole blocks.
    fn write_merged(&mut self, key: usize) {
        let slot = &mut self.requests[key];
        let span = slot.span;
        let Step::Merge(merge) = std::mem::replace(&mut slot.step, Step::Answer) else {
            panic!("{:?} is not a write", slot.step);
        };
        for mut io in plan::writes(&span, &merge.bytes, merge.head, merge.tail) {
            io.fua = merge.fua;
            self.send(key, Role::Main, io);
        }
    }

    /// Takes the answer to a block request, sends what follows from it, and answers what is
    /// complete.
    fn done(&mut self, done: Done) {
        let (key, role) = self.sent.remove(done.tag);
        let slot = &mut self.requests[key];
        debug_assert!(slot.pending > 0, "an answer too many");
        slot.pending -= 1;
        let mut cut = None;
        match (done.outcome, &mut slot.step) {
            (Err(error), _) => {
                slot.error.get_or_insert(error);
            }
            (Ok(data), Step::Merge(merge)) if role == Role::Head => merge.head = Some(data),
            (Ok(data), Step::Merge(merge)) => merge.tail = Some(data),
            (Ok(data), Step::Cut(skip, take)) => cut = Some(Rope::new(data, *skip, *take)),
            (Ok(_), Step::Answer) => {}
        }
        if slot.pending > 0 {
            return;
        }
        if slot.error.is_none() && matches!(slot.step, Step::Merge(_)) {
            self.write_merged(key);
            return;
        }
        let slot = self.requests.remove(key);
        let answer = match (slot.error, cut) {
            (Some(error), _) => answer::failed(error, self.failed),
            (None, Some(rope)) => Answer::Data(rope),
            (None, None) => Answer::Done,
        };
        self.answers.push((slot.who, answer));
        if slot.exclusive {
            self.exclusive -= 1;
        }
        if !self.waiting.is_empty() {
            self.start_waiting();
        }
    }

    fn start_waiting(&mut self) {
        let mut still = Vec::new();
        for key in std::mem::take(&mut self.waiting) {
            if self.is_blocked(key) {
                still.push(key);
            } else {
                self.start(key);
            }
        }
        self.waiting = still;
    }

    #[cfg(test)]
    fn waits(&self) -> usize {
        self.waiting.len()
    }
}

impl<W> Client for Adapter<W> {
    type Error = Infallible;

    fn complete(
        &mut self,
        _port: Port,
        done: Done,
        _below: &mut Below<'_>,
    ) -> Result<(), Infallible> {
        self.done(done);
        Ok(())
    }

    fn pump(&mut self, below: &mut Below<'_>) -> Result<(), Infallible> {
        for io in self.outbox.drain(..) {
            below.submit(0, io);
        }
        Ok(())
    }

    /// Byte requests come when they come; it does nothing by itself.
    fn deadline(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests;
