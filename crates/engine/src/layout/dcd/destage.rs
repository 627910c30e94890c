//! Destaging: writing home what is in the log, while nobody waits or when the log is filling up.
//!
//! After a pause whose length shrinks as the log fills (claim D11) a batch of dirty blocks is read
//! from the log, sorted, neighbours joined, and written home; then the homes are flushed, and the
//! slots are clean. A request that arrives waits for the command in progress at most: the batch
//! rests until there is another pause. When free segments run out it goes on nevertheless, from
//! the oldest segment on, since only that makes room.
//!
//! Only durable records are destaged. What is home and not durable in the log would survive a
//! crash that takes older writes, and a home write torn by the crash would have no whole copy.

use super::settle::{Stamps, Stop, within};
use super::table::{Addr, BAD, DIRTY};
use super::{DESTAGE_READ, DESTAGE_WRITE, Dcd, Order};
use crate::checksum;
use crate::data::{Data, Piece};
use crate::io::{Done, Io, IoError, Op, Tag};
use crate::layer::Cx;
use crate::planted::{PlantedBug, planted};
use crate::units::{BlockNr, MICROS, Time};

/// Most blocks of a batch: 1 MiB.
const BATCH_BLOCKS: usize = 256;
/// Most blocks read needlessly between two that are wanted: cheaper than another command.
const GAP: u32 = 8;
/// Commands in flight on a device that has no head to be kept in order.
const WIDTH: u32 = 8;

/// Pause before destaging by sixteenths of the log in use, in microseconds: 10^(−3f) seconds.
const PAUSE_US: [u64; 17] = [
    1_000_000, 649_382, 421_697, 273_842, 177_828, 115_478, 74_989, 48_697, 31_623, 20_535, 13_335,
    8_660, 5_623, 3_652, 2_371, 1_540, 1_000,
];

/// A block on its way home.
#[derive(Clone, Debug)]
struct Item {
    block: u32,
    addr: Addr,
    piece: Option<Piece>,
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
    /// Runs or items that have been begun.
    begun: usize,
    in_flight: u32,
}

/// The state of destaging.
#[derive(Clone, Debug, Default)]
pub struct Destage {
    batch: Option<Batch>,
    /// What a sweep by location has not come to, from its end.
    sweep: Vec<(u32, Addr)>,
    /// A request waits for the batch.
    pushed: bool,
    /// Why a slot of the log cannot go home, if there is such a one.
    bad: Option<IoError>,
    /// There is nothing durable to destage yet.
    starved: bool,
    due: Option<Time>,
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

    /// The writes home that the batch wants durable.
    pub fn waits_for(&self) -> Option<Stamps> {
        match self.batch.as_ref()?.phase {
            Phase::Flushing(stamps) => Some(stamps),
            _ => None,
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
        let least = (u64::from(self.areas.segments) / 8).max(2);
        self.log.free_segments() < least || self.log.blocked()
    }

    fn pause(&self) -> Time {
        PAUSE_US[self.log.sixteenths() as usize] * MICROS
    }

    /// When a pause will have lasted long enough, if there is something to do in it.
    pub(super) fn destage_deadline(&self) -> Option<Time> {
        self.destage.due
    }

    /// Goes on with destaging if it may; true if a batch was finished.
    pub(super) fn advance_destage(&mut self, cx: &mut Cx<'_>) -> bool {
        self.destage.due = None;
        self.destage.starved = false;
        if self.latched.is_some() || self.read_only {
            return false;
        }
        let end = self.idle_since.map(|since| since + self.pause());
        let pressed = self.is_pressed() || self.destage.pushed || self.settling.wants_home();
        let idle = end.is_some_and(|end| end <= cx.now) && self.stop == Stop::No;
        let work = self.destage.batch.is_some() || self.log.dirty() > 0;
        if !idle && work && self.stop == Stop::No {
            self.destage.due = end.filter(|&end| end > cx.now);
        }
        if !(idle || pressed) || !work {
            return false;
        }
        if self.destage.batch.is_none() && !self.begin_batch(pressed) {
            let stuck = self.log.blocked() && !self.destage.starved && self.log.killed.is_empty();
            if let Some(error) = self.destage.bad.filter(|_| stuck && self.directs.is_empty()) {
                // The ring cannot pass what cannot go home.
                self.latch(error, cx);
            }
            return false;
        }
        loop {
            let moved = match self.destage.batch.as_ref().map(|batch| batch.phase) {
                Some(Phase::Reading) => self.read_batch(cx),
                Some(Phase::Writing) => self.write_batch(cx),
                Some(Phase::Flushing(stamps)) => return self.finish_batch(stamps),
                None => false,
            };
            if !moved {
                return false;
            }
        }
    }

    /// True if all records of a segment are durable.
    fn is_durable(&self, number: u64) -> bool {
        if planted(PlantedBug::DestageBeforeDurable) {
            return true;
        }
        let last = match number == self.log.head {
            true => self.log.next_seq() - 1,
            false => self.log.segments[self.log.place(number + 1)].first_seq - 1,
        };
        // Records in buffers have no segment yet.
        last.min(self.log.written) <= self.log.durable && !self.is_being_written(number)
    }

    fn is_being_written(&self, number: u64) -> bool {
        self.log.writing_place() == Some(self.log.place(number))
    }

    /// Chooses what goes home next; false if there is nothing that may.
    fn begin_batch(&mut self, pressed: bool) -> bool {
        let mut items = match (pressed, self.caching.order) {
            (true, _) => self.oldest(),
            (_, Order::LastFirst) => self.by_segment((self.log.tail..=self.log.head).rev()),
            (_, Order::LeastValid) => self.least_valid(),
            (_, Order::Location) => self.by_location(),
        };
        if items.is_empty() {
            self.destage.starved = self.log.durable < self.log.written;
            return false;
        }
        items.sort_unstable_by_key(|item| item.addr);
        let mut runs: Vec<(Addr, u32)> = Vec::new();
        for item in &items {
            match runs.last_mut() {
                Some((first, count)) if item.addr <= *first + *count + GAP => {
                    *count = item.addr - *first + 1;
                }
                _ => runs.push((item.addr, 1)),
            }
        }
        for &(first, count) in &runs {
            self.use_log(first, count, true);
        }
        let batch = Batch { phase: Phase::Reading, items, runs, begun: 0, in_flight: 0 };
        self.destage.batch = Some(batch);
        true
    }

    fn oldest(&self) -> Vec<Item> {
        self.by_segment(self.log.tail..=self.log.head)
    }

    fn least_valid(&self) -> Vec<Item> {
        let mut numbers: Vec<u64> = (self.log.tail..=self.log.head).collect();
        numbers.sort_by_key(|&number| self.log.segments[self.log.place(number)].dirty);
        self.by_segment(numbers.into_iter())
    }

    /// Dirty blocks of durable segments in the order of the numbers, as many as make a batch.
    fn by_segment(&self, numbers: impl Iterator<Item = u64>) -> Vec<Item> {
        let mut items = Vec::new();
        for number in numbers {
            let dirty = self.log.segments[self.log.place(number)].dirty;
            if dirty == 0 || !self.is_durable(number) {
                continue;
            }
            let first = self.log.place(number) as u32 * self.areas.segment;
            let addrs = first..first + self.areas.segment;
            items.extend(addrs.filter_map(|addr| self.item(addr)));
            if items.len() >= BATCH_BLOCKS {
                break;
            }
        }
        items
    }

    /// The next blocks along the origin, from wherever they are in the log.
    fn by_location(&mut self) -> Vec<Item> {
        for fresh in [false, true] {
            if fresh {
                let mut all = Vec::new();
                for number in self.log.tail..=self.log.head {
                    if self.is_durable(number) {
                        let first = self.log.place(number) as u32 * self.areas.segment;
                        let addrs = first..first + self.areas.segment;
                        all.extend(addrs.filter_map(|addr| self.item(addr)));
                    }
                }
                let mut sweep: Vec<(u32, Addr)> =
                    all.into_iter().map(|item| (item.block, item.addr)).collect();
                sweep.sort_unstable_by(|a, b| b.cmp(a));
                self.destage.sweep = sweep;
            }
            let mut items = Vec::new();
            while items.len() < BATCH_BLOCKS
                && let Some((block, addr)) = self.destage.sweep.pop()
            {
                items.extend(self.item(addr).filter(|item| item.block == block));
            }
            // A slot that was filled anew since may belong to a record that is not durable.
            items.retain(|item| {
                self.number_at(item.addr).is_some_and(|number| self.is_durable(number))
            });
            if !items.is_empty() {
                return items;
            }
        }
        Vec::new()
    }

    /// The segment in use at the place of a slot.
    fn number_at(&self, addr: Addr) -> Option<u64> {
        let all = u64::from(self.areas.segments);
        let place = self.log.place_of(addr) as u64;
        let number = self.log.tail + (place + all - self.log.tail % all) % all;
        (number <= self.log.head).then_some(number)
    }

    /// A slot that has to go home and may.
    fn item(&self, addr: Addr) -> Option<Item> {
        let block = self.log.table.block(addr);
        let killed = self.log.killed.get(&block).is_some_and(|(addrs, _)| addrs.contains(&addr));
        let table = &self.log.table;
        let may = table.is(addr, DIRTY) && !table.is(addr, BAD) && !killed;
        let free = may && !self.directs.overlap(block.into(), 1);
        free.then_some(Item { block, addr, piece: None })
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
            (batch.phase, batch.begun) = (Phase::Writing, 0);
            batch.items.sort_unstable_by_key(|item| item.block);
        }
        for (run, first, count) in commands {
            let at = self.log.device_block(first);
            let io = Io::read(DESTAGE_READ | run as Tag, at, count).in_background();
            self.send(port, io, cx);
        }
        over
    }

    pub(super) fn destage_read_done(&mut self, run: usize, done: Done) {
        let Some(mut batch) = self.destage.batch.take() else { return };
        batch.in_flight -= 1;
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
        while batch.begun < batch.items.len() && batch.in_flight < Dcd::width(cx, 0) {
            // A younger version may be on its way in a record meanwhile.
            let item = &batch.items[batch.begun];
            if !self.log.table.is(item.addr, DIRTY) || item.piece.is_none() {
                batch.begun += 1;
                continue;
            }
            let (block, zeros, data) = self.next_run(&mut batch);
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
                self.send(port, io.in_background(), cx);
            }
        }
        let over = batch.begun == batch.items.len() && batch.in_flight == 0;
        if over {
            batch.phase = Phase::Flushing(self.settling.done());
        }
        self.destage.batch = Some(batch);
        over
    }

    /// The next neighbours of a batch that are all zeros or all not.
    fn next_run(&self, batch: &mut Batch) -> (u32, bool, Data) {
        let first = batch.items[batch.begun].block;
        let zeros = |item: &Item| item.piece.as_ref().is_some_and(checksum::is_zero);
        let kind = zeros(&batch.items[batch.begun]);
        let mut data = Data::none();
        while let Some(item) = batch.items.get(batch.begun) {
            let next = u64::from(item.block) == u64::from(first) + u64::from(data.blocks());
            let dirty = self.log.table.is(item.addr, DIRTY);
            let Some(piece) = item.piece.clone() else { break };
            if !next || !dirty || zeros(item) != kind {
                break;
            }
            data.push(piece);
            batch.begun += 1;
        }
        (first, kind, data)
    }

    pub(super) fn destage_write_done(&mut self, port: usize, done: Done, cx: &mut Cx<'_>) {
        if let Some(batch) = &mut self.destage.batch {
            batch.in_flight -= 1;
        }
        match done.outcome {
            Err(error) => self.latch(error, cx),
            Ok(_) => self.home_written(port),
        }
    }

    /// The batch is durable at home: its slots are clean.
    fn finish_batch(&mut self, stamps: Stamps) -> bool {
        if !within(stamps, self.settling.durable()) {
            return false;
        }
        let Some(batch) = self.destage.batch.take() else { return false };
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
