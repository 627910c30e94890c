//! Writing checkpoints while a volume is mounted, and the map blocks that are kept for them.
//!
//! A recovery adds to the bitmap of the newest checkpoint what each map block since says its commit
//! has written. So a superseded map block stays until a younger checkpoint is durable. A volume
//! that needs their space gives them up; a mount after a crash then walks all inodes.

use super::super::{CHECKPOINT, Vlfs};
use super::{Areas, Checkpoint, Found, Head, data, encode_block};
use crate::vlog::format::Pointer;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, Io, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, SECONDS, Time};
use std::collections::{BTreeSet, VecDeque};

/// Blocks that are written at once.
const CHUNK: u64 = 16;
/// How many times the slices in use there are map blocks since the last checkpoint when the next
/// one is due, once no client has waited for a while.
const FACTOR: u64 = 4;
const REST: Time = SECONDS;
/// Which part of the free blocks kept map blocks are when one is due whatever clients do, and how
/// many they are at most: a mount reads each. A large checkpoint is worth more of them.
const SHARE: u64 = 8;
const MOST_KEPT: u64 = 1 << 16;
const KEPT_FOR_BLOCK: u64 = 16;

/// A checkpoint on its way.
#[derive(Clone, Debug)]
struct Taking {
    head: Head,
    map: Vec<Pointer>,
    /// Kept blocks that no state from its commit on needs.
    unneeded: BTreeSet<u32>,
    /// The block of the area that comes next.
    next: u64,
    /// A command is on its way, of so many blocks; none for a flush.
    sent: Option<u64>,
    /// Map blocks written since it was begun.
    written: u64,
    /// Some of them were given up.
    is_broken: bool,
}

/// The checkpoints of a volume.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    wanted: bool,
    areas: Areas,
    /// Number and area of the next one.
    number: u64,
    area: usize,
    /// The commit of the newest one, if all map blocks since are on the device.
    since: Option<u64>,
    /// Superseded map blocks, each with the commit that did it.
    kept: VecDeque<(u64, u32)>,
    /// Map blocks written since the newest one.
    written: u64,
    taking: Option<Taking>,
    /// The medium has refused one, or nothing may be written: no other is tried.
    refused: bool,
    /// Kept map blocks were given up since one was begun.
    pressed: bool,
    /// Written since the mount.
    taken: u64,
}

impl Checkpoints {
    /// None yet. A mount for reading only writes none.
    pub fn new(areas: Areas, wanted: bool, read_only: bool) -> Checkpoints {
        Checkpoints {
            wanted,
            areas,
            number: 1,
            area: 0,
            since: None,
            kept: VecDeque::new(),
            written: 0,
            taking: None,
            refused: read_only,
            pressed: false,
            taken: 0,
        }
    }

    /// True if the volume has checkpoints, rather than walking all inodes at each mount.
    pub fn are_wanted(&self) -> bool {
        self.wanted
    }

    /// After a mount that has found these; the next one goes to the other area.
    pub fn found(&mut self, found: &Found) {
        self.number = found.last_number + 1;
        self.area = found.newest.as_ref().map_or(0, |(area, _)| 1 - area);
    }

    /// After a mount that begins at one: `kept` are the superseded map blocks since, of commits up
    /// to `last`, and `written` is how many map blocks there are since.
    pub fn begins_at(&mut self, one: &Checkpoint, last: u64, kept: Vec<u32>, written: u64) {
        self.since = Some(one.head.commit);
        self.kept = kept.into_iter().map(|place| (last, place)).collect();
        self.written = written;
    }

    /// True if superseded map blocks stay.
    pub fn keeps(&self) -> bool {
        self.wanted && !self.refused && !self.pressed
    }

    /// Keeps a map block that a commit supersedes.
    pub fn keep(&mut self, commit: u64, place: u32) {
        self.kept.push_back((commit, place));
    }

    /// Map blocks that are kept.
    pub fn kept(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.kept.iter().map(|&(_, place)| place)
    }

    /// Map blocks that were given up, and wait for a commit that says what is durable.
    pub fn given_up(&self) -> u64 {
        if self.pressed { self.kept.len() as u64 } else { 0 }
    }

    /// Checkpoints written since the mount.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// True if a command is on its way.
    pub fn is_busy(&self) -> bool {
        self.taking.as_ref().is_some_and(|taking| taking.sent.is_some())
    }

    /// Map blocks were written.
    pub fn map_written(&mut self, count: u64) {
        self.written += count;
        if let Some(taking) = &mut self.taking {
            taking.written += count;
        }
    }

    fn is_due_when_idle(&self, live: u32) -> bool {
        let wanted = self.wanted && !self.refused;
        wanted && (self.since.is_none() || self.written > FACTOR * u64::from(live))
    }
}

impl Vlfs {
    /// The open commit supersedes a map block.
    pub(in super::super) fn supersede_map(&mut self, place: u32) {
        match self.checkpoints.keeps() {
            true => self.checkpoints.keep(self.commits.open(), place),
            false => self.commits.supersede(place),
        }
    }

    /// Frees kept map blocks that neither the newest checkpoint nor the witness rule needs.
    pub(in super::super) fn release_kept(&mut self) {
        let own = &mut self.checkpoints;
        let up_to = if own.keeps() { own.since.unwrap_or(0) } else { u64::MAX };
        let up_to = up_to.min(self.commits.noted());
        while let Some(&(commit, place)) = own.kept.front()
            && commit <= up_to
        {
            own.kept.pop_front();
            self.free.release(place);
            self.punching.freed(place);
        }
    }

    /// Gives kept map blocks up for their space. False if there are none.
    pub(in super::super) fn give_up_kept(&mut self) -> bool {
        let own = &mut self.checkpoints;
        if own.kept.is_empty() || own.pressed {
            return false;
        }
        (own.pressed, own.since) = (true, None);
        if let Some(taking) = &mut own.taking {
            taking.is_broken = true;
        }
        true
    }

    /// True if no block counts as used that is not, apart from those that a checkpoint leaves out.
    fn knows_what_is_free(&self) -> bool {
        self.commits.waiting() == 0
            && self.writes.is_empty()
            && self.writes.refused() + self.sent.refused == 0
            && !self.punching.is_busy()
            && !self.reclaim.is_wanted()
    }

    /// True if the tree is that of the last commit, and all of that commit was written.
    fn may_begin_checkpoint(&self) -> bool {
        let free = !self.commits.is_running() && self.checkpoints.taking.is_none();
        free && self.tree.root().is_some()
    }

    /// The same, and everything is durable.
    fn can_begin_checkpoint(&self) -> bool {
        let at_rest = !self.commits.is_busy() && self.commits.is_durable();
        at_rest && self.may_begin_checkpoint()
    }

    fn is_pressed_by_kept(&self) -> bool {
        let own = &self.checkpoints;
        let kept = own.kept.len() as u64;
        let most = (own.areas.blocks() * KEPT_FOR_BLOCK).max(MOST_KEPT);
        own.wanted && !own.refused && kept > most.min(self.free.free() / SHARE)
    }

    /// When a checkpoint is due though nothing happens.
    pub(in super::super) fn checkpoint_due(&self) -> Option<Time> {
        let may = self.requests.is_running() && self.requests.failed().is_none();
        let due = self.checkpoints.is_due_when_idle(self.tree.live());
        let since = self.requests.idle_since().filter(|_| may && due)?;
        self.can_begin_checkpoint().then_some(since + REST)
    }

    /// Begins a checkpoint for want of space. Before other commits begin: where clients never rest,
    /// one is on its way or not durable nearly always.
    pub(in super::super) fn begin_pressed_checkpoint(&mut self) {
        // What the newest one has made superfluous waits for a commit that says what is durable.
        let is_older = self.checkpoints.since.is_none_or(|since| since < self.commits.last());
        if is_older && self.is_pressed_by_kept() && self.may_begin_checkpoint() {
            self.begin_checkpoint();
        }
    }

    /// Begins a checkpoint if it is time, and sends its next blocks.
    pub(in super::super) fn advance_checkpoint(&mut self, cx: &mut Cx<'_>) {
        if self.checkpoint_due().is_some_and(|due| due <= cx.now) {
            self.begin_checkpoint();
        }
        if self.is_pressed_by_kept() || self.requests.idle_since().is_some() {
            self.go_on_with_checkpoint(cx);
        }
    }

    /// One step of the checkpoint of a clean shutdown, at which everything is durable. False if
    /// none is left to do.
    pub(in super::super) fn advance_last_checkpoint(&mut self, cx: &mut Cx<'_>) -> bool {
        let own = &self.checkpoints;
        let is_there = own.since.is_some_and(|since| since >= self.commits.last());
        if !own.wanted || own.refused || is_there && own.taking.is_none() {
            return false;
        }
        if self.can_begin_checkpoint() {
            self.begin_checkpoint();
        }
        self.go_on_with_checkpoint(cx);
        self.checkpoints.taking.is_some()
    }

    fn begin_checkpoint(&mut self) {
        let early = u64::from(planted(PlantedBug::CheckpointEarly));
        let head = Head {
            number: self.checkpoints.number,
            commit: self.commits.last() + early,
            next_sequence: self.next_sequence,
            digest: self.tree.digest(),
            durable: self.commits.durable(),
            is_exact: self.knows_what_is_free(),
        };
        let pointer = |slice| {
            let node = self.tree.node(slice);
            Pointer { place: node.place, sequence: node.sequence }
        };
        let map = (0..self.tree.slices()).map(pointer).collect();
        let own = &mut self.checkpoints;
        own.pressed = false;
        let unneeded = own.kept.iter().filter(|(commit, _)| *commit <= self.commits.last());
        let unneeded = unneeded.map(|&(_, place)| place).collect();
        let (next, sent, written, is_broken) = (0, None, 0, false);
        own.taking = Some(Taking { head, map, unneeded, next, sent, written, is_broken });
    }

    fn go_on_with_checkpoint(&mut self, cx: &mut Cx<'_>) {
        let Some(mut taking) = self.checkpoints.taking.take() else { return };
        let left = self.checkpoints.areas.blocks() - taking.next;
        let count = left.min(CHUNK);
        // No block is of a commit that might be lost: another would have its number.
        let may_begin = taking.head.commit <= self.commits.durable();
        let waits = !may_begin && !planted(PlantedBug::CheckpointEarly);
        if taking.sent.is_none() && !waits {
            let first = self.checkpoints.areas.start(self.checkpoints.area) + taking.next;
            let io = match count {
                0 => Edge::VlfsCheckpointFlush.flush(CHECKPOINT),
                _ => Io::write(CHECKPOINT, first, data(self.blocks(&mut taking, count))),
            };
            cx.send(0, io.for_purpose(Purpose::Map));
            taking.sent = Some(count);
        }
        self.checkpoints.taking = Some(taking);
    }

    /// The next blocks of a checkpoint. The bitmap says what is in use by now. What was freed since
    /// the commit of the checkpoint was superseded by a commit that is durable: no recovery that
    /// ends before that one takes the checkpoint.
    fn blocks(&self, taking: &mut Taking, count: u64) -> Vec<Vec<u8>> {
        let areas = self.checkpoints.areas;
        let pool = areas.end()..self.device_blocks - 1;
        let block = |index| {
            let is_end = index == areas.blocks() - 1;
            if is_end {
                let same = taking.head.commit == self.commits.last();
                taking.head.is_exact &= same && self.knows_what_is_free();
                taking.head.durable = self.commits.durable();
            }
            if is_end || index == 0 {
                return taking.head.encode(self.id, areas, is_end);
            }
            let is_used = |at: BlockNr| {
                let is_unneeded = || taking.unneeded.contains(&(at as u32));
                pool.contains(&at) && !self.free.is_free(at) && !is_unneeded()
            };
            encode_block((self.id, areas, &taking.head), index, &taking.map, is_used)
        };
        (taking.next..taking.next + count).map(block).collect()
    }

    /// A command of a checkpoint was answered.
    pub(in super::super) fn checkpoint_part_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        let own = &mut self.checkpoints;
        let Some(taking) = &mut own.taking else { return };
        let is_flush = taking.sent == Some(0);
        taking.next += taking.sent.take().unwrap_or(0);
        let is_last = taking.next == own.areas.blocks();
        match done.outcome {
            Err(error) if is_flush => {
                own.taking = None;
                self.requests.fail_volume(error, cx);
            }
            // The older one counts still, but not for what comes: the next mount walks.
            Err(_) => (own.taking, own.refused) = (None, true),
            Ok(_) if is_flush || is_last && self.commits.is_serial() => self.end_checkpoint(),
            Ok(_) => {}
        }
    }

    fn end_checkpoint(&mut self) {
        let own = &mut self.checkpoints;
        let Some(taking) = own.taking.take() else { return };
        own.since = (!taking.is_broken).then_some(taking.head.commit);
        own.written = taking.written;
        own.number += 1;
        own.taken += 1;
        own.area = 1 - own.area;
    }
}
