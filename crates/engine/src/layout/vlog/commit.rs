//! Commits: writing map blocks, knowing what is durable, and when a superseded block may be used
//! again.

use super::format::{Changed, Entry, Header, Pointer, TAIL_BLOCK, Tail, encode_map};
use super::tree::{Appended, SliceNr};
use super::write::{Commands, SHORT_RUN};
use super::{COMMIT_DELAY, FLUSH, MAP, TAIL, UNVERIFIED_LIMIT, Vlog};
use crate::data::{BlockSectors, Body, Data, Piece};
use crate::io::{Breakdown, Done, Io, IoError};
use crate::layer::Cx;
use crate::layout::desk::Work;
use crate::planted::{PlantedBug, planted};
use crate::units::BlockNr;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// A commit on its way to the device, with the batch it belongs to where there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Commit {
    number: u64,
    /// What it says of durability, see [`Header::durable`].
    says_durable: u64,
    commands_left: u32,
    failed: Option<IoError>,
    spent: Breakdown,
    /// Requests (one mention per part) that are answered when it is complete.
    pub requests: SmallVec<[usize; 2]>,
    /// Map entries to restore should it fail.
    pub undo: SmallVec<[(BlockNr, Entry); 2]>,
}

/// The numbers of commits, and the blocks that wait for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// Number of the last commit begun, and of the last one with changes.
    last: u64,
    last_with_changes: u64,
    /// The next commit gets this number.
    next: u64,
    /// All commits up to this one are on the device.
    committed: u64,
    /// All commits up to this one are durable.
    durable: u64,
    /// A durable commit says that all up to this one are durable.
    marked: u64,
    /// What commits between `durable` and `committed` say.
    sayings: VecDeque<(u64, u64)>,
    /// Superseded blocks by the commit that supersedes them.
    superseded: VecDeque<(u64, Vec<u32>)>,
    waiting: u64,
    spare: Vec<Vec<u32>>,
}

impl History {
    /// After a mount: everything up to `last` is durable and durably known to be.
    pub fn restore(&mut self, last: u64, next: u64) {
        assert!(next > last);
        *self = History {
            last,
            last_with_changes: last,
            next,
            committed: last,
            durable: last,
            marked: last,
            ..History::default()
        };
    }

    /// Number of the commit that collects changes now.
    pub fn open(&self) -> u64 {
        self.next
    }

    /// Blocks that the open commit supersedes.
    fn waiting_open(&self) -> u64 {
        let open = self.superseded.back().filter(|(commit, _)| *commit == self.next);
        open.map_or(0, |(_, places)| places.len() as u64)
    }

    /// The open commit supersedes a block.
    pub fn supersede(&mut self, place: u32) {
        self.waiting += 1;
        match self.superseded.back_mut() {
            Some((commit, places)) if *commit == self.next => places.push(place),
            _ => {
                let mut places = self.spare.pop().unwrap_or_default();
                places.push(place);
                self.superseded.push_back((self.next, places));
            }
        }
    }

    /// Forgets that the last block was superseded.
    pub fn forget_last(&mut self) {
        if let Some((_, places)) = self.superseded.back_mut() {
            self.waiting -= places.pop().map_or(0, |_| 1);
        }
    }
}

impl Vlog {
    /// Writes map blocks for all slices that changed, behind the data in `commands`. Without
    /// changes it writes one map block anew, only to say what is durable.
    pub(super) fn begin_commit(&mut self, batch: Commit, commands: Commands, cx: &mut Cx<'_>) {
        let mut slices = std::mem::take(&mut self.dirty);
        self.dirty_since = None;
        if slices.is_empty() {
            slices.extend(self.tree.root());
        } else {
            self.history.last_with_changes = self.history.next;
        }
        let appended = self.append(&slices, cx);
        slices.clear();
        self.dirty = slices;
        self.send_commit(batch, commands, &appended, cx);
    }

    fn append(&mut self, slices: &[SliceNr], cx: &Cx<'_>) -> SmallVec<[Appended; 2]> {
        let mut tree = std::mem::take(&mut self.tree);
        let (first, mut next) = (self.next_sequence, self.next_sequence);
        let mut appended = SmallVec::new();
        for (index, &slice) in slices.iter().enumerate() {
            if tree.node(slice).sequence >= first {
                continue; // Appended already to give out its pointers again.
            }
            let want = (slices.len() - index) as u32;
            tree.append(
                slice,
                &mut next,
                &mut || self.place(want, want < SHORT_RUN, cx),
                &mut appended,
            );
        }
        self.next_sequence = next;
        self.tree = tree;
        appended
    }

    fn send_commit(
        &mut self,
        mut commit: Commit,
        mut commands: Commands,
        appended: &[Appended],
        cx: &mut Cx<'_>,
    ) {
        commit.number = self.history.next;
        commit.says_durable = self.history.durable;
        for (index, one) in appended.iter().enumerate() {
            let header = Header {
                sequence: one.sequence,
                commit: commit.number,
                previous: self.history.last,
                durable: commit.says_durable,
                digest: self.tree.digest(),
                slice: one.slice,
                index: index as u32,
                members: appended.len() as u32,
                changed: std::mem::take(&mut self.changed[one.slice as usize]),
                pointers: self.tree.pointers(one.slice),
            };
            let block = self.map_block(&header);
            let place = self.tree.node(one.slice).place;
            self.compactor.placed_map(place, one.slice);
            commands.push(place, Piece::block(Body::Sectors(block)));
            if one.superseded != 0 {
                self.history.supersede(one.superseded);
            }
        }
        self.counters.map_blocks += appended.len() as u64;
        self.counters.commits += 1;
        self.committed_at = self.counters.data_blocks;
        self.history.last = commit.number;
        self.history.next = commit.number + 1;
        commit.commands_left = commands.send(MAP, cx);
        self.commit = Some(commit);
    }

    /// The map block of a slice as it is to be written, at the place the tree has for it.
    pub(super) fn map_block(&self, header: &Header) -> Arc<BlockSectors> {
        let place = self.tree.node(header.slice).place;
        let sum = self.sums[header.slice as usize];
        encode_map(self.id, place, header, self.map.slice(header.slice), sum)
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
        if commit.commands_left > 0 {
            return;
        }
        let Some(commit) = self.commit.take() else { return };
        if let Some(error) = commit.failed {
            self.undo(&commit.undo);
            for &request in &commit.requests {
                self.desk.fail(request, error);
            }
            self.desk.latch(error, cx);
        } else {
            self.history.committed = commit.number;
            self.history.sayings.push_back((commit.number, commit.says_durable));
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
        while let Some(&(number, says)) = self.history.sayings.front()
            && number <= self.history.durable
        {
            self.history.marked = says;
            self.history.sayings.pop_front();
        }
        self.verified_at = self.counters.data_blocks;
        self.desk.durable(self.history.durable, cx);
    }

    /// Answers a request when everything acknowledged so far is durable.
    pub(super) fn wait_durable(&mut self, request: usize, cx: &mut Cx<'_>) {
        let needs = if self.dirty.is_empty() { self.history.last } else { self.history.next };
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
            if self.commit.is_none() && !self.dirty.is_empty() && self.wants_commit(cx) {
                self.begin_commit(Commit::default(), Commands::default(), cx);
            }
            if self.flush.is_none() && self.wants_flush() {
                self.begin_flush(cx);
            }
        }
        if self.starving && self.commit.is_none() && self.flush.is_none() {
            self.relieve(cx);
        }
    }

    fn wants_commit(&self, cx: &Cx<'_>) -> bool {
        let open = self.history.next;
        let large = self.counters.data_blocks - self.committed_at > UNVERIFIED_LIMIT / 2;
        let due = self.dirty_since.is_some_and(|since| since + COMMIT_DELAY <= cx.now);
        let crowded =
            self.dirty.len() >= self.dirty_limit || self.history.waiting_open() > self.crowded_at();
        due || large || crowded || self.starving || self.desk.any_waits(|needs| needs == open)
    }

    /// How many superseded blocks may pile up before a commit moves them towards reuse.
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

    fn begin_flush(&mut self, cx: &mut Cx<'_>) {
        self.flush = Some(self.history.committed);
        cx.send(0, Io::flush(FLUSH));
    }

    /// Something waits for free blocks: moves superseded ones towards reuse by a commit that says
    /// what is durable. Where nothing is left to free, the volume is too small: an error.
    fn relieve(&mut self, cx: &mut Cx<'_>) {
        let history = &self.history;
        // One block always waits: the one that the last such commit superseded.
        if history.waiting > 1 {
            if history.durable > history.marked && self.tree.root().is_some() {
                self.begin_commit(Commit::default(), Commands::default(), cx);
            }
            return;
        }
        if !self.pieces.is_empty() || !self.reads.is_empty() {
            return;
        }
        if let Some(Work::Write { request, .. } | Work::Trim { request, .. }) =
            self.desk.front().cloned()
        {
            self.desk.pop();
            self.desk.fail(request, IoError::NoSpace);
            self.desk.part_done(request, cx);
        }
    }

    /// Frees superseded blocks that no recovery can need any more and no read is using.
    pub(super) fn release_superseded(&mut self) {
        self.starving = false;
        while let Some((commit, _)) = self.history.superseded.front() {
            let read = self.read_epochs.front().is_some_and(|(epoch, _)| epoch <= commit);
            let early = planted(PlantedBug::FreeBeforeCommit);
            if (*commit > self.history.marked && !early) || read {
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
    /// Waiting for requests in flight, then for the last commits.
    Asked,
    /// The tail record is being written.
    Tail,
    /// The tail record is being flushed.
    TailFlush,
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

impl Vlog {
    /// Brings an orderly end one step further: commit what changed, flush, commit once more to
    /// say that it is durable, flush, write the tail record, flush.
    pub(super) fn advance_stop(&mut self, cx: &mut Cx<'_>) {
        let busy = !self.desk.is_idle()
            || self.commit.is_some()
            || self.flush.is_some()
            || self.compactor.is_reading();
        if self.stop != Stop::Asked || busy {
            return;
        }
        if self.desk.latched().is_some() || self.desk.is_read_only() {
            self.stop = Stop::Done;
        } else if !self.dirty.is_empty() {
            self.begin_commit(Commit::default(), Commands::default(), cx);
        } else if self.history.committed > self.history.durable {
            self.begin_flush(cx);
        } else if self.history.marked < self.history.last_with_changes {
            self.begin_commit(Commit::default(), Commands::default(), cx);
        } else {
            self.stop = Stop::Tail;
            let tail = Data::bytes(self.tail().encode(self.id));
            cx.send(0, Io::write(TAIL, TAIL_BLOCK, tail));
        }
    }

    /// What the tail record says now.
    pub(super) fn tail(&self) -> Tail {
        Tail {
            root: self.tree.root_pointer(),
            next_sequence: self.next_sequence,
            commit: self.history.last,
            digest: self.tree.digest(),
            live: self.tree.live(),
        }
    }

    /// The tail record, or the flush behind it, has been answered.
    pub(super) fn tail_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        if let Err(error) = done.outcome {
            self.desk.latch(error, cx);
            self.stop = Stop::Done;
        } else if self.stop == Stop::Tail {
            self.stop = Stop::TailFlush;
            cx.send(0, Io::flush(TAIL));
        } else {
            self.stop = Stop::Done;
        }
    }
}

/// A commit that a mount writes in blocking style: one map block, written anew only to say that
/// everything up to `previous` is durable. Returns its header.
pub(super) fn marker(
    slice: SliceNr,
    sequence: u64,
    commit: u64,
    previous: u64,
    digest: u64,
    pointers: SmallVec<[Pointer; 4]>,
) -> Header {
    Header {
        sequence,
        commit,
        previous,
        durable: previous,
        digest,
        slice,
        index: 0,
        members: 1,
        changed: Changed::default(),
        pointers,
    }
}
