//! Checkpoints: the parts of the map that changed are appended to the log, and a record in one of
//! two slots names them and says where the log goes on.
//!
//! Only what changed is written, in chunks of at most a segment, while clients go on. A map block
//! holds what is known when it is written; what changes later is in the log behind the point where
//! the checkpoint began, and a recovery follows the log from there. The record is written when all
//! that it relies on is durable, twice in its slot, so that one that cannot be read is told from
//! one that was being written.

use super::format::{Position, Record};
use super::map::MetaBlock;
use super::{FLUSH_RECORD, Lfs, RECORD};
use seekless_engine::data::Data;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, Io, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::Time;

/// Blocks of data in the log that are worth a checkpoint where no block is hot.
const SETTLED_BLOCKS: u64 = 64;

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// None is being written.
    #[default]
    Idle,
    /// Map blocks and index blocks are being appended.
    Map,
    /// All that the record relies on is becoming durable.
    Settle,
    /// The record is being written.
    Record,
    /// The record is being flushed.
    Flush,
}

/// The last checkpoint and the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoint {
    phase: Phase,
    /// Number of the last durable one, and the part behind which a recovery follows the log.
    number: u64,
    start: u64,
    /// Where the log went on when this one began.
    position: Position,
    /// Slices still to be written.
    todo: Vec<u32>,
    /// The last commit that it relies on.
    commit: u64,
    /// Places of map blocks that the last durable one names and the next one does not.
    given_up: Vec<u32>,
    copies_left: u32,
    clean: bool,
    pub written: u64,
}

impl Checkpoint {
    /// After a mount.
    pub fn restore(&mut self, number: u64, start: u64) {
        *self = Checkpoint { number, start, ..Checkpoint::default() };
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Number of the last durable one.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The part behind which a recovery follows the log.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Map blocks that it will still append.
    pub fn left(&self) -> u64 {
        self.todo.len() as u64
    }

    /// The next one does not need what lies at a place.
    pub fn give_up(&mut self, place: u32) {
        self.given_up.push(place);
    }
}

impl Lfs {
    /// Begins a checkpoint; with `clean` it is the one of a clean shutdown.
    pub(super) fn begin_checkpoint(&mut self, clean: bool, cx: &mut Cx<'_>) {
        if !self.pool.is_empty() {
            self.write_out(&[], cx);
        }
        debug_assert_eq!(self.checkpoint.phase, Phase::Idle, "one checkpoint at a time");
        self.convert();
        self.log.since_checkpoint = 0;
        self.checkpoint.position = self.log.position;
        self.checkpoint.commit = self.log.open() - 1;
        self.checkpoint.todo = self.map.take_changed();
        // In order, so that neighbours of the map are neighbours on the device.
        self.checkpoint.todo.sort_unstable_by(|a, b| b.cmp(a));
        self.checkpoint.clean = clean;
        self.checkpoint.phase = Phase::Map;
    }

    /// Brings the checkpoint one step further.
    pub(super) fn advance_checkpoint(&mut self, cx: &mut Cx<'_>) {
        if self.requests.failed().is_some() || self.requests.is_read_only() {
            return;
        }
        let begins = self.checkpoint.phase == Phase::Idle && self.wants_checkpoint();
        // Where there is no room, a flush is under way that brings some.
        if begins && self.has_room_for_checkpoint() {
            self.begin_checkpoint(false, cx);
        }
        let chunk = self.geometry.segment as usize - 1;
        while self.log.has_completed(self.checkpoint.commit) {
            match self.checkpoint.phase {
                Phase::Map => {
                    let from = self.checkpoint.todo.len().saturating_sub(chunk);
                    let slices = self.checkpoint.todo.split_off(from);
                    let slices: Vec<_> = slices.into_iter().rev().collect();
                    self.append_map(&slices, cx);
                }
                Phase::Settle => return self.settle_checkpoint(cx),
                Phase::Idle | Phase::Record | Phase::Flush => return,
            }
        }
        if self.checkpoint.phase == Phase::Settle && planted(PlantedBug::CheckpointBeforeMap) {
            self.settle_checkpoint(cx);
        }
    }

    /// Appends map blocks, and behind the last of them the index blocks that name them.
    fn append_map(&mut self, slices: &[u32], cx: &mut Cx<'_>) {
        debug_assert_eq!(self.checkpoint.phase, Phase::Map, "map blocks of no checkpoint");
        let mut meta: Vec<_> = slices.iter().map(|&slice| MetaBlock::Slice(slice)).collect();
        let last = self.checkpoint.todo.is_empty();
        if last {
            let indices = self.map.take_changed_indices(slices);
            meta.extend(indices.into_iter().map(MetaBlock::Index));
            self.checkpoint.phase = Phase::Settle;
        }
        if !meta.is_empty() {
            self.write_out(&meta, cx);
            self.checkpoint.commit = self.log.open() - 1;
        }
        if last {
            // They have been written behind the map blocks that changed them.
            self.map.take_changed_indices(&[]);
        }
    }

    fn wants_checkpoint(&self) -> bool {
        self.log.since_checkpoint >= self.checkpoint_interval
            || self.short.checkpoint
            || self.wants_conversion()
    }

    /// True if blocks have become cold and a map that says so may be written: not more of it than
    /// data. Where all are cold, what went to the log is to be overwritten there soon.
    fn wants_conversion(&self) -> bool {
        let (data, map) = (self.log.since_checkpoint, self.geometry.slices());
        let settles = self.policy.is_cold_all_over() && data >= 2 * map + SETTLED_BLOCKS;
        (settles || self.policy.is_converting() && data >= map) && self.has_room_for_map()
    }

    /// Writes the record when everything it relies on is durable.
    fn settle_checkpoint(&mut self, cx: &mut Cx<'_>) {
        debug_assert_eq!(self.checkpoint.phase, Phase::Settle, "a record out of turn");
        let durable = self.checkpoint.commit <= self.log.durable();
        if !durable && !planted(PlantedBug::CheckpointBeforeMap) {
            return;
        }
        if self.log.since_checkpoint == 0 {
            // Nothing but map blocks has been appended: a recovery need not look at them.
            self.checkpoint.position = self.log.position;
        }
        let record = Record {
            number: self.checkpoint.number + 1,
            mounts: self.log.mount,
            clean: self.checkpoint.clean,
            start: self.checkpoint.position,
            // This mount has written everything from before there on.
            judged: Some(self.checkpoint.position.into()),
            roots: self.map.roots().to_vec(),
        };
        let bytes = record.encode(self.id);
        self.checkpoint.phase = Phase::Record;
        self.checkpoint.copies_left = 2;
        for copy in 0..2 {
            let at = self.geometry.record_at(record.number, copy);
            let io = Io::write(RECORD | copy as Tag, at, Data::bytes(bytes.clone()));
            cx.send(0, io.for_purpose(Purpose::Map));
        }
    }

    /// A copy of the record has been answered.
    pub(super) fn record_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        self.log_took(&done.spent);
        if let Err(error) = done.outcome {
            return self.fail_volume(error, cx);
        }
        debug_assert_eq!(self.checkpoint.phase, Phase::Record, "a copy of no record");
        debug_assert!(self.checkpoint.copies_left > 0, "more copies than were written");
        self.checkpoint.copies_left -= 1;
        if self.checkpoint.copies_left > 0 {
            return;
        }
        if self.volatile {
            self.checkpoint.phase = Phase::Flush;
            cx.send(0, Edge::LfsCheckpointFlush.flush(FLUSH_RECORD).for_purpose(Purpose::Map));
        } else {
            self.checkpoint_done(cx.now);
        }
    }

    /// The record has been flushed.
    pub(super) fn record_flushed(&mut self, done: Done, cx: &mut Cx<'_>) {
        match done.outcome {
            Err(error) => self.fail_volume(error, cx),
            Ok(_) => self.checkpoint_done(cx.now),
        }
    }

    fn checkpoint_done(&mut self, now: Time) {
        let checkpoint = &mut self.checkpoint;
        debug_assert!(matches!(checkpoint.phase, Phase::Record | Phase::Flush));
        debug_assert!(checkpoint.start <= checkpoint.position.sequence, "the log goes on");
        checkpoint.phase = Phase::Idle;
        checkpoint.number += 1;
        checkpoint.start = checkpoint.position.sequence;
        checkpoint.written += 1;
        for place in std::mem::take(&mut checkpoint.given_up) {
            let segment = self.segments.of(place);
            self.segments.get_mut(segment).drained = false;
            self.segments.vacate(place);
        }
        self.segments.stir();
        if let Some(hylog) = self.policy.hylog() {
            hylog.settled(now);
        }
    }

    /// True if the last checkpoint says that nothing follows.
    pub(super) fn is_clean(&self) -> bool {
        let checkpoint = &self.checkpoint;
        checkpoint.clean
            && checkpoint.phase == Phase::Idle
            && checkpoint.position == self.log.position
            && self.pool.is_empty()
    }
}
