//! Commits: writing label blocks and the trim map, knowing what is durable, and when a superseded
//! place may be used again.
//!
//! A commit is no unit of atomicity here, transactions are; it is what becomes durable together.
//! It covers all that is installed when it begins. On a device that keeps completed writes each
//! batch is a commit; elsewhere commits wait for a flush, a limit or a pause.

use super::format::{RECORDS, Record, TRIMS_START};
use super::table::Entry;
use super::write::Commands;
use super::{COMMIT_DELAY, FLUSH, Loge, META, RECORD, UNVERIFIED_LIMIT};
use crate::data::{Body, Data, Piece};
use crate::io::{Breakdown, Done, Io, IoError, Label};
use crate::layer::Cx;
use crate::layout::desk::Work;
use crate::planted::{PlantedBug, planted};
use crate::units::BlockNr;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A commit on its way to the device, with the batch it belongs to where there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Commit {
    number: u64,
    commands_left: u32,
    failed: Option<IoError>,
    spent: Breakdown,
    /// Requests (one mention per part) that are answered when it is complete.
    pub requests: SmallVec<[usize; 2]>,
    /// Table entries to restore should it fail.
    pub undo: SmallVec<[(BlockNr, Entry); 2]>,
}

/// The numbers of commits, and the places that wait for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// Number of the last commit begun; the one that collects changes has the next.
    last: u64,
    /// All commits up to this one are on the device.
    committed: u64,
    /// All commits up to this one are durable, and with them all transactions up to the stamp.
    durable: u64,
    durable_stamp: u64,
    /// The last commit that wrote tombstones.
    last_with_trims: u64,
    /// For commits that are not yet durable: up to which stamp they cover all transactions.
    covers: VecDeque<(u64, u64)>,
    /// Superseded places by the commit that supersedes them.
    superseded: VecDeque<(u64, Vec<u32>)>,
    waiting: u64,
    spare: Vec<Vec<u32>>,
}

impl History {
    /// After a mount: all transactions up to `stamp` are durable.
    pub fn restore(&mut self, stamp: u64) {
        *self = History { durable_stamp: stamp, ..History::default() };
    }

    /// Number of the commit that collects changes now.
    pub fn open(&self) -> u64 {
        self.last + 1
    }

    /// All transactions up to this one are durable.
    pub fn durable_stamp(&self) -> u64 {
        self.durable_stamp
    }

    /// Places that the open commit supersedes.
    fn waiting_open(&self) -> u64 {
        let open = self.superseded.back().filter(|(commit, _)| *commit == self.open());
        open.map_or(0, |(_, places)| places.len() as u64)
    }

    /// The open commit supersedes a place.
    pub fn supersede(&mut self, place: u32) {
        self.waiting += 1;
        let open = self.open();
        match self.superseded.back_mut() {
            Some((commit, places)) if *commit == open => places.push(place),
            _ => {
                let mut places = self.spare.pop().unwrap_or_default();
                places.push(place);
                self.superseded.push_back((open, places));
            }
        }
    }
}

impl Loge {
    /// True if a commit may begin. A sector of the trim map keeps two tombstones of each block: the
    /// last one and the one before, which a recovery believes. Were it written again before the
    /// last one is durable, a recovery would believe a transaction that may not hold.
    pub(super) fn may_commit(&self) -> bool {
        !self.trims.is_dirty() || self.history.last_with_trims <= self.history.durable
    }

    /// Writes all labels and tombstones that changed, behind the data in `commands`.
    pub(super) fn begin_commit(
        &mut self,
        mut commit: Commit,
        mut commands: Commands,
        cx: &mut Cx<'_>,
    ) {
        self.changed_since = None;
        self.counters.commits += 1;
        self.committed_at = self.counters.data_blocks;
        let labels = self.labels.as_mut().map_or_else(Vec::new, |area| area.take_dirty());
        let buried = self.trims.take_dirty();
        let trims = buried.len() as u64;
        self.counters.trim_blocks += trims;
        self.counters.label_blocks += labels.len() as u64;
        let buried = buried.into_iter().map(|(block, sectors)| (TRIMS_START + block, sectors));
        for (at, sectors) in labels.into_iter().chain(buried) {
            commands.push(at as u32, Piece::block(Body::Sectors(sectors)), Label::default());
        }
        commit.number = self.history.open();
        self.history.last = commit.number;
        if trims > 0 {
            self.history.last_with_trims = commit.number;
        }
        let first_in_flight = self.in_flight.first().copied();
        let covers = first_in_flight.unwrap_or(self.next_stamp) - 1;
        self.history.covers.push_back((commit.number, covers));
        commit.commands_left = commands.send(META, self.areas.headers, cx);
        if commit.commands_left == 0 {
            self.committed(commit, cx);
        } else {
            self.commit = Some(commit);
        }
    }

    /// A command of the commit has been answered.
    pub(super) fn commit_part_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        let Some(commit) = &mut self.commit else {
            panic!("answer to a commit that is not in flight");
        };
        commit.commands_left -= 1;
        commit.spent.add(&done.spent);
        if let Err(error) = done.outcome {
            commit.failed.get_or_insert(error);
        }
        if commit.commands_left == 0
            && let Some(commit) = self.commit.take()
        {
            self.committed(commit, cx);
        }
    }

    /// All of a commit is on the device, or has failed.
    fn committed(&mut self, commit: Commit, cx: &mut Cx<'_>) {
        if let Some(error) = commit.failed {
            self.undo(&commit.undo);
            for &request in &commit.requests {
                self.desk.fail(request, error);
            }
            self.desk.latch(error, cx);
        } else {
            self.history.committed = commit.number;
            if !self.volatile || planted(PlantedBug::MissingFlush) {
                self.durable_up_to(commit.number, cx);
            }
        }
        let share = commit.spent.share(commit.requests.len().max(1) as u64);
        for request in commit.requests {
            self.desk.spend(request, &share);
            self.desk.part_done(request, cx);
        }
    }

    /// The device has flushed.
    pub(super) fn flush_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        let covered = self.flush.take().unwrap_or(self.history.durable);
        self.desk.spend_on_waiters(&done.spent);
        match done.outcome {
            Ok(_) => self.durable_up_to(covered, cx),
            Err(error) => self.desk.latch(error, cx),
        }
    }

    fn durable_up_to(&mut self, commit: u64, cx: &mut Cx<'_>) {
        self.history.durable = self.history.durable.max(commit);
        while let Some(&(number, stamp)) = self.history.covers.front()
            && number <= self.history.durable
        {
            self.history.durable_stamp = self.history.durable_stamp.max(stamp);
            self.history.covers.pop_front();
        }
        self.verified_at = self.counters.data_blocks;
        self.desk.durable(self.history.durable, cx);
    }

    /// Answers a request when everything acknowledged so far is durable.
    pub(super) fn wait_durable(&mut self, request: usize, cx: &mut Cx<'_>) {
        let changed = self.changed_since.is_some();
        let needs = if changed { self.history.open() } else { self.history.last };
        let durable = needs <= self.history.durable || self.is_serial() || self.desk.is_read_only();
        if durable || planted(PlantedBug::AckBeforeDurable) {
            self.desk.part_done(request, cx);
        } else {
            self.desk.wait(request, needs);
        }
    }

    /// Begins whatever commit or flush is wanted now.
    pub(super) fn advance_commits(&mut self, cx: &mut Cx<'_>) {
        if self.desk.latched().is_some() {
            return;
        }
        if self.volatile {
            let wanted =
                self.commit.is_none() && self.changed_since.is_some() && self.wants_commit(cx);
            if wanted && self.may_commit() {
                self.begin_commit(Commit::default(), Commands::default(), cx);
            }
            if self.flush.is_none() && (self.wants_flush() || wanted && !self.may_commit()) {
                self.flush = Some(self.history.committed);
                cx.send(0, Io::flush(FLUSH));
            }
        }
        if self.starving && self.commit.is_none() && self.flush.is_none() {
            self.relieve(cx);
        }
    }

    fn wants_commit(&self, cx: &Cx<'_>) -> bool {
        let open = self.history.open();
        let large = self.counters.data_blocks - self.committed_at > UNVERIFIED_LIMIT / 2;
        let due = self.changed_since.is_some_and(|since| since + COMMIT_DELAY <= cx.now);
        let crowded = self.history.waiting_open() > self.crowded_at();
        due || large || crowded || self.starving || self.desk.any_waits(|needs| needs == open)
    }

    /// How many superseded places may pile up before a commit moves them towards reuse.
    fn crowded_at(&self) -> u64 {
        ((self.free.free() + self.history.waiting) / 6).max(16)
    }

    fn wants_flush(&self) -> bool {
        let on_device = self.history.committed;
        let unverified = self.counters.data_blocks - self.verified_at > UNVERIFIED_LIMIT;
        on_device > self.history.durable
            && (self.starving
                || unverified
                || self.history.waiting > 2 * self.crowded_at()
                || self.desk.any_waits(|needs| needs <= on_device))
    }

    /// Something waits for free blocks, and no commit or flush would bring any: where nothing is
    /// in flight that may, the volume is too small, which is an error.
    fn relieve(&mut self, cx: &mut Cx<'_>) {
        if self.history.waiting > 0 || !self.pieces.is_empty() || !self.reads.is_empty() {
            return;
        }
        if let Some(Work::Write { request, .. }) = self.desk.front().cloned() {
            self.desk.pop();
            self.desk.fail(request, IoError::NoSpace);
            self.desk.part_done(request, cx);
        }
    }

    /// Frees superseded places that no recovery can need any more and no read is using.
    pub(super) fn release_superseded(&mut self) {
        self.starving = false;
        while let Some((commit, _)) = self.history.superseded.front() {
            let read = self.read_epochs.front().is_some_and(|(epoch, _)| epoch <= commit);
            let early = planted(PlantedBug::FreeBeforeCommit);
            if (*commit > self.history.durable && !early) || read {
                break;
            }
            if let Some((_, mut places)) = self.history.superseded.pop_front() {
                self.history.waiting -= places.len() as u64;
                for place in places.drain(..) {
                    self.free.release(place);
                }
                self.history.spare.push(places);
            }
        }
    }
}

/// How far an orderly end has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nobody asked for it.
    #[default]
    Running,
    /// Waiting for requests in flight, then for the last commit.
    Asked,
    /// The record is being written.
    Record,
    /// The record is being flushed.
    RecordFlush,
    /// Done.
    Done,
}

impl Stop {
    pub fn ask(&mut self) {
        if *self == Stop::Running {
            *self = Stop::Asked;
        }
    }

    pub fn is_done(self) -> bool {
        self == Stop::Done
    }
}

impl Loge {
    /// Brings an orderly end one step further: commit what changed, flush, write the record that
    /// says so, flush.
    pub(super) fn advance_stop(&mut self, cx: &mut Cx<'_>) {
        let busy = !self.desk.is_idle() || self.commit.is_some() || self.flush.is_some();
        if self.stop != Stop::Asked || busy {
            return;
        }
        if self.desk.latched().is_some() || self.desk.is_read_only() {
            self.stop = Stop::Done;
        } else if self.changed_since.is_some() && self.may_commit() {
            self.begin_commit(Commit::default(), Commands::default(), cx);
            // A commit without commands is complete at once.
            self.advance_stop(cx);
        } else if self.history.committed > self.history.durable {
            self.flush = Some(self.history.committed);
            cx.send(0, Io::flush(FLUSH));
        } else {
            self.stop = Stop::Record;
            self.record += 1;
            let record = self.record(true);
            let at = RECORDS[self.record as usize % RECORDS.len()];
            cx.send(0, Io::write(RECORD, at, Data::bytes(record.encode(self.id))));
        }
    }

    /// What a record says now.
    pub(super) fn record(&self, clean: bool) -> Record {
        let (stored, digest) = self.table.digest();
        let durable = self.next_stamp - 1;
        Record { number: self.record, durable, clean, stored, digest }
    }

    /// The record, or the flush behind it, has been answered.
    pub(super) fn record_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        if let Err(error) = done.outcome {
            self.desk.latch(error, cx);
            self.stop = Stop::Done;
        } else if self.stop == Stop::Record {
            self.stop = Stop::RecordFlush;
            cx.send(0, Io::flush(RECORD));
        } else {
            self.stop = Stop::Done;
        }
    }
}
