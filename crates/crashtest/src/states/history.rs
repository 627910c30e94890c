//! What was asked and answered, and what follows from it for a power cut.
//!
//! The rule is that of NBD and of every disk with a volatile cache: a flush makes durable what was
//! *answered* before it was *asked*, once it is answered itself; a write with forced unit access
//! is durable once it is answered. Everything else that was asked before the cut may be there, in
//! any combination, or torn between two sectors. Of two writes to the same bytes the one answered
//! later has the last word.

use std::collections::BTreeMap;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    writes: Vec<Write>,
    flushes: Vec<Flush>,
    /// Where the write or flush of each event that answers or asks is.
    by_number: BTreeMap<u64, Found>,
    events: u64,
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
}

impl History {
    /// The history of an export of `size` bytes. With `multi_conn` a flush on one connection
    /// covers what was answered on all.
    pub fn new(size: u64, multi_conn: bool) -> History {
        History {
            size,
            multi_conn,
            writes: Vec::new(),
            flushes: Vec::new(),
            by_number: BTreeMap::new(),
            events: 0,
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
                assert!(offset + length <= self.size, "{event:?} leaves the export");
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

    /// The index of the write with this number.
    pub fn find(&self, number: u64) -> Option<usize> {
        match self.by_number.get(&number) {
            Some(&Found::Write(index)) => Some(index),
            _ => None,
        }
    }

    /// The epochs in order.
    pub fn epochs(&self) -> Epochs<'_> {
        let mut changes: Vec<(u64, Found)> = Vec::new();
        changes.extend(self.writes.iter().enumerate().map(|(i, w)| (w.asked, Found::Write(i))));
        let flushes = self.flushes.iter().enumerate().filter(|(_, flush)| !flush.failed);
        changes.extend(flushes.filter_map(|(i, f)| Some((f.answered?, Found::Flush(i)))));
        let durable = |write: &Write| write.fua && !write.failed;
        let forced = self.writes.iter().enumerate().filter(|(_, write)| durable(write));
        changes.extend(forced.filter_map(|(i, w)| Some((w.answered?, Found::Write(i)))));
        changes.sort_unstable_by_key(|(at, _)| *at);
        Epochs {
            history: self,
            changes,
            next: 0,
            over: false,
            unsettled: Vec::new(),
            settled: Vec::new(),
            index: 0,
            flushes: 0,
            durable: 0,
        }
    }

    /// The epoch whose cut is at this event.
    pub fn epoch_at(&self, cut: u64) -> Option<Epoch> {
        self.epochs().find(|epoch| epoch.cut == cut)
    }

    /// True if a flush makes a write durable.
    fn covers(&self, flush: &Flush, write: &Write) -> bool {
        let answered = write.answered.is_some_and(|at| at < flush.asked) && !write.failed;
        answered && (self.multi_conn || write.connection == flush.connection)
    }
}

/// Walks from epoch to epoch.
#[derive(Debug)]
pub struct Epochs<'h> {
    history: &'h History,
    /// Events that matter: writes asked for, flushes answered, forced writes answered.
    changes: Vec<(u64, Found)>,
    next: usize,
    over: bool,
    /// In order of asking.
    unsettled: Vec<Unsettled>,
    settled: Vec<Unsettled>,
    index: u64,
    flushes: u64,
    durable: u64,
}

impl Epochs<'_> {
    /// The epoch that ends before the event `cut`.
    fn close(&mut self, cut: u64) -> Epoch {
        let mut unsettled = self.unsettled.clone();
        let rank = |one: &Unsettled| {
            let write = &self.history.writes[one.write];
            // What is answered only later has not been answered yet.
            let answered = write.answered.filter(|&at| at < cut);
            (answered.unwrap_or(u64::MAX), write.asked)
        };
        unsettled.sort_by_key(rank);
        let epoch = Epoch {
            index: self.index,
            cut,
            settled: std::mem::take(&mut self.settled),
            unsettled,
            flushes: self.flushes,
            durable: self.durable,
        };
        self.index += 1;
        epoch
    }

    /// Makes the unsettled writes durable that `which` names.
    fn settle(&mut self, which: impl Fn(&Write) -> bool) {
        let writes = &self.history.writes;
        let all = std::mem::take(&mut self.unsettled);
        let (mut done, mut left): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| which(&writes[one.write]));
        done.sort_by_key(|one| writes[one.write].rank());
        for newer in &done {
            let write = &writes[newer.write];
            for older in &mut left {
                let other = &writes[older.write];
                if other.overlaps(write) && other.rank() < write.rank() {
                    older.under.push(newer.write);
                }
            }
        }
        self.durable += done.len() as u64;
        self.settled = done;
        self.unsettled = left;
    }
}

impl Iterator for Epochs<'_> {
    type Item = Epoch;

    fn next(&mut self) -> Option<Epoch> {
        while let Some(&(at, found)) = self.changes.get(self.next) {
            self.next += 1;
            let history = self.history;
            match found {
                Found::Write(index) if history.writes[index].asked == at => {
                    self.unsettled.push(Unsettled { write: index, under: Vec::new() });
                }
                Found::Write(index) => {
                    let epoch = self.close(at);
                    let number = history.writes[index].number;
                    self.settle(|write| write.number == number);
                    return Some(epoch);
                }
                Found::Flush(index) => {
                    let flush = &history.flushes[index];
                    let covers = |write: &Write| history.covers(flush, write);
                    let some = self.unsettled.iter().any(|one| covers(&history.writes[one.write]));
                    // One that makes nothing durable forbids nothing new, but a check may ask
                    // how many there were.
                    let epoch = some.then(|| self.close(at));
                    if some {
                        self.settle(covers);
                    }
                    self.flushes += 1;
                    if epoch.is_some() {
                        return epoch;
                    }
                }
            }
        }
        if self.over {
            return None;
        }
        self.over = true;
        Some(self.close(self.history.events))
    }
}
