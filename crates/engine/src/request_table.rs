//! The request table of a layout: requests from above that have not been answered, what of them
//! waits to be begun, and the answers.
//!
//! A layout takes every request in through [`RequestTable::accept`]. Reads go to a queue; writes
//! and trims are cut into *parts* of at most [`Limits`] blocks, which go to the same queue; a flush
//! comes back to the layout at once. The layout takes [`Work`] from the queue when it can, and says
//! of each piece of it that it is done. A request is answered when its last part is: at once, or
//! when the layout says that everything up to some number of its own (of a commit, a log record) is
//! durable. The first error of the write path *fails* the request table: from then on it takes
//! reads only.

use crate::clean_shutdown::CleanShutdown;
use crate::data::Data;
use crate::edge::Edge;
use crate::io::{Breakdown, Done, Io, IoError, Op, Outcome, Purpose, Tag};
use crate::layer::Cx;
use crate::planted::{PlantedBug, planted};
use crate::transaction::Transaction;
use crate::units::{BlockNr, Time};
use slab::Slab;
use std::collections::VecDeque;
use std::hint::cold_path;

/// Names a request at its request table until it is answered.
pub type RequestNr = usize;

/// Part of a request that waits to be begun.
#[derive(Clone, Debug)]
pub enum Work {
    /// A whole read.
    Read {
        /// Whose part it is.
        request: RequestNr,
        /// First block of the volume.
        at: BlockNr,
        /// Number of blocks.
        count: u32,
    },
    /// Part of a write.
    Write {
        /// Whose part it is.
        request: RequestNr,
        /// First block of the volume.
        at: BlockNr,
        /// What to write there.
        data: Data,
        /// Blocks of zeros take their room, too.
        keep: bool,
    },
    /// Part of a trim.
    Trim {
        /// Whose part it is.
        request: RequestNr,
        /// First block of the volume.
        at: BlockNr,
        /// Number of blocks.
        count: u32,
    },
    /// A whole transaction of several requests.
    Group {
        /// Which one it is.
        request: RequestNr,
        /// What it changes.
        all: Transaction,
    },
}

impl Work {
    /// Whose part it is.
    pub fn request(&self) -> RequestNr {
        match self {
            Work::Read { request, .. }
            | Work::Write { request, .. }
            | Work::Trim { request, .. }
            | Work::Group { request, .. } => *request,
        }
    }
}

/// Most blocks of a part: what is atomic, or bounded in what it drags along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a write, at least 1.
    pub write: u64,
    /// Of a trim, at least 1.
    pub trim: u64,
}

/// A request from above that has not been answered.
#[derive(Clone, Debug)]
struct Request {
    tag: Tag,
    fua: bool,
    since: Time,
    spent: Breakdown,
    /// Parts that are not done.
    left: u32,
    failed: Option<IoError>,
    /// What a read has found.
    data: Data,
}

/// A request that passes straight through to a device: it has one part, keeps no data here and
/// waits for nothing. Small, because update in place has no other requests.
#[derive(Clone, Copy, Debug)]
struct Whole {
    tag: Tag,
    since: Time,
    spent: Breakdown,
}

/// Requests in flight and how they are answered.
#[derive(Clone, Debug)]
pub struct RequestTable<W = u64> {
    read_only: bool,
    failed: Option<IoError>,
    shutdown: CleanShutdown,
    requests: Slab<Request>,
    wholes: Slab<Whole>,
    queue: VecDeque<Work>,
    /// Requests that wait for something of the layout's own, with what each needs: for most a
    /// number up to which everything must be durable.
    waiters: Vec<(RequestNr, W)>,
    /// Since when no request with parts has been in flight.
    idle_since: Option<Time>,
}

impl<W> RequestTable<W> {
    /// Nothing in flight. A `read_only` request table refuses writes and trims.
    pub fn new(read_only: bool) -> RequestTable<W> {
        RequestTable {
            read_only,
            failed: None,
            shutdown: CleanShutdown::Running,
            requests: Slab::new(),
            wholes: Slab::new(),
            queue: VecDeque::new(),
            waiters: Vec::new(),
            idle_since: Some(0),
        }
    }

    /// True if writes were refused from the start.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The first error of the write path, if there was one.
    pub fn failed(&self) -> Option<IoError> {
        self.failed
    }

    /// True if every request has been answered.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.wholes.is_empty()
    }

    /// Takes a request in, or refuses it. Reads, writes and trims are queued; of a flush the
    /// number is returned, for the layout to answer it with [`RequestTable::part_done`] or to let
    /// it wait with [`RequestTable::wait`].
    pub fn accept(&mut self, io: Io, limits: Limits, cx: &mut Cx<'_>) -> Option<RequestNr> {
        debug_assert!(limits.write > 0 && limits.trim > 0, "{limits:?} cut a request into nothing");
        if io.op != Op::Read && self.is_answered_at_once(&io, cx) {
            return None;
        }
        match io.op {
            Op::Read => {
                let request = self.open(&io, 1, cx.now);
                self.queue.push_back(Work::Read { request, at: io.at, count: io.count });
                None
            }
            Op::Write | Op::Trim => {
                let limit = if io.op == Op::Write { limits.write } else { limits.trim };
                self.enqueue(io, limit, cx.now);
                None
            }
            Op::Flush => Some(self.open(&io, 1, cx.now)),
        }
    }

    /// Takes in a request that goes to a device as it is, or refuses it. Nothing is queued: the
    /// layout sends the request on and answers it with [`RequestTable::answer_whole`]. The number
    /// is one of its own kind.
    #[inline]
    pub fn accept_whole(&mut self, io: &Io, cx: &mut Cx<'_>) -> Option<RequestNr> {
        if io.op != Op::Read && self.is_answered_at_once(io, cx) {
            return None;
        }
        let spent = Breakdown::default();
        Some(self.wholes.insert(Whole { tag: io.tag, since: cx.now, spent }))
    }

    /// Adds time that a device has spent on a request that was taken in whole.
    #[inline]
    pub fn spend_whole(&mut self, request: RequestNr, spent: &Breakdown) {
        self.wholes[request].spent.add(spent);
    }

    /// Answers a request that was taken in whole.
    #[inline]
    pub fn answer_whole(&mut self, request: RequestNr, outcome: Outcome, cx: &mut Cx<'_>) {
        let Whole { tag, since, spent } = self.wholes.remove(request);
        debug_assert!(since <= cx.now, "request {tag:#x} is answered before it came");
        cx.answer(Done { tag, outcome, spent: spent.within(cx.now - since) });
    }

    /// Takes in a request whose parts the layout keeps itself, or refuses it. Nothing is queued.
    pub fn begin(&mut self, io: &Io, parts: u32, cx: &mut Cx<'_>) -> Option<RequestNr> {
        if io.op != Op::Read && self.is_answered_at_once(io, cx) {
            return None;
        }
        Some(self.open(io, parts, cx.now))
    }

    /// Takes a transaction in, or refuses it. It is queued as one part.
    pub fn accept_group(&mut self, tag: Tag, all: Transaction, fua: bool, cx: &mut Cx<'_>) {
        if let Some(error) = self.refusal(Op::Write) {
            cx.fail(tag, error);
            return;
        }
        let io = Io { fua, ..Io::flush(tag) };
        let request = self.open(&io, 1, cx.now);
        self.queue.push_back(Work::Group { request, all });
    }

    /// Refuses a request that changes something, if it must. True if the request is answered.
    #[inline]
    fn is_answered_at_once(&self, io: &Io, cx: &mut Cx<'_>) -> bool {
        if let Some(error) = self.refusal(io.op) {
            cold_path();
            cx.fail(io.tag, error);
            return true;
        }
        let early = io.op == Op::Flush && planted(PlantedBug::AckBeforeDurable);
        if early {
            cx.answer(Done::new(io.tag, Ok(Data::none())));
        }
        early
    }

    fn refusal(&self, op: Op) -> Option<IoError> {
        match (self.failed, op) {
            (Some(error), Op::Flush) => Some(error),
            (Some(_), _) => Some(IoError::ReadOnly),
            (None, Op::Flush) => None,
            (None, _) => self.read_only.then_some(IoError::ReadOnly),
        }
    }

    fn open(&mut self, io: &Io, parts: u32, now: Time) -> RequestNr {
        debug_assert!(parts > 0, "a request without parts is never answered");
        self.idle_since = None;
        self.requests.insert(Request {
            tag: io.tag,
            fua: io.fua && !planted(PlantedBug::AckBeforeDurable),
            since: now,
            spent: Breakdown::default(),
            left: parts,
            failed: None,
            data: Data::none(),
        })
    }

    /// Cuts a write or a trim into parts of at most `limit` blocks.
    fn enqueue(&mut self, io: Io, limit: u64, now: Time) {
        debug_assert!(self.failed.is_none(), "a failed volume takes a change in");
        let parts = u64::from(io.count).div_ceil(limit) as u32;
        let request = self.open(&io, parts, now);
        if parts == 1 && io.op == Op::Write {
            self.queue.push_back(Work::Write { request, at: io.at, data: io.data, keep: io.keep });
            return;
        }
        let mut from = 0;
        while from < io.count {
            let count = u64::from(io.count - from).min(limit) as u32;
            let at = io.at + u64::from(from);
            self.queue.push_back(match io.op {
                Op::Write => {
                    let data = io.data.slice(from, count);
                    Work::Write { request, at, data, keep: io.keep }
                }
                _ => Work::Trim { request, at, count },
            });
            from += count;
        }
        debug_assert_eq!(from, io.count, "the parts are the request");
    }

    /// What is to be begun next, in order of arrival.
    pub fn front(&self) -> Option<&Work> {
        self.queue.front()
    }

    /// True if a read is to be begun next.
    pub fn next_is_read(&self) -> bool {
        matches!(self.queue.front(), Some(Work::Read { .. }))
    }

    /// Takes it from the queue.
    pub fn pop(&mut self) -> Option<Work> {
        let work = self.queue.pop_front();
        if self.queue.is_empty() {
            // The next one takes the same place: a ring that goes round leaves the cache.
            self.queue.clear();
        }
        work
    }

    /// Takes back what was queued last: a read that is to overtake writes.
    pub fn pop_last(&mut self) -> Option<Work> {
        self.queue.pop_back()
    }

    /// Parts that wait to be begun.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Adds time that a device has spent on a request.
    pub fn spend(&mut self, request: RequestNr, spent: &Breakdown) {
        self.requests[request].spent.add(spent);
    }

    /// A request has failed: of several errors it is answered with the first one.
    pub fn fail(&mut self, request: RequestNr, error: IoError) {
        self.requests[request].failed.get_or_insert(error);
    }

    /// True if part of a request has failed.
    pub fn has_failed(&self, request: RequestNr) -> bool {
        self.requests[request].failed.is_some()
    }

    /// A read has found its data; [`RequestTable::part_done`] sends it.
    pub fn found(&mut self, request: RequestNr, data: Data) {
        debug_assert!(self.requests[request].data.is_empty(), "request {request} is read twice");
        self.requests[request].data = data;
    }

    /// One part of a request is done; answers it if that was the last one.
    pub fn part_done(&mut self, request: RequestNr, cx: &mut Cx<'_>) {
        debug_assert!(self.requests[request].left > 0, "request {request} has no part left");
        self.requests[request].left -= 1;
        if self.requests[request].left == 0 {
            self.answer(request, cx);
        }
    }

    /// One part of a write or trim has happened, though it may not be durable. After the last one
    /// the request is answered; if it asked to be durable it is returned instead, to
    /// [`RequestTable::wait`].
    #[must_use = "a request that is neither answered nor waits is lost"]
    pub fn part_written(&mut self, request: RequestNr, cx: &mut Cx<'_>) -> Option<RequestNr> {
        let one = &mut self.requests[request];
        debug_assert!(one.left > 0, "request {request} has no part left");
        one.left -= 1;
        if one.left > 0 {
            return None;
        }
        if one.fua && one.failed.is_none() {
            one.left = 1;
            return Some(request);
        }
        self.answer(request, cx);
        None
    }

    /// A request has come to more parts.
    pub fn add_parts(&mut self, request: RequestNr, parts: u32) {
        let left = &mut self.requests[request].left;
        debug_assert!(*left > 0, "an answered request gets no parts");
        *left += parts;
    }

    /// One part of a request is done, but not the last: the layout keeps that one for the answer.
    /// True if it is all that is left.
    pub fn end_part(&mut self, request: RequestNr) -> bool {
        let left = &mut self.requests[request].left;
        debug_assert!(*left > 1, "the last part is for the answer");
        *left -= 1;
        *left == 1
    }

    fn answer(&mut self, request: RequestNr, cx: &mut Cx<'_>) {
        debug_assert!(self.requests[request].since <= cx.now, "answered before it came");
        let request = self.requests.remove(request);
        if self.requests.is_empty() {
            self.idle_since = Some(cx.now);
        }
        let outcome = match request.failed {
            Some(error) => Err(error),
            None => Ok(request.data),
        };
        let spent = request.spent.within(cx.now - request.since);
        cx.answer(Done { tag: request.tag, outcome, spent });
    }

    /// Answers a request, of which one part is left, when what it needs has come about: for a
    /// number, when everything up to it is durable.
    pub fn wait(&mut self, request: RequestNr, needs: W) {
        debug_assert_eq!(self.requests[request].left, 1);
        self.waiters.push((request, needs));
    }

    /// What the requests that wait need, in the order in which they began to wait.
    pub fn needs(&self) -> impl Iterator<Item = &W> {
        self.waiters.iter().map(|(_, needs)| needs)
    }

    /// True if a request waits for something that `concerns` is true of.
    pub fn any_waits(&self, concerns: impl Fn(&W) -> bool) -> bool {
        self.needs().any(concerns)
    }

    /// Answers the requests whose needs are met, in the order in which they began to wait.
    pub fn answer_met(&mut self, mut is_met: impl FnMut(&mut W) -> bool, cx: &mut Cx<'_>) {
        let mut index = 0;
        while index < self.waiters.len() {
            if is_met(&mut self.waiters[index].1) {
                let (request, _) = self.waiters.remove(index);
                self.part_done(request, cx);
            } else {
                index += 1;
            }
        }
    }

    /// True if a request asked to be durable before it is answered, or [`RequestTable::force`]
    /// asked for it.
    pub fn is_forced(&self, request: RequestNr) -> bool {
        self.requests[request].fua
    }

    /// A request must be durable before it is answered, though its client did not ask.
    pub fn force(&mut self, request: RequestNr) {
        self.requests[request].fua = true;
    }

    /// Since when no request has been in flight, if none is. Requests taken in whole do not count.
    pub fn idle_since(&self) -> Option<Time> {
        self.idle_since
    }

    /// Adds time that a device has spent on all requests that wait: that of a flush.
    pub fn spend_on_waiters(&mut self, spent: &Breakdown) {
        self.spend_on(|_| true, spent);
    }

    /// Adds time that a device has spent on the requests that wait for something.
    pub fn spend_on(&mut self, concerns: impl Fn(&W) -> bool, spent: &Breakdown) {
        for (request, _) in self.waiters.iter().filter(|(_, needs)| concerns(needs)) {
            self.requests[*request].spent.add(spent);
        }
    }

    /// Refuses all further writes, after an error on the write path. What is in flight is for the
    /// layout to end. The first error is kept.
    pub fn refuse_changes(&mut self, error: IoError) {
        self.failed.get_or_insert(error);
    }

    /// Refuses all further writes, after an error on the write path; what waits to be begun or to
    /// be durable fails now. The first error is kept.
    pub fn fail_volume(&mut self, error: IoError, cx: &mut Cx<'_>) {
        if self.failed.is_some() || planted(PlantedBug::ErrorForgotten) {
            return;
        }
        self.refuse_changes(error);
        for (request, _) in std::mem::take(&mut self.waiters) {
            self.fail(request, error);
            self.part_done(request, cx);
        }
        // An answer leads to no new waiter: only a layout that takes a request in adds one.
        debug_assert!(self.waiters.is_empty(), "a failed volume has waiters");
        for work in std::mem::take(&mut self.queue) {
            match work {
                Work::Read { .. } => self.queue.push_back(work),
                Work::Write { request, .. }
                | Work::Trim { request, .. }
                | Work::Group { request, .. } => {
                    self.fail(request, error);
                    self.part_done(request, cx);
                }
            }
        }
    }

    /// Asks for a clean shutdown; asking again changes nothing.
    pub fn ask_shutdown(&mut self) {
        if self.shutdown == CleanShutdown::Running {
            self.shutdown.advance(CleanShutdown::Asked);
        }
    }

    /// A clean shutdown of several steps has come to a later one.
    pub fn advance_shutdown(&mut self, to: CleanShutdown) {
        self.shutdown.advance(to);
    }

    /// How far a clean shutdown has come.
    pub fn shutdown(&self) -> CleanShutdown {
        self.shutdown
    }

    /// True if no clean shutdown was asked for: background work may go on.
    pub fn is_running(&self) -> bool {
        self.shutdown == CleanShutdown::Running
    }

    /// True when a clean shutdown that was asked for is complete.
    pub fn is_shut_down(&self) -> bool {
        self.shutdown == CleanShutdown::Done
    }

    /// True if a clean shutdown is asked for, every request is answered, and the layout has to
    /// leave a clean state. A volume that was mounted read-only or has failed leaves none: its
    /// shutdown is complete.
    pub fn must_leave_clean(&mut self) -> bool {
        if self.shutdown != CleanShutdown::Asked || !self.is_idle() {
            return false;
        }
        if self.failed.is_some() || self.read_only {
            self.shutdown.advance(CleanShutdown::Done);
            return false;
        }
        true
    }

    /// The devices hold a clean state.
    pub fn end_shutdown(&mut self) {
        debug_assert!(self.is_idle(), "a shutdown ended with requests in flight");
        self.shutdown.advance(CleanShutdown::Done);
    }

    /// Writes the record of a clean shutdown, one block. Everything that it speaks of is durable.
    pub fn write_shutdown_record(&mut self, tag: Tag, at: BlockNr, record: Data, cx: &mut Cx<'_>) {
        debug_assert!(self.is_idle(), "a record with requests in flight");
        debug_assert!(self.failed.is_none(), "a failed volume leaves no record");
        self.shutdown.advance(CleanShutdown::Record);
        cx.send(0, Io::write(tag, at, record).for_purpose(Purpose::Map));
    }

    /// The record of a clean shutdown, or the flush behind it, was answered; both have this tag.
    pub fn shutdown_record_answered(&mut self, tag: Tag, done: Done, cx: &mut Cx<'_>) {
        debug_assert!(
            matches!(self.shutdown, CleanShutdown::Record | CleanShutdown::Flush),
            "an answer to a record in {:?}",
            self.shutdown
        );
        if let Err(error) = done.outcome {
            self.fail_volume(error, cx);
            self.shutdown.advance(CleanShutdown::Done);
        } else if self.shutdown == CleanShutdown::Record {
            self.shutdown.advance(CleanShutdown::Flush);
            cx.send(0, Edge::ShutdownRecordFlush.flush(tag).for_purpose(Purpose::Map));
        } else {
            self.shutdown.advance(CleanShutdown::Done);
        }
    }

    /// Checks, in debug builds, what holds between two events.
    ///
    /// # Panics
    /// If a request has no part left to wait for, a waiter or queued part belongs to no request, or
    /// a volume that has failed still queues changes.
    pub fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for (number, request) in &self.requests {
            assert!(request.left > 0, "request {number} has no part left and no answer");
        }
        for &(request, _) in &self.waiters {
            assert!(
                self.requests.contains(request),
                "a waiter for request {request}, which is gone"
            );
            assert_eq!(self.requests[request].left, 1, "request {request} waits with parts left");
        }
        for work in &self.queue {
            let request = work.request();
            assert!(self.requests.contains(request), "a part of request {request}, which is gone");
            let changes = !matches!(work, Work::Read { .. });
            assert!(!(changes && self.failed.is_some()), "a failed volume queues a change");
        }
        let done = self.shutdown == CleanShutdown::Done;
        assert!(!done || self.waiters.is_empty(), "a shutdown ended with waiters");
    }
}

impl RequestTable {
    /// Everything up to `number` is durable: answers the requests that waited for that.
    pub fn durable(&mut self, number: u64, cx: &mut Cx<'_>) {
        self.answer_met(|needs| *needs <= number, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const LIMITS: Limits = Limits { write: 4, trim: 10 };

    /// Calls `act` with a context at a time and returns the answers, by tag and success.
    fn at(now: Time, act: impl FnOnce(&mut Cx<'_>)) -> Vec<(u64, Result<(), IoError>)> {
        let (mut below, mut above) = (Vec::new(), Vec::new());
        act(&mut Cx {
            now,
            rng: &mut Rng::stream(1, "table"),
            idle_since: None,
            below: &mut below,
            above: &mut above,
            devices: &[],
        });
        above.into_iter().map(|done| (done.tag, done.outcome.map(|_| ()))).collect()
    }

    #[test]
    fn a_request_is_answered_after_its_last_part() {
        let mut table = RequestTable::new(false);
        let answers = at(0, |cx| {
            table.accept(Io::write(7, 100, Data::stamp(9, 100, 1)).with_fua(), LIMITS, cx);
            table.accept(Io::trim(8, 50, 11), LIMITS, cx);
        });
        assert_eq!((answers, table.queued()), (vec![], 5));
        let mut parts = Vec::new();
        while let Some(work) = table.pop() {
            parts.push(match work {
                Work::Write { request, at, data, .. } => (request, at, data.blocks()),
                Work::Trim { request, at, count } | Work::Read { request, at, count } => {
                    (request, at, count)
                }
                Work::Group { .. } => unreachable!("none was handed in"),
            });
        }
        let spans: Vec<_> = parts.iter().map(|&(_, at, count)| (at, count)).collect();
        assert_eq!(spans, [(100, 4), (104, 4), (108, 1), (50, 10), (60, 1)]);
        let mut durable = None;
        let answers = at(5, |cx| {
            for &(request, ..) in &parts[..3] {
                durable = table.part_written(request, cx);
            }
            table.part_done(parts[3].0, cx);
        });
        assert_eq!(answers, []);
        table.wait(durable.expect("it asked to be durable"), 3);
        assert_eq!(at(6, |cx| table.durable(2, cx)), []);
        assert!(table.any_waits(|&number| number == 3));
        assert_eq!(at(6, |cx| table.durable(3, cx)), [(7, Ok(()))]);
        assert_eq!(at(7, |cx| table.part_done(parts[4].0, cx)), [(8, Ok(()))]);
        assert!(table.is_idle());
    }

    #[test]
    fn a_failed_table_takes_reads_only() {
        let error = IoError::Media { block: 9 };
        let mut table = RequestTable::new(false);
        let answers = at(0, |cx| {
            table.accept(Io::read(1, 0, 1), LIMITS, cx);
            table.accept(Io::write(2, 0, Data::stamp(1, 0, 1)), LIMITS, cx);
            let flush = table.accept(Io::flush(3), LIMITS, cx).expect("it is handed back");
            table.wait(flush, 1);
            table.fail_volume(error, cx);
            table.fail_volume(IoError::NoSpace, cx);
            table.accept(Io::flush(4), LIMITS, cx);
            table.accept(Io::trim(5, 0, 1), LIMITS, cx);
        });
        let refused = IoError::ReadOnly;
        assert_eq!(answers, [(3, Err(error)), (2, Err(error)), (4, Err(error)), (5, Err(refused))]);
        assert!(table.next_is_read() && table.queued() == 1);
        assert_eq!(table.failed(), Some(error));
        let mut table: RequestTable = RequestTable::new(true);
        let answers = at(0, |cx| {
            table.accept(Io::write(1, 0, Data::stamp(1, 0, 1)), LIMITS, cx);
            assert!(table.accept(Io::flush(2), LIMITS, cx).is_some(), "nothing is lost by it");
        });
        assert_eq!(answers, [(1, Err(refused))]);
    }
}
