//! Destaging: writing home what is in the log, while no client waits or when the log is filling up.
//!
//! After a pause whose length shrinks as the log fills (claim D11) a batch of dirty blocks is read
//! from the log, sorted, neighbours joined, and written home; then the homes are flushed, and the
//! slots are clean. A request that arrives waits for the command in progress at most: the batch
//! rests until there is another pause. When free segments run out it goes on nevertheless, from
//! the oldest segment on, since only that makes room.
//!
//! Only durable records are destaged. What is home and not durable in the log would survive a
//! crash that takes older writes, and a home write torn by the crash would have no whole copy.

use super::durability::{Stamps, within};
use super::table::{Addr, BAD, DIRTY};
use super::{DESTAGE_READ, DESTAGE_WRITE, Dcd, Order};
use seekless_engine::data::{Data, Piece, is_zero};
use seekless_engine::io::{Done, Io, IoError, Op, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, MICROS, Time};
use std::collections::VecDeque;

/// Most blocks read needlessly between two that are wanted: cheaper than another command.
const GAP: u32 = 8;
/// The same on a disk with a head: less than half a turn of most disks.
const HEADED_GAP: u32 = 32;
/// Commands in flight on a device that has no head to be kept in order.
const WIDTH: u32 = 8;
/// Among so many runs that come next along the origin the head takes the one it reaches first.
const WINDOW: usize = 64;
/// Commands of the log, or of writing home, after which it is the turn of the other, where both
/// want the same head and neither may wait.
const TURN: u32 = 16;
/// How long the log keeps its turn without a write: clients take a while to go on.
const LINGER: Time = 2000 * MICROS;

/// Pause before destaging by sixteenths of the log in use, in microseconds: 10^(−3f) seconds.
const PAUSE_US: [u64; 17] = [
    1_000_000, 649_382, 421_697, 273_842, 177_828, 115_478, 74_989, 48_697, 31_623, 20_535, 13_335,
    8_660, 5_623, 3_652, 2_371, 1_540, 1_000,
];

/// A block on its way home.
#[derive(Clone, Debug)]
pub struct Item {
    /// Block of the volume.
    pub block: u32,
    /// The slot that holds it.
    pub addr: Addr,
    /// Its content, once read and found whole.
    pub piece: Option<Piece>,
}

/// Who has the head, where the log and the homes share one and the log is filling up. Going from
/// one to the other costs two seeks, so each has several commands in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// Log and batch: they do not take turns.
    #[default]
    Free,
    /// The log, for so many records, or until a while without a write has passed.
    Log { left: u32, until: Time },
    /// The batch, for so many commands.
    Home { left: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reading,
    Writing,
    /// Until writes home up to these are durable.
    Flushing(Stamps),
}

#[derive(Clone, Debug)]
struct Batch {
    phase: Phase,
    /// By address while reading, by block while writing.
    items: Vec<Item>,
    /// Runs of slots that are read with one command.
    runs: Vec<(Addr, u32)>,
    /// Runs of slots that have been begun.
    begun: usize,
    /// Runs of items, neighbours at home, that are still to be written: first and end.
    todo: VecDeque<(usize, usize)>,
    in_flight: u32,
}

/// The state of destaging.
#[derive(Clone, Debug, Default)]
pub struct Destage {
    batch: Option<Batch>,
    /// What a sweep by location has not come to, from its end.
    pub sweep: Vec<(u32, Addr)>,
    /// A request waits for the batch.
    pushed: bool,
    /// Why a slot of the log cannot go home, if there is such a one.
    bad: Option<IoError>,
    /// There is nothing durable to destage yet.
    starved: bool,
    /// What is in the log cannot go home, though a clean shutdown wants it to.
    stuck: bool,
    due: Option<Time>,
    turn: Turn,
    /// It is the turn of the batch, and it uses it.
    holds: bool,
}

impl Destage {
    /// True if the batch has no command in flight, or there is none.
    pub fn rests(&self) -> bool {
        self.batch.as_ref().is_none_or(|batch| batch.in_flight == 0)
    }

    /// True if records must become durable before there is something to destage.
    pub fn wants_log(&self) -> bool {
        self.starved
    }

    /// True if what is in the log cannot go home.
    pub fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// The writes home that the batch wants durable.
    pub fn waits_for(&self) -> Option<Stamps> {
        match self.batch.as_ref()?.phase {
            Phase::Flushing(stamps) => Some(stamps),
            _ => None,
        }
    }

    /// True if the log must wait for its turn.
    pub fn has_the_arm(&self) -> bool {
        self.holds
    }

    /// A record has been written.
    pub fn record_written(&mut self, now: Time) {
        if let Turn::Log { left, until } = &mut self.turn {
            *left = left.saturating_sub(1);
            *until = now + LINGER;
        }
    }

    /// True if something is on its way home.
    pub fn has_batch(&self) -> bool {
        self.batch.is_some()
    }

    fn in_flight(&self) -> u32 {
        self.batch.as_ref().map_or(0, |batch| batch.in_flight)
    }

    /// A command of the batch has been answered.
    fn answered(&mut self) {
        if let Some(batch) = &mut self.batch {
            batch.in_flight -= 1;
        }
        if let Turn::Home { left } = &mut self.turn {
            *left = left.saturating_sub(1);
        }
    }

    /// True if the batch touches a range; it then goes on until it is done.
    pub fn holds_up(&mut self, at: BlockNr, count: u32) -> bool {
        let range = at..at + u64::from(count);
        let touches = |item: &Item| range.contains(&u64::from(item.block));
        let held = self.batch.as_ref().is_some_and(|batch| batch.items.iter().any(touches));
        self.pushed |= held;
        held
    }
}

impl Dcd {
    /// True if segments must become free though clients are waiting.
    pub(super) fn is_pressed(&self) -> bool {
        // A head needs many blocks to choose from, and time for them.
        let share = if self.headed { 2 } else { 8 };
        let least = (u64::from(self.areas.segments) / share).max(2);
        self.log.free_segments() < least || self.log.blocked()
    }

    fn pause(&self) -> Time {
        PAUSE_US[self.log.sixteenths() as usize] * MICROS
    }

    /// When a pause will have lasted long enough, if there is something to do in it.
    pub(super) fn destage_deadline(&self) -> Option<Time> {
        self.destage.due
    }

    /// Goes on with destaging if it may; true if a batch was finished, or the log may go on.
    pub(super) fn advance_destage(&mut self, cx: &mut Cx<'_>) -> bool {
        let held = self.destage.holds;
        let finished = self.try_destage(cx);
        let turn = matches!(self.destage.turn, Turn::Home { .. });
        self.destage.holds = turn && self.destage.in_flight() > 0;
        finished || (held && !self.destage.holds)
    }

    /// True if the batch may use the head.
    fn has_turn(&mut self, cx: &Cx<'_>) -> bool {
        // The log must not run out: packed densely, each record costs a turn of the disk.
        let low = self.log.free_segments() <= (u64::from(self.areas.segments) / 16).max(1);
        let next = match self.destage.turn {
            _ if self.areas.physical || cx.arm(0).is_none() => Turn::Free,
            Turn::Free => Turn::Home { left: TURN },
            Turn::Home { left: 0 } if self.destage.in_flight() == 0 && low => {
                Turn::Home { left: TURN }
            }
            Turn::Home { left: 0 } if self.destage.in_flight() == 0 => {
                Turn::Log { left: TURN, until: cx.now + LINGER }
            }
            Turn::Log { left, until } => {
                let waits = left > 0 && cx.now < until && !self.log.blocked() && !low;
                let writes = self.log.writing.is_some();
                if waits && !writes {
                    self.destage.due = Some(until);
                }
                if waits || writes { self.destage.turn } else { Turn::Home { left: TURN } }
            }
            home => home,
        };
        self.destage.turn = next;
        !matches!(next, Turn::Log { .. } | Turn::Home { left: 0 })
    }

    /// As [`Dcd::advance_destage`], but for whose turn it is.
    fn try_destage(&mut self, cx: &mut Cx<'_>) -> bool {
        self.destage.due = None;
        self.destage.starved = false;
        if self.requests.failed().is_some() || self.requests.is_read_only() {
            return false;
        }
        let end = self.requests.idle_since().map(|since| since + self.pause());
        let wanted = self.destage.pushed || self.requests.any_waits(|needs| needs.through);
        let full = self.is_pressed();
        let pressed = full || wanted;
        let idle = end.is_some_and(|end| end <= cx.now) && self.requests.is_running();
        let leaves = self.leaves_until().is_some_and(|end| cx.now < end);
        let idle = idle || leaves;
        let work = self.destage.batch.is_some() || self.log.dirty() > 0;
        if !idle && work && self.requests.is_running() {
            self.destage.due = end.filter(|&end| end > cx.now);
        }
        let shares = full && !wanted && !idle && work && self.requests.is_running();
        if !shares {
            self.destage.turn = Turn::Free;
        }
        if !(idle || pressed) || !work || (shares && !self.has_turn(cx)) {
            return false;
        }
        if self.destage.batch.is_none() && !self.begin_batch(pressed) {
            let free = self.log.killed.is_empty() && self.directs.is_empty();
            // A record on its way keeps its segment from being destaged.
            let rests = self.log.buffers.is_empty() && self.log.writing.is_none();
            self.destage.stuck = leaves && free && rests && !self.destage.starved;
            let stuck = self.log.blocked() && !self.destage.starved && self.log.killed.is_empty();
            if let Some(error) = self.destage.bad.filter(|_| stuck && self.directs.is_empty()) {
                // The ring cannot pass what cannot go home.
                self.fail_volume(error, cx);
            }
            return false;
        }
        loop {
            let moved = match self.destage.batch.as_ref().map(|batch| batch.phase) {
                Some(Phase::Reading) => self.read_batch(cx),
                Some(Phase::Writing) => self.write_batch(cx),
                Some(Phase::Flushing(stamps)) => return self.finish_batch(stamps, cx.now),
                None => false,
            };
            if !moved {
                return false;
            }
        }
    }

    /// Chooses what goes home next; false if there is nothing that may.
    fn begin_batch(&mut self, pressed: bool) -> bool {
        let mut items = match (pressed, self.caching.order) {
            (true, _) => self.oldest(),
            (_, Order::LastFirst) => self.last_first(),
            (_, Order::LeastValid) => self.least_valid(),
            (_, Order::Location) => self.by_location(),
        };
        if items.is_empty() {
            self.destage.starved = self.log.durable < self.log.written;
            return false;
        }
        items.sort_unstable_by_key(|item| item.addr);
        let gap = if self.headed { HEADED_GAP } else { GAP };
        let mut runs: Vec<(Addr, u32)> = Vec::new();
        for item in &items {
            match runs.last_mut() {
                Some((first, count)) if item.addr <= *first + *count + gap => {
                    *count = item.addr - *first + 1;
                }
                _ => runs.push((item.addr, 1)),
            }
        }
        for &(first, count) in &runs {
            self.use_log(first, count, true);
        }
        let (phase, todo) = (Phase::Reading, VecDeque::new());
        let batch = Batch { phase, items, runs, begun: 0, todo, in_flight: 0 };
        self.destage.batch = Some(batch);
        true
    }

    fn width(cx: &Cx<'_>, port: usize) -> u32 {
        if cx.arm(port).is_some() { 1 } else { WIDTH }
    }

    /// Sends reads; true if the phase is over.
    fn read_batch(&mut self, cx: &mut Cx<'_>) -> bool {
        let port = self.log_port();
        let Some(batch) = &mut self.destage.batch else { return false };
        let mut commands = Vec::new();
        while batch.begun < batch.runs.len() && batch.in_flight < Dcd::width(cx, port) {
            let (first, count) = batch.runs[batch.begun];
            commands.push((batch.begun, first, count));
            batch.begun += 1;
            batch.in_flight += 1;
        }
        let over = batch.begun == batch.runs.len() && batch.in_flight == 0;
        if over {
            batch.phase = Phase::Writing;
            batch.items.sort_unstable_by_key(|item| item.block);
            batch.todo = neighbours(&batch.items);
        }
        for (run, first, count) in commands {
            let at = self.log.device_block(first);
            let io = Io::read(DESTAGE_READ | run as Tag, at, count);
            let io = io.for_purpose(Purpose::Destaging);
            self.send(port, io, cx);
        }
        over
    }

    pub(super) fn destage_read_done(&mut self, run: usize, done: Done) {
        self.destage.answered();
        let Some(mut batch) = self.destage.batch.take() else { return };
        let (first, count) = batch.runs[run];
        let inside = |item: &Item| (first..first + count).contains(&item.addr);
        match done.outcome {
            Ok(data) => {
                for item in batch.items.iter_mut().filter(|item| inside(item)) {
                    item.piece = self.verify(item.addr, data.block(item.addr - first));
                    if item.piece.is_none() {
                        self.log.table.mark(item.addr, BAD);
                        self.destage.bad = Some(IoError::Checksum { block: item.block.into() });
                    }
                }
            }
            // Each block on its own: most of them may be readable.
            Err(_) if count > 1 => {
                let addrs: Vec<Addr> =
                    batch.items.iter().filter(|item| inside(item)).map(|item| item.addr).collect();
                for addr in addrs {
                    self.use_log(addr, 1, true);
                    batch.runs.push((addr, 1));
                }
            }
            Err(error) => {
                self.log.table.mark(first, BAD);
                self.destage.bad = Some(match error {
                    IoError::Media { .. } => {
                        IoError::Media { block: self.log.table.block(first).into() }
                    }
                    other => other,
                });
            }
        }
        self.destage.batch = Some(batch);
    }

    /// Sends writes, neighbours in one command; true if the phase is over.
    fn write_batch(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(mut batch) = self.destage.batch.take() else { return false };
        while batch.in_flight < Dcd::width(cx, 0) {
            let Some((block, zeros, data)) = self.next_run(&mut batch, cx) else { break };
            let homes: Vec<_> = self.homes(block.into(), data.blocks()).collect();
            self.counters.destaged_blocks += u64::from(data.blocks());
            let mut from = 0;
            for (port, home, count) in homes {
                let tag = DESTAGE_WRITE | port as Tag;
                let io = match zeros {
                    true => Io { op: Op::Trim, ..Io::read(tag, home, count) },
                    false => Io::write(tag, home, data.slice(from, count)),
                };
                from += count;
                batch.in_flight += 1;
                self.send(port, io.for_purpose(Purpose::Destaging), cx);
            }
        }
        let mut over = batch.todo.is_empty() && batch.in_flight == 0;
        if over && let Some(stale_marker) = self.marker_of_batch(DESTAGE_WRITE, cx.now) {
            // To the batch it is one more write home.
            batch.in_flight += 1;
            self.send(0, stale_marker, cx);
            over = false;
        }
        if over {
            batch.phase = Phase::Flushing(self.home_writes.done());
            if planted(PlantedBug::ProgressEarly) {
                self.note_progress(&batch, cx.now);
                self.log.progress.fall_due();
            }
        }
        self.destage.batch = Some(batch);
        over
    }

    /// The next neighbours of a batch that are all zeros or all not, from the run that the head
    /// reaches first.
    fn next_run(&self, batch: &mut Batch, cx: &Cx<'_>) -> Option<(u32, bool, Data)> {
        loop {
            let chosen = self.soonest(batch, cx);
            let (mut first, end) = batch.todo.remove(chosen)?;
            // A younger version may be on its way in a record meanwhile.
            let goes = |item: &Item| item.piece.is_some() && self.log.table.is(item.addr, DIRTY);
            while first < end && !goes(&batch.items[first]) {
                first += 1;
            }
            let Some(block) = batch.items[first..end].first().map(|item| item.block) else {
                continue;
            };
            let zeros = |item: &Item| item.piece.as_ref().is_some_and(is_zero);
            let kind = zeros(&batch.items[first]);
            let mut data = Data::none();
            let alike = |item: &&Item| goes(item) && zeros(item) == kind;
            for item in batch.items[first..end].iter().take_while(alike) {
                item.piece.iter().for_each(|piece| data.push(piece.clone()));
            }
            let next = first + data.blocks() as usize;
            if next < end {
                batch.todo.push_front((next, end));
            }
            return Some((block, kind, data));
        }
    }

    /// The run that the head of the origin reaches first, of those next along the origin.
    fn soonest(&self, batch: &Batch, cx: &Cx<'_>) -> usize {
        let Some((arm, head)) = cx.arm(0).zip(cx.head(0)) else { return 0 };
        let start = cx.now.max(head.free_at) + arm.overhead_ns();
        let takes = |&(first, _): &(usize, usize)| {
            let block = BlockNr::from(batch.items[first].block);
            let Some((0, at, _)) = self.homes(block, 1).next() else { return 0 };
            let track = arm.track_of(at);
            let travel = arm.travel_ns(head.track, track);
            let slot = at.saturating_sub(arm.track_blocks(track).0) as u32;
            let position = arm.position(track, slot);
            travel + arm.wait_ns(track, position, arm.angle_ns(start + travel))
        };
        let window = batch.todo.iter().take(WINDOW).enumerate();
        window.min_by_key(|(_, run)| takes(run)).map_or(0, |(index, _)| index)
    }

    pub(super) fn destage_write_done(&mut self, port: usize, done: Done, cx: &mut Cx<'_>) {
        self.destage.answered();
        match done.outcome {
            Err(error) => self.fail_volume(error, cx),
            Ok(_) => self.home_written(port),
        }
    }

    /// The batch is durable at home: its slots are clean.
    fn finish_batch(&mut self, stamps: Stamps, now: Time) -> bool {
        if !within(stamps, self.home_writes.durable()) {
            return false;
        }
        let Some(batch) = self.destage.batch.take() else { return false };
        self.note_progress(&batch, now);
        for item in batch.items.iter().filter(|item| item.piece.is_some()) {
            self.log.release(item.addr);
        }
        for &(first, count) in &batch.runs {
            self.use_log(first, count, false);
        }
        self.log.retire();
        self.destage.pushed = false;
        true
    }
}

impl Dcd {
    /// The blocks of a batch are home, but for those that have a younger version.
    fn note_progress(&mut self, batch: &Batch, now: Time) {
        for &Item { block, addr, .. } in batch.items.iter().filter(|item| item.piece.is_some()) {
            let youngest = self.log.table.get(block) == Some(addr);
            if youngest && self.log.table.is(addr, DIRTY) {
                self.log.progress.came_home(block, now);
            }
        }
    }
}

/// Cuts items that are sorted by block into runs of neighbours.
fn neighbours(items: &[Item]) -> VecDeque<(usize, usize)> {
    let mut runs: VecDeque<(usize, usize)> = VecDeque::new();
    for (index, item) in items.iter().enumerate() {
        match runs.back_mut() {
            Some((_, end)) if items[*end - 1].block + 1 == item.block => *end += 1,
            _ => runs.push_back((index, index + 1)),
        }
    }
    runs
}
