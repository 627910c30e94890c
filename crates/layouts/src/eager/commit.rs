//! Commits: what is written together and becomes durable together, and when a place that one of
//! them supersedes may be used again.
//!
//! What a commit consists of on disk is up to the layout. Here are its number, the requests it
//! answers, and what it takes for it to be durable: on a device that keeps what it has completed,
//! nothing more; elsewhere a flush. There commits also wait: for a flush that a client asks for, a
//! limit, or a pause.

use super::Mapped;
use super::freemap::FreeMap;
use super::punch::Punching;
use super::read::Reads;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Breakdown, Done, IoError, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::{RequestNr, RequestTable};
use seekless_engine::units::{BlockNr, MILLIS, Time};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::hint::cold_path;

/// How long an acknowledged write may wait for its commit on a device with a volatile cache.
const COMMIT_DELAY: Time = 200 * MILLIS;
/// Blocks of data written since the last durable commit beyond which a flush is asked for, and half
/// of them since the last commit beyond which one is begun: bounds what a recovery has to verify.
const UNVERIFIED_LIMIT: u64 = 16 * 1024;

/// What is written together where each batch is a commit of its own.
#[derive(Clone, Debug)]
pub struct Batch<E> {
    /// Requests, one mention per part, that are answered when it is complete.
    pub requests: SmallVec<[RequestNr; 2]>,
    /// What the map said before, in order, to restore should it fail.
    pub undo: SmallVec<[(BlockNr, E); 2]>,
}

impl<E> Default for Batch<E> {
    fn default() -> Batch<E> {
        Batch { requests: SmallVec::new(), undo: SmallVec::new() }
    }
}

/// A commit on its way to the device.
#[derive(Clone, Debug)]
pub struct Commit<E> {
    number: u64,
    commands_left: u32,
    failed: Option<IoError>,
    spent: Breakdown,
    batch: Batch<E>,
}

impl<E> Commit<E> {
    /// True if one of its commands has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Takes the first error out, for the layout to deal with.
    pub fn take_failure(&mut self) -> Option<IoError> {
        self.failed.take()
    }

    /// The commit has failed.
    pub fn fail(&mut self, error: IoError) {
        self.failed = Some(error);
    }

    /// What the map has to be restored to, if the commit has failed.
    pub fn undo(&self) -> &[(BlockNr, E)] {
        if self.failed.is_some() { &self.batch.undo } else { &[] }
    }
}

/// The numbers of commits, and the places that wait for them.
#[derive(Clone, Debug, Default)]
struct History {
    /// Number of the last commit begun. The next one, which collects changes, gets `next`.
    last: u64,
    next: u64,
    /// All commits up to this one are on the device.
    committed: u64,
    /// All commits up to this one are durable.
    durable: u64,
    /// For commits that are not known to be durable: what the layout has noted with them.
    notes: VecDeque<(u64, u64)>,
    /// The greatest note of a durable commit.
    noted: u64,
    /// Superseded places by the commit that supersedes them.
    superseded: VecDeque<(u64, Vec<u32>)>,
    waiting: u64,
    spare: Vec<Vec<u32>>,
}

/// Commits of a volume.
#[derive(Clone, Debug)]
pub struct Commits<E> {
    /// The device may lose completed writes until it is flushed.
    volatile: bool,
    /// What flushes of the device are sent with.
    flush_tag: Tag,
    history: History,
    running: Option<Box<Commit<E>>>,
    /// The last one that was closed: the next one takes its room.
    closed: Option<Box<Commit<E>>>,
    /// Up to which commit the flush in flight makes everything durable.
    flush: Option<u64>,
    /// Something changed since the last commit was begun, and since when.
    changed_since: Option<Time>,
    /// Something waits for free blocks.
    starving: bool,
    /// Blocks of data written: in all, when a commit last became durable, when one was last begun.
    data_blocks: u64,
    verified_at: u64,
    committed_at: u64,
}

impl<E: Mapped> Commits<E> {
    /// Nothing was ever written.
    pub fn new(volatile: bool, flush_tag: Tag) -> Commits<E> {
        Commits {
            volatile,
            flush_tag,
            history: History { next: 1, ..History::default() },
            running: None,
            closed: None,
            flush: None,
            changed_since: None,
            starving: false,
            data_blocks: 0,
            verified_at: 0,
            committed_at: 0,
        }
    }

    /// After a mount: everything up to commit `last` is durable, the next one gets the number
    /// `next`, and `noted` is what would have been noted with the last one.
    pub fn restore(&mut self, last: u64, next: u64, noted: u64) {
        assert!(next > last);
        debug_assert!(!self.is_busy(), "a mount comes before all commits");
        self.history =
            History { last, next, committed: last, durable: last, noted, ..History::default() };
    }

    /// True if batches go one by one, each a commit that is durable when it is complete.
    pub fn is_serial(&self) -> bool {
        !self.volatile
    }

    /// True if a commit is on its way.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// True if a commit or a flush is on its way.
    pub fn is_busy(&self) -> bool {
        self.running.is_some() || self.flush.is_some()
    }

    /// True if a flush is on its way.
    pub fn is_flushing(&self) -> bool {
        self.flush.is_some()
    }

    /// Number of the commit that collects changes now.
    pub fn open(&self) -> u64 {
        self.history.next
    }

    /// Number of the last commit begun.
    pub fn last(&self) -> u64 {
        self.history.last
    }

    /// All commits up to this one are durable.
    pub fn durable(&self) -> u64 {
        self.history.durable
    }

    /// What was noted with the last durable commit.
    pub fn noted(&self) -> u64 {
        self.history.noted
    }

    /// True if everything on the device is durable.
    pub fn is_durable(&self) -> bool {
        self.history.committed <= self.history.durable
    }

    /// Places that wait for a commit to become durable.
    pub fn waiting(&self) -> u64 {
        self.history.waiting
    }

    /// The place that has waited least.
    pub fn last_waiting(&self) -> Option<u32> {
        self.history.superseded.iter().rev().find_map(|(_, places)| places.last().copied())
    }

    /// All places that wait.
    pub fn waiting_places(&self) -> impl Iterator<Item = u32> + '_ {
        self.history.superseded.iter().flat_map(|(_, places)| places.iter().copied())
    }

    /// Blocks of data written.
    pub fn data_blocks(&self) -> u64 {
        self.data_blocks
    }

    /// A block of data is on its way.
    pub fn data_written(&mut self) {
        self.data_blocks += 1;
    }

    /// Something has changed that the open commit is to make last.
    pub fn changed(&mut self, now: Time) {
        self.changed_since.get_or_insert(now);
    }

    /// True if the open commit has something to make last.
    pub fn has_changes(&self) -> bool {
        self.changed_since.is_some()
    }

    /// Something waits for free blocks: commits and flushes are wanted that free some. False, for
    /// those who ask whether there is room.
    pub fn starve(&mut self) -> bool {
        self.starving = true;
        false
    }

    /// True if something waits for free blocks and neither a commit nor a flush is on its way.
    pub fn is_stuck(&self) -> bool {
        self.starving && !self.is_busy()
    }

    /// The open commit supersedes a place.
    pub fn supersede(&mut self, place: u32) {
        let history = &mut self.history;
        let newest = history.superseded.back().map_or(0, |(commit, _)| *commit);
        debug_assert!(newest <= history.next, "a place waits for a commit to come");
        history.waiting += 1;
        match history.superseded.back_mut() {
            Some((commit, places)) if *commit == history.next => places.push(place),
            _ => {
                let mut places = history.spare.pop().unwrap_or_default();
                places.push(place);
                history.superseded.push_back((history.next, places));
            }
        }
    }

    /// Forgets that the last place was superseded.
    pub fn forget_last(&mut self) {
        if let Some((_, places)) = self.history.superseded.back_mut() {
            self.history.waiting -= places.pop().map_or(0, |_| 1);
        }
    }

    /// Closes the open commit, whose `commands` are on their way, and opens the next one. `note` is
    /// what [`Commits::noted`] says once it is durable.
    pub fn begin(&mut self, batch: Batch<E>, note: u64, commands: u32) {
        debug_assert!(self.running.is_none());
        let number = self.history.next;
        debug_assert!(number > self.history.last, "commits are numbered in their order");
        self.changed_since = None;
        self.committed_at = self.data_blocks;
        self.history.last = number;
        self.history.next = number + 1;
        self.history.notes.push_back((number, note));
        let spent = Breakdown::default();
        let commit = Commit { number, commands_left: commands, failed: None, spent, batch };
        self.running = Some(match self.closed.take() {
            Some(mut room) => {
                *room = commit;
                room
            }
            None => Box::new(commit),
        });
    }

    /// A command of the commit has been answered. Returns the commit if that was the last one:
    /// it is to be [closed](Commits::close).
    ///
    /// # Panics
    /// If none is on its way.
    pub fn part_done(&mut self, done: Done) -> Option<Box<Commit<E>>> {
        let Some(commit) = &mut self.running else {
            panic!("answer to a commit that is not in flight");
        };
        debug_assert!(commit.commands_left > 0, "commit {} is complete", commit.number);
        commit.commands_left -= 1;
        commit.spent.add(&done.spent);
        if let Err(error) = done.outcome {
            cold_path();
            commit.failed.get_or_insert(error);
        }
        self.complete()
    }

    /// The commit on its way, if all its commands have been answered.
    pub fn complete(&mut self) -> Option<Box<Commit<E>>> {
        self.running.take_if(|commit| commit.commands_left == 0)
    }

    /// A commit that was complete goes on: one more command of it is on its way.
    pub fn go_on(&mut self, mut commit: Box<Commit<E>>) {
        debug_assert!(self.running.is_none() && commit.failed.is_none());
        commit.commands_left = 1;
        self.running = Some(commit);
    }

    /// All of a commit is on the device, or has failed; answers its requests.
    pub fn close(&mut self, commit: Box<Commit<E>>, requests: &mut RequestTable, cx: &mut Cx<'_>) {
        if let Some(error) = commit.failed {
            cold_path();
            for &request in &commit.batch.requests {
                requests.fail(request, error);
            }
            requests.fail_volume(error, cx);
        } else {
            debug_assert!(self.history.committed < commit.number, "commits end in their order");
            self.history.committed = commit.number;
            if !self.volatile {
                self.durable_up_to(commit.number, requests, cx);
            }
        }
        let share = commit.spent.share(commit.batch.requests.len().max(1) as u64);
        for &request in &commit.batch.requests {
            requests.spend(request, &share);
            requests.part_done(request, cx);
        }
        self.closed = Some(commit);
    }

    /// Flushes the device.
    pub fn begin_flush(&mut self, cx: &mut Cx<'_>) {
        debug_assert!(self.flush.is_none(), "one flush at a time");
        debug_assert!(self.volatile, "only a volatile cache is flushed");
        self.flush = Some(self.history.committed);
        cx.send(0, Edge::CommitFlush.flush(self.flush_tag));
    }

    /// The device has flushed.
    pub fn flush_done(&mut self, done: Done, requests: &mut RequestTable, cx: &mut Cx<'_>) {
        let covered = self.flush.take().unwrap_or(self.history.durable);
        let covered = Edge::FlushCoversCommitted.covers(covered, self.history.committed);
        requests.spend_on_waiters(&done.spent);
        match done.outcome {
            Ok(_) => self.durable_up_to(covered, requests, cx),
            // It is tried again, and what it dropped is called durable then.
            Err(_) if planted(PlantedBug::FlushRetried) => {}
            Err(error) => requests.fail_volume(error, cx),
        }
    }

    fn durable_up_to(&mut self, commit: u64, requests: &mut RequestTable, cx: &mut Cx<'_>) {
        debug_assert!(commit <= self.history.committed, "durable before it was written");
        let history = &mut self.history;
        history.durable = history.durable.max(commit);
        while let Some(&(number, note)) = history.notes.front()
            && number <= history.durable
        {
            history.noted = history.noted.max(note);
            history.notes.pop_front();
        }
        self.verified_at = self.data_blocks;
        requests.durable(history.durable, cx);
    }

    /// Answers a request, of which one part is left, when everything acknowledged so far is
    /// durable.
    pub fn wait(&self, request: RequestNr, requests: &mut RequestTable, cx: &mut Cx<'_>) {
        let history = &self.history;
        let needs = if self.has_changes() { history.next } else { history.last };
        let durable = Edge::WaiterNeedsCommit.allows(needs <= history.durable)
            || self.is_serial()
            || requests.is_read_only();
        if durable {
            requests.part_done(request, cx);
        } else if let Some(error) =
            requests.failed().filter(|_| !planted(PlantedBug::WaiterForgotten))
        {
            // Its data was still on its way when something else failed: no flush will come.
            requests.fail(request, error);
            requests.part_done(request, cx);
        } else {
            requests.wait(request, needs);
        }
    }

    /// On a device with a volatile cache: true if it is time for the next commit. `crowded` says
    /// that it would become too large.
    pub fn wants_commit(
        &self,
        crowded: bool,
        free: &FreeMap,
        requests: &RequestTable,
        now: Time,
    ) -> bool {
        let Some(since) = self.changed_since.filter(|_| self.volatile && !self.is_running()) else {
            return false;
        };
        let open = self.history.next;
        let large = self.data_blocks - self.committed_at > UNVERIFIED_LIMIT / 2;
        crowded
            || large
            || since + COMMIT_DELAY <= now
            || self.waiting_open() > self.crowded_at(free)
            || self.starving
            || requests.any_waits(|&number| number == open)
    }

    /// The same for the next flush.
    pub fn wants_flush(&self, free: &FreeMap, requests: &RequestTable) -> bool {
        let on_device = self.history.committed;
        let unverified = self.data_blocks - self.verified_at > UNVERIFIED_LIMIT;
        self.volatile
            && !self.is_flushing()
            && on_device > self.history.durable
            && (self.starving
                || unverified
                || self.history.waiting > 2 * self.crowded_at(free)
                || requests.any_waits(|&number| number <= on_device))
    }

    /// When the next commit is due though nothing happens.
    pub fn due(&self, requests: &RequestTable) -> Option<Time> {
        let waits = requests.failed().is_none() && !self.is_running() && self.volatile;
        self.changed_since.filter(|_| waits).map(|since| since + COMMIT_DELAY)
    }

    /// Checks what holds between two events.
    pub fn check(&self) {
        let History { last, next, committed, durable, .. } = self.history;
        assert!(durable <= committed, "commit {durable} is durable, {committed} on the device");
        assert!(committed <= last && last < next, "commits {committed}, {last} and {next}");
        let running = self.running.as_ref().map(|commit| commit.number);
        assert!(running.is_none_or(|number| number == last), "the last commit is the one running");
        assert!(self.flush.is_none_or(|covered| covered <= committed), "a flush covers too much");
    }

    /// Places that the open commit supersedes.
    fn waiting_open(&self) -> u64 {
        let open = self.history.superseded.back();
        let open = open.filter(|(commit, _)| *commit == self.history.next);
        open.map_or(0, |(_, places)| places.len() as u64)
    }

    /// How many superseded places may pile up before a commit moves them towards reuse.
    fn crowded_at(&self, free: &FreeMap) -> u64 {
        ((free.free() + self.history.waiting) / 6).max(16)
    }

    /// Frees what commits up to `settled` have superseded: no recovery can need it. What
    /// a read is using waits.
    pub fn release(
        &mut self,
        settled: u64,
        reads: &Reads<E>,
        free: &mut FreeMap,
        punching: &mut Punching,
    ) {
        self.starving = false;
        let history = &mut self.history;
        while let Some((commit, _)) = history.superseded.front() {
            let read = reads.oldest().is_some_and(|epoch| epoch <= *commit);
            let read = Edge::ReadHoldsPlaces.blocks(read);
            let early = planted(PlantedBug::FreeBeforeCommit);
            if (*commit > settled && !early) || read {
                break;
            }
            if let Some((_, mut places)) = history.superseded.pop_front() {
                debug_assert!(history.waiting >= places.len() as u64, "more are freed than waited");
                history.waiting -= places.len() as u64;
                for place in places.drain(..) {
                    free.release(place);
                    punching.freed(place);
                }
                history.spare.push(places);
            }
        }
    }
}
