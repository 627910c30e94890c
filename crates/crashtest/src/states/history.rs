//! What was asked and answered, and what follows from it for a power cut.
//!
//! The rule is that of NBD and of every disk with a volatile cache: a flush makes durable what was
//! *answered* before it was *asked*, once it is answered itself; a write with forced unit access
//! is durable once it is answered. Everything else that was asked before the cut may be there, in
//! any combination, or torn between two sectors. Of two writes to the same bytes the one answered
//! later has the last word.
//!
//! A recording of calls has another rule: its model says what a sync makes durable, and which
//! writes are on the disk only with others. Its writes are the micro-operations of the model.
//!
//! A mark is an acknowledgement: before that event a program promised a value to its own clients.
//! A state owes all values that were acknowledged before its cut.

mod calls;
mod device;

use calls::CallEpochs;
use device::DeviceEpochs;
use seekless_calls::model::Modelled;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a request wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Data,
    /// Zeros.
    Zeros,
    /// Nothing: the bytes were forgotten and count as zeros.
    Trim,
}

/// One event of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something that changes bytes was asked for.
    Write {
        /// Number of the request.
        number: u64,
        /// Which connection asked.
        connection: u32,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// What was to be written.
        kind: Kind,
        /// Answered only when durable.
        fua: bool,
    },
    /// A flush was asked for.
    Flush {
        /// Number of the request.
        number: u64,
        /// Which connection asked.
        connection: u32,
    },
    /// A request was answered.
    Answer {
        /// Its number.
        number: u64,
        /// It failed: what it was to do may be done, in part or not at all.
        failed: bool,
    },
    /// The workload begins.
    Begin,
    /// A program acknowledged a value.
    Mark {
        /// The value.
        value: Arc<str>,
    },
}

/// An acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What was acknowledged.
    pub value: Arc<str>,
    /// Index of its event.
    pub at: u64,
}

/// What was acknowledged before a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked<'h> {
    /// Number of acknowledgements.
    pub count: u64,
    /// The value of the last one.
    pub last: Option<&'h str>,
}

/// A write, zeros or a trim of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Number of the request.
    pub number: u64,
    /// Which connection asked.
    pub connection: u32,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// What was to be written.
    pub kind: Kind,
    /// Answered only when durable.
    pub fua: bool,
    /// Index of the event that asked.
    pub asked: u64,
    /// Index of the event that answered.
    pub answered: Option<u64>,
    /// The answer was an error.
    pub failed: bool,
}

impl Write {
    /// One past the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    fn overlaps(&self, other: &Write) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }

    /// Where it stands among writes to the same bytes.
    fn rank(&self) -> (u64, u64) {
        (self.answered.unwrap_or(u64::MAX), self.asked)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flush {
    connection: u32,
    asked: u64,
    answered: Option<u64>,
    failed: bool,
}

/// A whole recording in terms of what a power cut may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    size: u64,
    multi_conn: bool,
    /// Where the second of two disks begins.
    second: Option<u64>,
    writes: Vec<Write>,
    flushes: Vec<Flush>,
    /// Where the write or flush with each number is.
    by_number: BTreeMap<u64, Found>,
    marks: Vec<Mark>,
    events: u64,
    /// The workload begins with this event.
    begin: Option<u64>,
    /// The calls that the writes are parts of, under a model.
    calls: Option<Arc<Modelled>>,
    /// Of calls: the cuts of all epochs, in order.
    cuts: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Write(usize),
    Flush(usize),
}

/// A write that a power cut may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// Its index among the writes of the history.
    pub write: usize,
    /// Durable writes that are newer and share bytes with it: they lie on top of it.
    pub under: Vec<usize>,
}

/// The time between two moments at which something became durable. All legal outcomes of a power
/// cut in between are outcomes of a cut at its end, so that is where the power goes.
///
/// This holds for acknowledgements, too. The end of the epoch has all acknowledgements of the epoch
/// and all its unsettled writes. A state that lacks a value acknowledged early in the epoch is
/// found there: an outcome may lose every write that was asked after that acknowledgement. So the
/// epoch needs no cut of its own at each mark.
///
/// The check must keep to one rule: a later acknowledgement never releases an earlier promise. A
/// check that expects only the last value of a key breaks it where the key changes twice in one
/// epoch. It may accept a state that an earlier cut forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Number of the epoch, from 0.
    pub index: u64,
    /// The power goes right before the event of this index.
    pub cut: u64,
    /// What became durable at its beginning, oldest first, with what lies on top.
    pub settled: Vec<Unsettled>,
    /// What the cut may take, oldest first.
    pub unsettled: Vec<Unsettled>,
    /// Flushes answered before the cut.
    pub flushes: u64,
    /// Writes that are durable.
    pub durable: u64,
    /// Acknowledgements before the cut.
    pub acked: u64,
}

impl History {
    /// The history of an export of `size` bytes. With `multi_conn` a flush on one connection
    /// covers what was answered on all.
    pub fn new(size: u64, multi_conn: bool) -> History {
        History {
            size,
            multi_conn,
            second: None,
            writes: Vec::new(),
            flushes: Vec::new(),
            by_number: BTreeMap::new(),
            marks: Vec::new(),
            events: 0,
            begin: None,
            calls: None,
            cuts: Vec::new(),
        }
    }

    /// The same of two disks that lie one behind the other: the second begins at this byte.
    pub fn with_second(self, second: Option<u64>) -> History {
        History { second, ..self }
    }

    /// Where the second of two disks begins.
    pub fn second(&self) -> Option<u64> {
        self.second
    }

    /// The disk of a byte, 0 or 1, and where the byte lies on it.
    pub fn on_disk(&self, offset: u64) -> (usize, u64) {
        match self.second {
            Some(second) if offset >= second => (1, offset - second),
            _ => (0, offset),
        }
    }

    /// Appends an event. The recording has been checked: numbers are unique, ranges lie inside,
    /// and what is answered was asked.
    ///
    /// # Panics
    /// If that is not so.
    pub fn push(&mut self, event: Event) {
        let at = self.events;
        self.events += 1;
        match event {
            Event::Write { number, connection, offset, length, kind, fua } => {
                assert!(offset + length <= self.size, "request {number} leaves the export");
                self.by_number.insert(number, Found::Write(self.writes.len()));
                let (asked, answered, failed) = (at, None, false);
                self.writes.push(Write {
                    number,
                    connection,
                    offset,
                    length,
                    kind,
                    fua,
                    asked,
                    answered,
                    failed,
                });
            }
            Event::Flush { number, connection } => {
                self.by_number.insert(number, Found::Flush(self.flushes.len()));
                let flush = Flush { connection, asked: at, answered: None, failed: false };
                self.flushes.push(flush);
            }
            Event::Answer { number, failed } => match self.by_number.get(&number) {
                Some(&Found::Write(index)) => {
                    let write = &mut self.writes[index];
                    (write.answered, write.failed) = (Some(at), failed);
                }
                Some(&Found::Flush(index)) => {
                    let flush = &mut self.flushes[index];
                    (flush.answered, flush.failed) = (Some(at), failed);
                }
                None => panic!("an answer to request {number}, which was never asked"),
            },
            Event::Begin => self.begin = Some(at),
            Event::Mark { value } => self.marks.push(Mark { value, at }),
        }
    }

    /// Size of the export in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The writes in the order in which they were asked for.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// The events at which a flush was answered that did not fail.
    pub fn flushed(&self) -> impl Iterator<Item = u64> + '_ {
        let flushes = self.flushes.iter().filter(|flush| !flush.failed);
        let calls = self.calls.iter().flat_map(|calls| &calls.recorded().syncs);
        flushes.filter_map(|flush| flush.answered).chain(calls.map(|sync| sync.answered))
    }

    /// The index of the write with this number.
    pub fn find(&self, number: u64) -> Option<usize> {
        if self.calls.is_some() {
            return usize::try_from(number).ok().filter(|&index| index < self.writes.len());
        }
        match self.by_number.get(&number) {
            Some(&Found::Write(index)) => Some(index),
            _ => None,
        }
    }

    /// The acknowledgements in order.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// What was acknowledged before the event `cut`.
    pub fn acked(&self, cut: u64) -> Acked<'_> {
        let count = self.marks.partition_point(|mark| mark.at < cut);
        let last = self.marks[..count].last().map(|mark| &*mark.value);
        Acked { count: count as u64, last }
    }

    /// The event of the first acknowledgement of this value.
    pub fn find_mark(&self, value: &str) -> Option<u64> {
        self.marks.iter().find(|mark| &*mark.value == value).map(|mark| mark.at)
    }

    /// The event with which the workload begins; 0 if the recording does not say.
    pub fn begin(&self) -> u64 {
        self.begin.unwrap_or(0)
    }

    /// The epochs in order.
    pub fn epochs(&self) -> Epochs<'_> {
        match &self.calls {
            Some(calls) => Epochs::Calls(CallEpochs::new(self, calls)),
            None => Epochs::Device(self.device_epochs()),
        }
    }

    /// The epoch whose cut is at this event.
    pub fn epoch_at(&self, cut: u64) -> Option<Epoch> {
        self.epochs().find(|epoch| epoch.cut == cut)
    }
}

/// Walks from epoch to epoch.
#[derive(Debug)]
pub enum Epochs<'h> {
    /// Of a recording of a device.
    Device(DeviceEpochs<'h>),
    /// Of a recording of calls.
    Calls(CallEpochs<'h>),
}

impl Iterator for Epochs<'_> {
    type Item = Epoch;

    fn next(&mut self) -> Option<Epoch> {
        match self {
            Epochs::Device(epochs) => epochs.next(),
            Epochs::Calls(epochs) => epochs.next(),
        }
    }
}
