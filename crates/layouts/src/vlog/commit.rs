//! Commits: writing map blocks, knowing what is durable, and when a superseded block may be used
//! again.

use super::format::{Changed, Entry, Header, Pointer, TAIL_BLOCK, Tail};
use super::tree::{Appended, SliceNr};
use super::write::{Commands, bare};
use super::{MAP, RESERVE, TAIL, Vlog};
use crate::eager::SHORT_RUN;
use crate::eager::commit::Batch;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, IoError};
use seekless_engine::layer::Cx;
use seekless_engine::request_table::Work;
use smallvec::SmallVec;

impl Vlog {
    /// Writes map blocks for all slices that changed, behind the data in `commands`. Without
    /// changes it writes one map block anew, only to say what is durable.
    pub(super) fn begin_commit(
        &mut self,
        batch: Batch<Entry>,
        commands: Commands,
        cx: &mut Cx<'_>,
    ) {
        let mut slices = std::mem::take(&mut self.dirty);
        if slices.is_empty() {
            slices.extend(self.tree.root());
        } else {
            self.last_with_changes = self.commits.open();
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
            tree.append(slice, &mut next, || self.place(want, want < SHORT_RUN, cx), &mut appended);
        }
        self.next_sequence = next;
        self.tree = tree;
        appended
    }

    fn send_commit(
        &mut self,
        batch: Batch<Entry>,
        mut commands: Commands,
        appended: &[Appended],
        cx: &mut Cx<'_>,
    ) {
        let says_durable = self.commits.durable();
        for (index, one) in appended.iter().enumerate() {
            let header = Header {
                sequence: one.sequence,
                commit: self.commits.open(),
                previous: self.commits.last(),
                durable: says_durable,
                digest: self.tree.digest(),
                slice: one.slice,
                index: index as u32,
                members: appended.len() as u32,
                changed: self.map.take_changed(one.slice),
                pointers: self.tree.pointers(one.slice),
            };
            let place = self.tree.node(one.slice).place;
            let block = self.map.block(self.id, place, header);
            self.compactor.placed_map(place, one.slice);
            if !self.commits.is_serial() {
                self.sent.push(&block);
            }
            commands.push_map(place, Piece::block(Body::Lazy(block)), ());
            if one.superseded != 0 {
                self.commits.supersede(one.superseded);
            }
        }
        self.counters.map_blocks += appended.len() as u64;
        self.counters.commits += 1;
        let sent = commands.send(MAP, cx, bare);
        self.commits.begin(batch, says_durable, sent);
    }

    /// A command of the commit has been answered.
    pub(super) fn commit_part_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        let Some(mut commit) = self.commits.part_done(done) else { return };
        let asks = commit.has_failed() || self.sent.is_alone();
        if asks && self.commit_goes_on(&mut commit, cx) {
            return self.commits.go_on(commit);
        }
        self.sent.clear();
        self.undo(commit.undo());
        self.commits.close(commit, &mut self.requests, cx);
    }

    /// Begins whatever commit or flush is wanted now.
    pub(super) fn advance_commits(&mut self, cx: &mut Cx<'_>) {
        if self.requests.failed().is_some() {
            return;
        }
        let crowded = self.dirty.len() >= self.dirty_limit;
        if self.commits.wants_commit(crowded, &self.free, &self.requests, cx.now) {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        }
        if self.commits.wants_flush(&self.free, &self.requests) {
            self.commits.begin_flush(cx);
        }
        if self.commits.is_stuck() {
            self.relieve(cx);
        }
    }

    /// Something waits for free blocks: moves superseded ones towards reuse by a commit that says
    /// what is durable. Where nothing is left to free, the volume is too small: an error.
    #[cold]
    fn relieve(&mut self, cx: &mut Cx<'_>) {
        // One block always waits: the one that the last such commit superseded.
        if self.commits.waiting() > 1 {
            if self.commits.durable() > self.commits.noted() && self.tree.root().is_some() {
                self.begin_commit(Batch::default(), Commands::default(), cx);
            }
            return;
        }
        if !self.writes.is_empty() || !self.reads.is_empty() || self.punching.is_busy() {
            return;
        }
        if let Some(work) = self.requests.front()
            && !matches!(work, Work::Read { .. })
        {
            let request = work.request();
            self.requests.pop();
            self.requests.fail(request, IoError::NoSpace);
            self.requests.part_done(request, cx);
        }
    }

    /// Lets what waits be free while no client waits, so that it can be given back: a flush, and a
    /// commit that says what is durable, which a flush makes durable in turn.
    pub(super) fn hasten(&mut self, cx: &mut Cx<'_>) {
        if !self.punching.hastens(&self.commits, cx) || self.commits.has_changes() {
            return;
        }
        let says_more = self.commits.durable() > self.commits.noted();
        if !self.commits.is_durable() {
            self.commits.begin_flush(cx);
        } else if says_more && self.tree.root().is_some() && self.free.free() > RESERVE {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        }
    }

    /// Says on the device that the last commit is durable, once no client has waited for a while.
    pub(super) fn advance_witness(&mut self, cx: &mut Cx<'_>) {
        let open = !self.commits.is_durable() || self.commits.noted() < self.last_with_changes;
        let lacks = open && !self.commits.is_serial();
        let due = self.witness.is_due(lacks, &self.requests, cx.now);
        if !due || self.commits.is_busy() || self.commits.has_changes() {
            return;
        }
        if !self.commits.is_durable() {
            self.commits.begin_flush(cx);
        } else if self.tree.root().is_some() && self.free.free() > RESERVE {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        }
    }

    /// Brings a clean shutdown one step further: commit what changed, flush, commit once more to
    /// say that it is durable, flush, write the tail record, flush.
    #[cold]
    pub(super) fn advance_shutdown(&mut self, cx: &mut Cx<'_>) {
        let reading = self.compactor.is_reading() || self.reorganiser.is_reading();
        let busy = self.commits.is_busy() || self.punching.is_busy();
        if busy || reading || !self.requests.must_leave_clean() {
            return;
        }
        if !self.dirty.is_empty() {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        } else if Edge::VlogTailLast.blocks(!self.commits.is_durable()) {
            self.commits.begin_flush(cx);
        } else if Edge::VlogWitnessLast.blocks(self.commits.noted() < self.last_with_changes) {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        } else {
            let tail = Data::bytes(self.tail().encode(self.id));
            self.requests.write_shutdown_record(TAIL, TAIL_BLOCK, tail, cx);
        }
    }

    /// What the tail record says now.
    pub(super) fn tail(&self) -> Tail {
        Tail {
            root: self.tree.root_pointer(),
            next_sequence: self.next_sequence,
            commit: self.commits.last(),
            digest: self.tree.digest(),
            live: self.tree.live(),
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
