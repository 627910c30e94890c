//! Commits: spilling what has no room, writing map blocks, and giving space back.

use super::format::{Entry, Header, PATCH_ROOM, TAIL_BLOCK, Tail, changed, encode_map};
use super::spill::{self, SPILL_ROOM};
use super::write::{Commands, LAST_RESERVE, bare};
use super::{MAP, RESERVE, TAIL, Vlfs};
use crate::eager::commit::Batch;
use crate::eager::{Mapped as _, SHORT_RUN};
use crate::vlog::tree::Appended;
use bytes::Bytes;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::io::{Done, IoError};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::Work;
use seekless_engine::units::{SECONDS, Time};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// How long no client must have waited before cuts are spilled, so that their space is free.
const REST: Time = SECONDS;

impl Vlfs {
    /// True if so many bytes more fit the patches of a slice: a spill has room beside them.
    pub(super) fn fits(&self, slice: u32, more: usize) -> bool {
        let own = self.objects.slice(slice);
        let most = PATCH_ROOM - SPILL_ROOM;
        own.is_none_or(|own| own.content.patches.encoded_bytes() + more <= most)
    }

    /// Plans the spill of a slice that writes at most so many blocks. `None` if a block has to be
    /// read first.
    pub(super) fn plan_spill(
        &mut self,
        slice: u32,
        blocks: u64,
        cx: &mut Cx<'_>,
    ) -> Option<spill::Plan> {
        match spill::plan(&self.objects, slice, blocks as usize) {
            Ok(plan) => {
                self.objects.lost.extend(plan.lost.iter().copied());
                Some(plan)
            }
            Err(missing) => {
                // A plan leaves out what is known to be unreadable.
                let failure = self.need(missing.into(), cx);
                debug_assert_eq!(failure, None);
                None
            }
        }
    }

    /// Spills a slice: what its patches say goes into blocks that are written with the open commit.
    /// They wait for it in `spilled`.
    pub(super) fn spill(&mut self, slice: u32, plan: spill::Plan, cx: &Cx<'_>) {
        self.remember(slice);
        let mut left = plan.blocks() as u32;
        let scattered = left < SHORT_RUN;
        let id = self.id;
        let spilled = plan.carry_out(id, |bytes: Bytes| {
            let piece = Piece::block(Body::Bytes(bytes.clone()));
            let (entry, piece) = self.choose(piece, (left, scattered), cx);
            self.spilled.push((entry.place(), piece));
            left = left.saturating_sub(1);
            self.objects.nodes.put(entry.place(), bytes);
            self.counters.spilled_blocks += 1;
            entry
        });
        self.counters.spills += 1;
        let own = self.objects.slice_mut(slice);
        for (index, entry) in spilled.groups {
            own.content.groups[index] = entry;
            own.fresh_groups |= u8::from(entry.is_mapped()) << index;
        }
        for (object, later) in spilled.later {
            let member = super::address::member_of(object);
            own.content.patches.take(member);
            own.content.patches.put(member, later);
        }
        spilled.written.into_iter().for_each(|entry| own.content.patches.written(entry));
        if !own.content.patches.objects().any(|(_, changes)| !changes.cuts.is_empty()) {
            self.cut.remove(&slice);
        }
        for old in &spilled.released {
            match planted(PlantedBug::SpillFreesEarly) {
                true => self.free.release(old.place()),
                false => self.supersede(old.place()),
            }
        }
        self.changed(slice, cx);
    }

    /// The open commit supersedes a block that is no map block.
    pub(super) fn supersede(&mut self, place: u32) {
        self.reclaim.superseded(place);
        self.commits.supersede(place);
    }

    /// Writes map blocks of all slices that changed, behind the data in `commands`. Without changes
    /// it writes one map block anew, only to say what is durable.
    pub(super) fn begin_commit(
        &mut self,
        batch: Batch<Entry>,
        mut commands: Commands,
        cx: &mut Cx<'_>,
    ) {
        if self.literal {
            self.spill_all(cx);
        }
        self.take_spilled(&mut commands);
        let mut slices = std::mem::take(&mut self.dirty);
        match slices.is_empty() {
            true => slices.extend(self.tree.root()),
            false => self.last_with_changes = self.commits.open(),
        }
        let slices: Vec<u32> = slices.into_iter().collect();
        let appended = self.append(&slices, cx);
        self.send_commit(batch, commands, &appended, cx);
    }

    /// Spills what changed, as far as space and what is in memory allow.
    fn spill_all(&mut self, cx: &mut Cx<'_>) {
        let slices: Vec<u32> = self.dirty.iter().copied().collect();
        for slice in slices {
            let maps = self.dirty.len() as u64;
            let most = self.free.free().saturating_sub(maps + LAST_RESERVE);
            let plan = self.plan_spill(slice, most, cx).filter(|plan| !plan.is_empty());
            if let Some(plan) = plan {
                self.spill(slice, plan, cx);
            }
        }
    }

    /// Writes what was spilled with these commands.
    pub(super) fn take_spilled(&mut self, commands: &mut Commands) {
        for (place, piece) in self.spilled.drain(..) {
            if !self.commits.is_serial() {
                self.sent.push(place, piece.clone(), None);
            }
            commands.push_map(place, piece.clone(), ());
            self.spilling.push((place, piece));
        }
    }

    fn append(&mut self, slices: &[u32], cx: &Cx<'_>) -> SmallVec<[Appended; 2]> {
        let mut tree = std::mem::take(&mut self.tree);
        let (first, mut next) = (self.next_sequence, self.next_sequence);
        let mut appended = SmallVec::new();
        for (index, &slice) in slices.iter().enumerate() {
            if tree.node(slice).sequence >= first {
                continue; // Appended already to give out its pointers again.
            }
            let want = (slices.len() - index) as u32;
            let place = || {
                let place = self.place(want, want < SHORT_RUN, cx);
                self.objects.nodes.forget(place);
                place
            };
            tree.append(slice, &mut next, place, &mut appended);
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
        let is_marker = self.last_with_changes < self.commits.open();
        for (index, one) in appended.iter().enumerate() {
            let own = self.objects.slice_mut(one.slice);
            let header = Header {
                sequence: one.sequence,
                commit: self.commits.open(),
                previous: self.commits.last(),
                durable: says_durable,
                digest: self.tree.digest(),
                slice: one.slice,
                index: index as u32,
                members: appended.len() as u32,
                changed: changed(std::mem::take(&mut own.fresh_groups), is_marker),
                pointers: self.tree.pointers(one.slice),
            };
            let place = self.tree.node(one.slice).place;
            let block = encode_map(self.id, place, &header, &own.content);
            own.content.patches.settle();
            let block = Piece::block(Body::Bytes(block));
            if !self.commits.is_serial() {
                self.sent.push(place, block.clone(), Some(one.slice));
            }
            commands.push_map(place, block, ());
            if one.superseded != 0 {
                self.supersede_map(one.superseded);
            }
        }
        self.checkpoints.map_written(appended.len() as u64);
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
        self.spilling.clear();
        match commit.has_failed() {
            true => self.take_back(),
            false => self.undo.clear(),
        }
        self.commits.close(commit, &mut self.requests, cx);
    }

    /// Begins whatever commit or flush is wanted now.
    pub(super) fn advance_commits(&mut self, cx: &mut Cx<'_>) {
        if self.requests.failed().is_some() {
            return;
        }
        if self.commits.wants_commit(false, &self.free, &self.requests, cx.now) {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        }
        if self.commits.wants_flush(&self.free, &self.requests) {
            self.commits.begin_flush(cx);
        }
        if self.commits.is_stuck() && self.loads.is_empty() {
            self.relieve(cx);
        }
    }

    /// Something waits for free blocks: moves superseded ones towards reuse, by a commit that says
    /// what is durable, or spills what patches have made void. Where nothing is left to free, the
    /// volume is full: an error.
    #[cold]
    fn relieve(&mut self, cx: &mut Cx<'_>) {
        let has_changes = self.commits.has_changes();
        let waiting = self.commits.waiting() + self.checkpoints.given_up();
        if waiting > 1 && !has_changes {
            if self.commits.durable() > self.commits.noted() && self.tree.root().is_some() {
                self.begin_commit(Batch::default(), Commands::default(), cx);
            }
            return;
        }
        if has_changes || !self.writes.is_empty() || !self.reads.is_empty() {
            return;
        }
        if self.give_up_kept() {
            self.freed = true;
            return self.release_kept();
        }
        if self.punching.is_busy() || self.reclaim_now(cx) || self.spill_something(cx) {
            return;
        }
        if let Some(work) = self.requests.front()
            && !matches!(work, Work::Read { .. })
        {
            self.fail_next(IoError::NoSpace, cx);
        }
    }

    /// Spills a slice whose patches make something void, as a commit of its own. False if none can
    /// be spilled.
    fn spill_something(&mut self, cx: &mut Cx<'_>) -> bool {
        let any = self.objects.slices().map(|(slice, _)| slice);
        let all: Vec<u32> =
            self.cut.iter().copied().chain(any).filter(|&one| self.has_void(one)).collect();
        all.into_iter().any(|slice| self.spill_alone(slice, cx))
    }

    /// Spills a slice as a commit of its own, or has a block read that this needs. False if nothing
    /// of it can be spilled; then it is not tried again in idle time.
    fn spill_alone(&mut self, slice: u32, cx: &mut Cx<'_>) -> bool {
        // A map block for the slice, as many as the tree may want, and room for a cut.
        let blocks = self.free.free().saturating_sub(4 + LAST_RESERVE);
        let Some(plan) = self.plan_spill(slice, blocks, cx) else { return true };
        if plan.is_empty() {
            self.cut.remove(&slice);
            return false;
        }
        self.spill(slice, plan, cx);
        self.begin_commit(Batch::default(), Commands::default(), cx);
        true
    }

    /// True if patches of a slice may make something void.
    fn has_void(&self, slice: u32) -> bool {
        let own = self.objects.slice(slice);
        let mut all = own.into_iter().flat_map(|own| own.content.patches.objects());
        all.any(|(_, changes)| !changes.cuts.is_empty() || !changes.placed.is_empty())
    }

    /// True if free blocks are so few that clients may wait for some.
    fn is_short(&self) -> bool {
        self.free.free() < 2 * self.reserve()
    }

    /// True if a spill may bring space back: of what was cut, and where space is short of what else
    /// patches make void.
    pub(super) fn may_bring_back(&self) -> bool {
        let goes_on = self.requests.is_running() && self.requests.failed().is_none();
        let may = goes_on && !self.requests.is_read_only();
        may && self.free.free() > 2 * LAST_RESERVE
            && (!self.cut.is_empty() || {
                let mut slices = self.objects.slices().map(|(slice, _)| slice);
                self.is_short() && !self.spilled_in_vain && slices.any(|slice| self.has_void(slice))
            })
    }

    /// When cuts are spilled though nothing happens. Never while that has to wait for something.
    pub(super) fn space_due(&self) -> Option<Time> {
        let since = self.requests.idle_since()?;
        let waits = self.commits.is_busy() || self.commits.has_changes() || !self.loads.is_empty();
        let rest = if self.is_short() { 0 } else { REST };
        (!waits && self.may_bring_back()).then_some(since + rest)
    }

    /// Spills what was cut, and lets what waits be free, once no client has waited for a while.
    pub(super) fn return_space(&mut self, cx: &mut Cx<'_>) {
        if self.space_due().is_some_and(|due| due <= cx.now) {
            if self.cut.is_empty() {
                self.spilled_in_vain = !self.spill_something(cx);
                return;
            }
            while let Some(&slice) = self.cut.first()
                && !self.spill_alone(slice, cx)
            {}
            return;
        }
        if !self.punching.hastens(&self.commits, cx) || self.commits.has_changes() {
            return;
        }
        self.say_durable(self.commits.durable() > self.commits.noted(), cx);
    }

    /// Flushes, or says in a commit that everything is durable, if that is `wanted`.
    fn say_durable(&mut self, wanted: bool, cx: &mut Cx<'_>) {
        if !self.commits.is_durable() {
            self.commits.begin_flush(cx);
        } else if wanted && self.tree.root().is_some() && self.free.free() > RESERVE {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        }
    }

    /// Says on the device that the last commit is durable, once no client has waited for a while.
    pub(super) fn advance_witness(&mut self, cx: &mut Cx<'_>) {
        let open = !self.commits.is_durable() || self.commits.noted() < self.last_with_changes;
        let lacks = open && !self.commits.is_serial();
        let due = self.witness.is_due(lacks, &self.requests, cx.now);
        if due && !self.commits.is_busy() && !self.commits.has_changes() {
            self.say_durable(true, cx);
        }
    }

    /// Brings a clean shutdown one step further: commit what changed, flush, commit once more to
    /// say that it is durable, flush, write the tail record, flush.
    #[cold]
    pub(super) fn advance_shutdown(&mut self, cx: &mut Cx<'_>) {
        let waits = self.punching.is_busy() || self.checkpoints.is_busy() || !self.loads.is_empty();
        if waits || self.commits.is_busy() || !self.requests.must_leave_clean() {
            return;
        }
        if !self.dirty.is_empty() {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        } else if self.compact_next(cx) {
            // What it has begun comes first.
        } else if !self.commits.is_durable() {
            self.commits.begin_flush(cx);
        } else if self.commits.noted() < self.last_with_changes {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        } else if !self.advance_last_checkpoint(cx) {
            let tail = Data::bytes(self.tail().encode(self.id));
            self.requests.write_shutdown_record(TAIL, TAIL_BLOCK, tail, cx);
        }
    }

    /// Spills the next slice that is to have no patches, as far as space allows. False if none is
    /// left.
    fn compact_next(&mut self, cx: &mut Cx<'_>) -> bool {
        while let Some(slice) = self.compacting.as_mut().and_then(BTreeSet::pop_first) {
            let own = self.objects.slice(slice);
            let has_patches = own.is_some_and(|own| own.content.patches.objects().next().is_some());
            if has_patches && self.spill_alone(slice, cx) {
                // Some may be left, or a block has to be read first.
                self.compacting.get_or_insert_default().insert(slice);
                return true;
            }
        }
        false
    }

    /// What the tail record says now.
    fn tail(&self) -> Tail {
        Tail {
            root: self.tree.root_pointer(),
            next_sequence: self.next_sequence,
            commit: self.commits.last(),
            digest: self.tree.digest(),
            live: self.tree.live(),
        }
    }
}
