//! The byte-to-block adapter: byte requests of clients become block requests of the volume.
//!
//! The last place where a request is checked, and the only one that knows about bytes. A write
//! that covers only part of a block reads the block, changes it and writes it back; meanwhile
//! nothing else may write there, or one of the two changes would be lost. Like everything below
//! it, the byte-to-block adapter is a state machine without I/O.

mod answer;
mod plan;

pub use answer::{Answer, Fault, Rope};

use bytes::Bytes;
use plan::Span;
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io, IoError, Tag};
use seekless_engine::layer::Extent;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use slab::Slab;

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

#[derive(Debug)]
struct Slot<W> {
    who: W,
    sequence: u64,
    span: Span,
    writes: bool,
    /// True while nothing else may write to the blocks of the span.
    alone: bool,
    pending: u8,
    error: Option<IoError>,
    step: Step,
}

/// Tags of block requests: the slot, and which of its requests it is.
const PARTS: u64 = 4;
const MAIN: u64 = 0;
const HEAD: u64 = 1;
const TAIL: u64 = 2;

/// The state of all requests in flight.
#[derive(Debug)]
pub struct Adapter<W> {
    bytes: u64,
    read_only: bool,
    failed: Option<IoError>,
    slots: Slab<Slot<W>>,
    sequence: u64,
    /// Started requests that write alone.
    loners: usize,
    /// Requests that wait for others on the same blocks, in order of arrival.
    waiting: Vec<usize>,
}

impl<W> Adapter<W> {
    /// The byte-to-block adapter of a volume of `blocks` blocks.
    pub fn new(blocks: u64, read_only: bool) -> Adapter<W> {
        Adapter {
            bytes: blocks * BLOCK_BYTES as u64,
            read_only,
            failed: None,
            slots: Slab::new(),
            sequence: 0,
            loners: 0,
            waiting: Vec::new(),
        }
    }

    /// Requests that have not been answered.
    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    /// From now on writes and flushes are refused, for this reason.
    pub fn fail_volume(&mut self, reason: IoError) {
        self.failed.get_or_insert(reason);
    }

    /// Takes a request in: appends the block requests it starts with to `ios`, or its answer to
    /// `answers`. `extent` is that of the volume; see [`seekless_engine::node::Node::extent`].
    pub fn request(
        &mut self,
        request: Request<W>,
        extent: &mut dyn FnMut(BlockNr, u64) -> (Extent, u64),
        ios: &mut Vec<Io>,
        answers: &mut Vec<(W, Answer)>,
    ) {
        if let Some(answer) = self.at_once(&request, extent) {
            answers.push((request.who, answer));
            return;
        }
        let Request { who, verb, fua, offset, length } = request;
        let span = Span { offset, length };
        match verb {
            Verb::Read => {
                let (at, count) = span.blocks();
                let step = Step::Cut(span.skip(), length as usize);
                let key = self.insert(who, span, step, false, false);
                self.send(key, MAIN, Io::read(0, at, count), ios);
            }
            Verb::Flush => {
                let key = self.insert(who, span, Step::Answer, false, false);
                self.send(key, MAIN, Io::flush(0), ios);
            }
            Verb::Trim => self.trim(who, span, fua, ios, answers),
            Verb::Write(bytes) => self.write(who, span, New::Bytes(bytes), fua, ios),
            Verb::Zero { keep_space } => {
                self.write(who, span, New::Zeros { keep_space }, fua, ios);
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

    fn trim(
        &mut self,
        who: W,
        span: Span,
        fua: bool,
        ios: &mut Vec<Io>,
        answers: &mut Vec<(W, Answer)>,
    ) {
        // The advice covers whole blocks only; the rest of a block must keep its bytes.
        let Some((at, count)) = span.whole_blocks() else {
            answers.push((who, Answer::Done));
            return;
        };
        let whole = Span {
            offset: at * BLOCK_BYTES as u64,
            // No longer than the range it lies in.
            length: (u64::from(count) * BLOCK_BYTES as u64) as u32,
        };
        let merge = Merge { bytes: New::Zeros { keep_space: false }, fua, head: None, tail: None };
        let key = self.insert(who, whole, Step::Merge(Box::new(merge)), true, false);
        self.start_or_wait(key, ios);
    }

    fn write(&mut self, who: W, span: Span, bytes: New, fua: bool, ios: &mut Vec<Io>) {
        let alone = !span.is_whole();
        let merge = Step::Merge(Box::new(Merge { bytes, fua, head: None, tail: None }));
        let key = self.insert(who, span, merge, true, alone);
        self.start_or_wait(key, ios);
    }

    fn insert(&mut self, who: W, span: Span, step: Step, writes: bool, alone: bool) -> usize {
        self.sequence += 1;
        self.slots.insert(Slot {
            who,
            sequence: self.sequence,
            span,
            writes,
            alone,
            pending: 0,
            error: None,
            step,
        })
    }

    fn send(&mut self, key: usize, part: u64, mut io: Io, ios: &mut Vec<Io>) {
        io.tag = key as Tag * PARTS + part;
        self.slots[key].pending += 1;
        ios.push(io);
    }

    /// True if an earlier request must end before this one may start.
    fn is_blocked(&self, key: usize) -> bool {
        let own = &self.slots[key];
        self.slots.iter().any(|(other, slot)| {
            other != key
                && slot.sequence < own.sequence
                && slot.writes
                && (slot.alone || own.alone)
                && slot.span.shares_block(&own.span)
        })
    }

    fn start_or_wait(&mut self, key: usize, ios: &mut Vec<Io>) {
        // Whole blocks need not look further while nobody writes parts of blocks.
        let crowded = self.slots[key].alone || self.loners > 0 || !self.waiting.is_empty();
        if crowded && self.is_blocked(key) {
            self.waiting.push(key);
        } else {
            self.start(key, ios);
        }
    }

    fn start(&mut self, key: usize, ios: &mut Vec<Io>) {
        if !self.slots[key].alone {
            self.write_merged(key, ios);
            return;
        }
        self.loners += 1;
        let span = self.slots[key].span;
        let (head, tail) = span.partial_blocks();
        if let Some(at) = head {
            self.send(key, HEAD, Io::read(0, at, 1), ios);
        }
        if let Some(at) = tail {
            self.send(key, TAIL, Io::read(0, at, 1), ios);
        }
    }

    /// The second half of a write, or all of it if it covers whole blocks.
    fn write_merged(&mut self, key: usize, ios: &mut Vec<Io>) {
        let slot = &mut self.slots[key];
        let span = slot.span;
        let Step::Merge(merge) = std::mem::replace(&mut slot.step, Step::Answer) else {
            panic!("{:?} is not a write", slot.step);
        };
        for mut io in plan::writes(&span, &merge.bytes, merge.head, merge.tail) {
            io.fua = merge.fua;
            self.send(key, MAIN, io, ios);
        }
    }

    /// Takes the answer to a block request: appends the block requests that follow from it, and
    /// answers that are complete.
    ///
    /// # Panics
    /// If no such request is in flight.
    pub fn done(&mut self, done: Done, ios: &mut Vec<Io>, answers: &mut Vec<(W, Answer)>) {
        let (key, part) = ((done.tag / PARTS) as usize, done.tag % PARTS);
        let slot = &mut self.slots[key];
        slot.pending -= 1;
        let mut cut = None;
        match (done.outcome, &mut slot.step) {
            (Err(error), _) => {
                slot.error.get_or_insert(error);
            }
            (Ok(data), Step::Merge(merge)) if part == HEAD => merge.head = Some(data),
            (Ok(data), Step::Merge(merge)) => merge.tail = Some(data),
            (Ok(data), Step::Cut(skip, take)) => cut = Some(Rope::new(data, *skip, *take)),
            (Ok(_), Step::Answer) => {}
        }
        if slot.pending > 0 {
            return;
        }
        if slot.error.is_none() && matches!(slot.step, Step::Merge(_)) {
            self.write_merged(key, ios);
            return;
        }
        let slot = self.slots.remove(key);
        let answer = match (slot.error, cut) {
            (Some(error), _) => answer::failed(error, self.failed),
            (None, Some(rope)) => Answer::Data(rope),
            (None, None) => Answer::Done,
        };
        answers.push((slot.who, answer));
        if slot.alone {
            self.loners -= 1;
        }
        if !self.waiting.is_empty() {
            self.start_waiting(ios);
        }
    }

    fn start_waiting(&mut self, ios: &mut Vec<Io>) {
        let mut still = Vec::new();
        for key in std::mem::take(&mut self.waiting) {
            if self.is_blocked(key) {
                still.push(key);
            } else {
                self.start(key, ios);
            }
        }
        self.waiting = still;
    }

    #[cfg(test)]
    fn waits(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests;
