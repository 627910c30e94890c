//! Changing objects: choose places for data, write it, and say in patches where it lies.

use super::address::{
    ATTRIBUTE_BYTES, ATTRIBUTES, Within, address, bytes_of, is_within, member_of, slice_of, split,
};
use super::format::{Entry, PATCH_ROOM, looks_like_map};
use super::objects::{Held, Unknown};
use super::patch::{CUT_BYTES, EDIT_HEAD, RUN_HEAD, SUM_BYTES};
use super::{RESERVE, Vlfs};
use crate::eager::commit::Batch;
use crate::eager::place::Plan;
use crate::eager::read::{Entries, invert_first};
use crate::eager::writes::{Answered, Writing};
use crate::eager::{self, BATCH_BLOCKS, Mapped as _, SHORT_RUN};
use seekless_engine::data::{Body, Piece, is_zero};
use seekless_engine::io::{Done, Io, IoError};
use seekless_engine::layer::Cx;
use seekless_engine::request_table::Work;
use seekless_engine::transaction::{NAMED_BYTES, Patch, Transaction, patch_cost};
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use smallvec::SmallVec;

/// Bytes in a map block, at most, for what one request changes of a slice.
pub(super) const FRESH_ROOM: usize = PATCH_ROOM / 2;

// A transaction that says no more than its limit fits, whatever slice it is of.
const _: () = assert!(RUN_HEAD + SUM_BYTES <= NAMED_BYTES as usize);
const _: () = assert!(CUT_BYTES <= NAMED_BYTES as usize);
const _: () = assert!(EDIT_HEAD < patch_cost(1) as usize);

/// Bytes of the patches of a slice that objects leave to others, if they cannot be spilled.
const ROOM_OF_OTHERS: usize = PATCH_ROOM / 2;

/// Free blocks that only map blocks may take, for slices whose pointers have to be given out again.
pub(super) const LAST_RESERVE: u64 = 8;

/// One change of an object.
#[derive(Clone, Debug)]
enum Change {
    /// A block lies there now.
    Place(BlockNr, Entry),
    /// Blocks hold nothing from now on: from, and how many.
    Cut(BlockNr, u64),
    /// The attributes are these.
    Attributes(BlockNr, Vec<u8>),
    /// Some bytes of a block are these.
    Edit(BlockNr, Patch),
}

impl Change {
    fn at(&self) -> BlockNr {
        match *self {
            Change::Place(at, _)
            | Change::Cut(at, _)
            | Change::Attributes(at, _)
            | Change::Edit(at, _) => at,
        }
    }
}

/// What a part of a write, or a transaction, changes once its data is on the device.
#[derive(Clone, Debug, Default)]
pub(super) struct Install {
    changes: SmallVec<[Change; 2]>,
    /// Bytes that it takes in map blocks, by slice.
    takes: SmallVec<[(u32, usize); 1]>,
}

/// Commands of this layout: nothing goes beside the blocks.
pub(super) type Commands = eager::write::Commands<()>;

/// A command as it is.
pub(super) fn bare(io: Io, (): ()) -> Io {
    io
}

/// Bytes in map blocks that a piece of work takes at most, by slice in ascending order.
type Takes = SmallVec<[(u32, usize); 1]>;

/// What a block that changes as a whole takes.
fn whole(at: BlockNr) -> (BlockNr, usize) {
    let bytes = match split(at).1 {
        ATTRIBUTES => CUT_BYTES + EDIT_HEAD + ATTRIBUTE_BYTES,
        _ => RUN_HEAD + SUM_BYTES,
    };
    (at, bytes)
}

fn takes(parts: impl Iterator<Item = (BlockNr, usize)>) -> Takes {
    let mut all = Takes::new();
    for (at, bytes) in parts {
        let slice = slice_of(split(at).0);
        match all.iter_mut().find(|(one, _)| *one == slice) {
            Some((_, sum)) => *sum += bytes,
            None => all.push((slice, bytes)),
        }
    }
    all.sort_unstable();
    all
}

/// An address in a transaction that no object has, if there is one.
pub(super) fn out_of_range(all: &Transaction) -> Option<BlockNr> {
    let is_cut_wrong = |cut: &&std::ops::Range<BlockNr>| {
        let last = cut.end - 1;
        split(cut.start).0 != split(last).0
    };
    let cut = all.cuts().iter().find(is_cut_wrong).map(|cut| cut.start);
    let ends = |one: &Patch| one.at + one.bytes.len();
    let is_patch_wrong = |(at, patches): &(BlockNr, &[Patch])| {
        let most = bytes_of(split(*at).1).unwrap_or(0);
        patches.iter().any(|one| ends(one) > most)
    };
    let patch = all.patches().find(is_patch_wrong).map(|(at, _)| at);
    let whole = all.changes().find(|(at, _)| !is_within(*at, 1)).map(|(at, _)| at);
    cut.or(patch).or(whole)
}

fn takes_of_group(all: &Transaction) -> Takes {
    let cuts = all.cuts().iter().map(|cut| (cut.start, CUT_BYTES));
    let edit = |one: &Patch| EDIT_HEAD + one.bytes.len();
    let edits = all.patches().map(|(at, all)| (at, all.iter().map(edit).sum()));
    takes(cuts.chain(edits).chain(all.changes().map(|(at, _)| whole(at))))
}

fn takes_of(work: &Work) -> Takes {
    match work {
        Work::Read { .. } => Takes::new(),
        Work::Write { at, data, .. } => takes((*at..at + u64::from(data.blocks())).map(whole)),
        Work::Trim { at, .. } => SmallVec::from_slice(&[(slice_of(split(*at).0), CUT_BYTES)]),
        Work::Group { all, .. } => takes_of_group(all),
    }
}

/// Blocks that a piece of work writes, at most.
fn blocks_of(work: &Work) -> u64 {
    match work {
        Work::Write { data, .. } => u64::from(data.blocks()),
        Work::Group { all, .. } => {
            all.changes().filter(|(_, piece)| piece.is_some()).count() as u64
        }
        Work::Read { .. } | Work::Trim { .. } => 0,
    }
}

/// Whether a piece of work can begin.
enum Ready {
    Yes,
    /// Something has to come first: a block is on its way to memory, a commit, free space.
    Waits,
    /// It cannot.
    Fails(IoError),
}

impl Vlfs {
    /// Dispatches what waits, in order of arrival.
    pub(super) fn dispatch(&mut self, cx: &mut Cx<'_>) {
        let mut before = usize::MAX;
        while self.loads.is_empty() && self.requests.queued() < before {
            before = self.requests.queued();
            if self.commits.is_serial() {
                if self.commits.is_running() || !self.reads.is_empty() {
                    return;
                }
                self.begin_batch(cx);
            } else {
                self.begin_one(cx);
            }
        }
    }

    /// Begins the next piece of work on a device with a volatile cache: data now, map later.
    fn begin_one(&mut self, cx: &mut Cx<'_>) {
        if self.requests.next_is_read() {
            return self.begin_next_read(cx);
        }
        match self.is_ready(cx) {
            Ready::Waits => {}
            Ready::Fails(error) => self.fail_next(error, cx),
            Ready::Yes => {
                let Some(work) = self.requests.pop() else { return };
                let request = work.request();
                let mut commands = Commands::default();
                let then = self.place_work(work, 0, &mut commands, cx);
                let part = self.writes.begin(request, then, commands, cx, bare);
                if let Some(part) = part {
                    self.install_part(&part, cx);
                }
            }
        }
    }

    /// Begins a batch on a device that keeps what it has completed: one read, or all changes that
    /// wait up to the next read, data and map together.
    fn begin_batch(&mut self, cx: &mut Cx<'_>) {
        if self.requests.next_is_read() {
            return self.begin_next_read(cx);
        }
        let mut batch = Batch::default();
        let mut commands = Commands::default();
        let mut blocks = 0;
        while blocks < u64::from(BATCH_BLOCKS) && !self.requests.next_is_read() {
            let ready = self.is_ready(cx);
            self.take_spilled(&mut commands);
            match ready {
                Ready::Waits => break,
                Ready::Fails(error) if batch.requests.is_empty() => self.fail_next(error, cx),
                Ready::Fails(_) => break,
                Ready::Yes => {
                    let Some(work) = self.requests.pop() else { break };
                    blocks += blocks_of(&work);
                    batch.requests.push(work.request());
                    let then = self.place_work(work, 1, &mut commands, cx);
                    for change in &then.changes {
                        self.remember(slice_of(split(change.at()).0));
                        self.install(change, cx);
                    }
                }
            }
        }
        if self.dirty.is_empty() {
            // Nothing has changed: trims of what holds nothing.
            for request in batch.requests {
                self.requests.part_done(request, cx);
            }
        } else {
            // Also what was spilled for a change that has to wait.
            self.begin_commit(batch, commands, cx);
        }
    }

    /// Whether the next change can begin. On a device that commits each batch at once, slices that
    /// it does not fit are spilled in front of it.
    fn is_ready(&mut self, cx: &mut Cx<'_>) -> Ready {
        let Some(work) = self.requests.front() else { return Ready::Waits };
        let (takes, blocks) = (takes_of(work), blocks_of(work));
        if takes.iter().any(|&(_, bytes)| bytes > FRESH_ROOM) {
            return Ready::Fails(IoError::NoSpace);
        }
        let is_short = |&(slice, bytes): &(u32, usize)| !self.fits(slice, bytes + ROOM_OF_OTHERS);
        if let Some(error) = self.is_of_lost(work)
            && takes.iter().any(is_short)
        {
            return Ready::Fails(error);
        }
        let in_flight = self.writes.iter().map(|one| one.takes.len()).sum::<usize>();
        let maps = (self.dirty.len() + takes.len() + in_flight) as u64;
        // What only gives up blocks may take from the reserve.
        let reserve = if blocks == 0 { LAST_RESERVE } else { self.reserve() };
        if self.free.free() < blocks + maps + reserve {
            return self.starves();
        }
        for &(slice, bytes) in &takes {
            match self.make_room(slice, bytes, blocks + maps, cx) {
                Ready::Yes => {}
                other => return other,
            }
        }
        Ready::Yes
    }

    /// Makes sure that so many bytes fit the patches of a slice: spills it if need be, leaving
    /// `blocks` free blocks to others.
    fn make_room(&mut self, slice: u32, bytes: usize, blocks: u64, cx: &mut Cx<'_>) -> Ready {
        if self.fits(slice, bytes) {
            // What writes in flight take goes to the next commit if need be.
            let waiting = self.in_flight(slice);
            return if self.fits(slice, bytes + waiting) { Ready::Yes } else { Ready::Waits };
        }
        let is_serial = self.commits.is_serial();
        if !is_serial && self.commits.is_running() {
            return self.starves();
        }
        let most = self.free.free().saturating_sub(blocks + LAST_RESERVE);
        let Some(plan) = self.plan_spill(slice, most, cx) else { return Ready::Waits };
        if plan.is_empty() {
            let error = plan.lost.first().map(|(_, error)| *error);
            return error.map_or_else(|| self.starves(), Ready::Fails);
        }
        self.spill(slice, plan, cx);
        if !is_serial {
            // A commit of its own, so that all that is written is on its way at once.
            self.begin_commit(Batch::default(), Commands::default(), cx);
        }
        // If it still does not fit, the rest is spilled when this much is written.
        if self.fits(slice, bytes) { Ready::Yes } else { self.starves() }
    }

    /// Why an object cannot take the blocks or bytes that this brings, if one cannot. What it gives
    /// up it may.
    fn is_of_lost(&self, work: &Work) -> Option<IoError> {
        let lost = |at: BlockNr| self.objects.lost.get(&split(at).0).copied();
        match work {
            _ if self.objects.lost.is_empty() => None,
            Work::Read { .. } | Work::Trim { .. } => None,
            Work::Write { at, .. } => lost(*at),
            Work::Group { all, .. } => {
                let whole = all.changes().filter(|(_, piece)| piece.is_some()).map(|(at, _)| at);
                whole.chain(all.patches().map(|(at, _)| at)).find_map(lost)
            }
        }
    }

    fn starves(&mut self) -> Ready {
        self.commits.starve();
        Ready::Waits
    }

    /// Free blocks that only map blocks and spills may take: what the patches of a slice or two
    /// lead to.
    pub(super) fn reserve(&self) -> u64 {
        (self.device_blocks / 16).clamp(RESERVE, 5 * RESERVE)
    }

    /// Bytes in the map block of a slice that writes in flight will take.
    fn in_flight(&self, slice: u32) -> usize {
        let all = self.writes.iter().flat_map(|one| &one.takes);
        all.filter(|(of, _)| *of == slice).map(|(_, bytes)| bytes).sum()
    }

    /// Has a block read that something needs. Returns why that cannot be, if it cannot.
    pub(super) fn need(&mut self, unknown: Unknown, cx: &mut Cx<'_>) -> Option<IoError> {
        match unknown {
            Unknown::Missing(entry) => {
                let failure = self.objects.nodes.failure(entry);
                if failure.is_none() {
                    self.counters.loads += u64::from(self.loads.begin(entry, cx));
                }
                failure
            }
            Unknown::Damaged(object) => Some(IoError::Checksum { block: address(object, 0) }),
        }
    }

    pub(super) fn fail_next(&mut self, error: IoError, cx: &mut Cx<'_>) {
        if let Some(work) = self.requests.pop() {
            self.requests.fail(work.request(), error);
            self.requests.part_done(work.request(), cx);
        }
    }

    /// Keeps a slice as it is before a batch changes it.
    pub(super) fn remember(&mut self, slice: u32) {
        if self.commits.is_serial() && !self.undo.iter().any(|(one, _)| *one == slice) {
            self.undo.push((slice, self.objects.slice(slice).cloned()));
        }
    }

    /// Chooses places for what a piece of work writes; `want_after` blocks follow it.
    fn place_work(
        &mut self,
        work: Work,
        want_after: u32,
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) -> Install {
        let takes = takes_of(&work);
        let mut install = Install { takes, ..Install::default() };
        self.counters.client_blocks += blocks_of(&work);
        match work {
            Work::Read { .. } => {}
            Work::Trim { at, count, .. } => {
                install.changes.push(Change::Cut(at, u64::from(count)));
            }
            Work::Write { at, data, .. } => {
                let count = data.blocks();
                let scattered = count < SHORT_RUN && at != self.sequential_at;
                self.sequential_at = at + u64::from(count);
                for index in 0..count {
                    let want = (count - index + want_after, scattered);
                    let at = at + u64::from(index);
                    self.place_change(at, data.block(index), want, &mut install, commands, cx);
                }
            }
            Work::Group { all, .. } => {
                for cut in all.cuts() {
                    install.changes.push(Change::Cut(cut.start, cut.end - cut.start));
                }
                let mut left = all.changes().count() as u32;
                let scattered = left < SHORT_RUN;
                for (at, piece) in all.changes() {
                    let want = (left + want_after, scattered);
                    match piece {
                        Some(piece) => {
                            let piece = piece.clone();
                            self.place_change(at, piece, want, &mut install, commands, cx);
                        }
                        None => install.changes.push(Change::Cut(at, 1)),
                    }
                    left -= 1;
                }
                for (at, patches) in all.patches() {
                    let edits = patches.iter().map(|one| Change::Edit(at, one.clone()));
                    install.changes.extend(edits);
                }
            }
        }
        install
    }

    fn place_change(
        &mut self,
        at: BlockNr,
        piece: Piece,
        want: (u32, bool),
        install: &mut Install,
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) {
        install.changes.push(match split(at).1 {
            ATTRIBUTES => Change::Attributes(at, piece.to_bytes()[..ATTRIBUTE_BYTES].to_vec()),
            _ if is_zero(&piece) => Change::Cut(at, 1),
            _ => {
                self.commits.data_written();
                Change::Place(at, self.place_block(piece, want, commands, cx))
            }
        });
    }

    /// Chooses a place for a block that is not zeros. `want` is how many blocks, this one among
    /// them, are still to be placed, and whether they are scattered.
    fn place_block(
        &mut self,
        piece: Piece,
        want: (u32, bool),
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) -> Entry {
        let (entry, piece) = self.choose(piece, want, cx);
        commands.push(entry.place(), piece, ());
        entry
    }

    /// The same without a command: also returns what is to be written there.
    pub(super) fn choose(
        &mut self,
        piece: Piece,
        (want, scattered): (u32, bool),
        cx: &Cx<'_>,
    ) -> (Entry, Piece) {
        let (piece, escaped) = self.escape(piece);
        let sum = self.sums.of(&piece);
        let place = self.place(want, scattered, cx);
        self.objects.nodes.forget(place);
        (Entry::new(place, escaped, sum), piece)
    }

    /// The next free block, near the head.
    ///
    /// # Panics
    /// If there is none: the callers have made sure that there is.
    pub(super) fn place(&mut self, want: u32, scattered: bool, cx: &Cx<'_>) -> u32 {
        let chosen = match cx.arm(0).filter(|_| self.headed) {
            Some(arm) => {
                let plan = match self.plan.as_mut() {
                    Some(plan) => plan,
                    None => {
                        let head = cx.head(0).expect("a device with an arm has a head");
                        self.plan.insert(Plan::new(head))
                    }
                };
                self.placer.choose(&mut self.free, arm, plan, want)
            }
            None => self.placer.nominal.choose(&mut self.free, scattered),
        };
        chosen.expect("room is checked before blocks are placed")
    }

    /// A block that looks like a map block of this very volume is stored with its first byte
    /// inverted.
    fn escape(&self, block: Piece) -> (Piece, bool) {
        let hides = match &block.body {
            Body::Zeros | Body::Stamp { .. } => false,
            Body::Bytes(bytes) => looks_like_map(self.id, bytes),
            _ => looks_like_map(self.id, &block.to_bytes()),
        };
        if hides { (invert_first(&block), true) } else { (block, false) }
    }

    /// A data command has been answered.
    pub(super) fn data_done(&mut self, part: usize, done: Done, cx: &mut Cx<'_>) {
        match self.writes.done(part, done, !self.headed, &mut self.requests, cx) {
            Answered::Waits => {}
            Answered::Ended(part) => self.install_part(&part, cx),
            Answered::Refused(refused) => {
                if self.free.free() <= RESERVE || self.requests.failed().is_some() {
                    let (part, error) = (refused.part, refused.error);
                    let part = self.writes.give_up(part, error, &mut self.requests, cx);
                    return self.install_part(&part, cx);
                }
                self.placer.nominal.leave(&self.free, refused.place);
                let place = self.place(1, true, cx);
                self.objects.nodes.forget(place);
                let old = refused.place;
                let install = self.writes.elsewhere(refused, place, cx);
                for change in &mut install.changes {
                    if let Change::Place(_, entry) = change
                        && entry.place() == old
                    {
                        *entry = entry.moved(place);
                    }
                }
            }
        }
    }

    /// All data of a part is on the device: patches may name it.
    fn install_part(&mut self, part: &Writing<Install>, cx: &mut Cx<'_>) {
        if !self.requests.has_failed(part.request) {
            part.then.changes.iter().for_each(|change| self.install(change, cx));
        } else if self.requests.failed().is_none() {
            for change in &part.then.changes {
                if let Change::Place(_, entry) = change {
                    self.free.release(entry.place());
                }
            }
        }
        if let Some(request) = self.requests.part_written(part.request, cx) {
            self.commits.wait(request, &mut self.requests, cx);
        }
    }

    /// Says in patches what has changed.
    fn install(&mut self, change: &Change, cx: &Cx<'_>) {
        let (object, within) = split(change.at());
        let (slice, member) = (slice_of(object), member_of(object));
        if let Change::Cut(..) = change
            && self.objects.slice(slice).is_none()
        {
            return;
        }
        let own = self.objects.slice_mut(slice);
        let patches = &mut own.content.patches;
        let superseded: SmallVec<[Entry; 1]> = match change {
            Change::Place(_, entry) => patches.place(member, within, *entry).into_iter().collect(),
            Change::Cut(_, count) => {
                self.cut.insert(slice);
                let end = u64::from(within) + count;
                patches.cut(member, within, end as Within).into()
            }
            Change::Attributes(_, bytes) => {
                let old = patches.cut(member, ATTRIBUTES, ATTRIBUTES + 1);
                patches.edit(member, ATTRIBUTES, 0, bytes);
                old.into()
            }
            Change::Edit(_, Patch { at, bytes }) => {
                patches.edit(member, within, *at as u16, bytes);
                SmallVec::new()
            }
        };
        self.changed(slice, cx);
        superseded.iter().for_each(|old| self.supersede(old.place()));
    }

    /// A slice has changed: the next commit has a map block of it.
    pub(super) fn changed(&mut self, slice: u32, cx: &Cx<'_>) {
        self.dirty.insert(slice);
        self.spilled_in_vain = false;
        if let Some(compacting) = &mut self.compacting {
            compacting.insert(slice);
        }
        self.commits.changed(cx.now);
    }

    /// The content of a block that a spill has put down and that may not be on the device.
    fn unwritten(&self, entry: Entry) -> Option<Piece> {
        let mut all = self.spilled.iter().chain(&self.spilling);
        let (_, piece) = all.find(|(place, _)| *place == entry.place())?;
        Some(if entry.escaped() { invert_first(piece) } else { piece.clone() })
    }

    /// Begins the read that is next, once what it needs to know is in memory.
    fn begin_next_read(&mut self, cx: &mut Cx<'_>) {
        let Some(&Work::Read { request, at, count }) = self.requests.front() else { return };
        let mut entries: Entries<Entry> = SmallVec::with_capacity(count as usize);
        let mut known: Vec<(u32, Piece)> = Vec::new();
        for index in 0..count {
            match self.objects.content(at + u64::from(index)) {
                Ok(Held::At(entry)) => match self.unwritten(entry) {
                    Some(piece) => {
                        known.push((index, piece));
                        entries.push(Entry::UNMAPPED);
                    }
                    None => entries.push(entry),
                },
                Ok(Held::Hole) => entries.push(Entry::UNMAPPED),
                Ok(Held::Bytes(bytes)) => {
                    debug_assert_eq!(bytes.len(), BLOCK_BYTES);
                    known.push((index, Piece::block(Body::Bytes(bytes.into()))));
                    entries.push(Entry::UNMAPPED);
                }
                Err(unknown) => {
                    if let Some(error) = self.need(unknown, cx) {
                        self.fail_next(error, cx);
                    }
                    return;
                }
            }
        }
        self.requests.pop();
        let epoch = self.commits.open();
        self.reads.begin_knowing((request, at), (entries, known), epoch, &mut self.requests, cx);
    }
}
