//! The log in memory: segment buffers, the record on its way, the ring of segments.
//!
//! Writes are collected in the open buffer. One record is on its way at a time; the next begins
//! when it has arrived, full or not, so what is in memory only is never older than two log writes
//! (claim D13). A block that is written again while it is in the open buffer takes its slot again:
//! a record counts as a whole, so the order inside it shows nowhere, and the garbage that the
//! paper's buffers carry (its figure 6) is not written.
//!
//! A slot of the log is *dirty* until its content is durable at home, or until a record is on its
//! way that has a younger version. Not until then may its segment be given up: the header of a
//! record says which older records do not count, and it speaks for the records before it
//! and for itself, not for buffers that come later.

use super::Areas;
use super::format::{self, Entry, MAX_ENTRIES};
use super::progress::Progress;
use super::table::{Addr, DIRTY, ESCAPED, Table};
use seekless_engine::data::{Body, Piece, is_zero};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, Time};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most segment buffers, and as many blocks of addresses.
pub const MOST_BUFFERS: u32 = 4;

/// What is appended for a block.
#[derive(Clone, Debug)]
pub struct Slot {
    block: u32,
    /// Nothing for a tombstone.
    piece: Option<Piece>,
    /// Slots with versions before this one, which stay dirty until this one is on its way.
    pub replaces: Addrs,
}

impl Slot {
    /// A slot that cancels older versions of a block and has none itself.
    pub fn tombstone(block: u32) -> Slot {
        Slot { block, piece: None, replaces: Addrs::new() }
    }
}

/// A few addresses, mostly one.
pub type Addrs = SmallVec<[Addr; 2]>;

/// A segment buffer, from the first write until its record is on the device.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub seq: u64,
    pub slots: Vec<Slot>,
    /// Blocks of data.
    pub data: u32,
    /// When it was opened.
    pub since: Time,
    /// Requests that are answered when the record has been written.
    pub waiting: SmallVec<[usize; 2]>,
    /// Ends a life in order.
    pub clean: bool,
}

impl Buffer {
    /// True if there is no reason to write it.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && !self.clean
    }
}

/// A record on its way.
#[derive(Clone, Debug)]
pub struct Writing {
    /// What it was in memory.
    pub buffer: Buffer,
    /// Address of its first block of data.
    pub first: Addr,
    /// First segment that counts once it is durable.
    pub tail: u64,
    /// Content in the order of its addresses, for reads.
    pub pieces: Vec<Piece>,
}

/// A segment in its current use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// First record in it or after it.
    pub first_seq: u64,
    pub dirty: u32,
    /// Reads and destaging that rely on its content.
    pub users: u32,
}

/// The log.
#[derive(Clone, Debug)]
pub struct Log {
    pub areas: Areas,
    pub table: Table,
    /// By place: number modulo their count.
    pub segments: Vec<Segment>,
    /// Number of the segment that is being filled, and its next free block.
    pub head: u64,
    pub offset: u32,
    /// Oldest segment with something dirty.
    pub tail: u64,
    /// Oldest segment that a recovery would still look at: what a durable record says.
    pub recorded: u64,
    /// Oldest record that the youngest one says a recovery needs. It never goes back: a log
    /// that has declared a record not needed must not ask for it later, when it may be unreadable.
    pub needed: u64,
    /// Tails of records that are written but not yet durable.
    tails: VecDeque<(u64, u64)>,
    pub life: u32,
    most_buffers: u32,
    /// The last one is open; all before are full.
    pub buffers: VecDeque<Buffer>,
    /// The record on its way.
    pub writing: Option<Writing>,
    /// Blocks with a younger version at home that is not yet durable there, and their slots.
    pub killed: BTreeMap<u32, (Addrs, u64)>,
    /// Blocks that want a tombstone.
    pub graves: BTreeSet<u32>,
    /// What is home and not recorded yet.
    pub progress: Progress,
    /// All records up to this one are on the device, and up to that one durable.
    pub written: u64,
    pub durable: u64,
    /// Blocks that the last record lists; the next one repeats them.
    pub listed: Option<Vec<u32>>,
    dirty: u64,
}

impl Log {
    /// An empty log whose next record is the first.
    pub fn new(areas: Areas, buffers: u32) -> Log {
        let most_buffers = buffers.clamp(2, MOST_BUFFERS);
        let slots = u64::from(MOST_BUFFERS) * MAX_ENTRIES as u64;
        Log {
            areas,
            table: Table::new((areas.log_blocks() + slots) as usize),
            segments: vec![Segment::default(); areas.segments as usize],
            head: 0,
            offset: 0,
            tail: 0,
            recorded: 0,
            needed: 0,
            tails: VecDeque::new(),
            life: 1,
            most_buffers,
            buffers: VecDeque::new(),
            writing: None,
            killed: BTreeMap::new(),
            graves: BTreeSet::new(),
            progress: Progress::default(),
            written: 0,
            durable: 0,
            listed: None,
            dirty: 0,
        }
    }

    /// Dirty slots.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Segments that could be filled next.
    pub fn free_segments(&self) -> u64 {
        (self.tail + u64::from(self.areas.segments)).saturating_sub(self.head + 1)
    }

    /// Share of the segments that are in use, in sixteenths.
    pub fn sixteenths(&self) -> u64 {
        let all = u64::from(self.areas.segments);
        ((all - self.free_segments().min(all)) * 16 / all).min(16)
    }

    /// The place of a segment.
    pub fn place(&self, number: u64) -> usize {
        (number % u64::from(self.areas.segments)) as usize
    }

    /// The place of the segment in which a slot lies.
    pub fn place_of(&self, addr: Addr) -> usize {
        (addr / self.areas.segment) as usize
    }

    /// True if a slot lies in the log, not in a buffer.
    pub fn is_logged(&self, addr: Addr) -> bool {
        u64::from(addr) < self.areas.log_blocks()
    }

    /// Where a slot lies on the device.
    pub fn device_block(&self, addr: Addr) -> BlockNr {
        debug_assert!(self.is_logged(addr), "slot {addr} is in memory");
        self.areas.log_first + u64::from(addr)
    }

    fn ram(&self, buffer: &Buffer, slot: usize) -> Addr {
        let ring = (buffer.seq % u64::from(MOST_BUFFERS)) as usize * MAX_ENTRIES + slot;
        self.areas.log_blocks() as u32 + ring as u32
    }

    /// The number of the next record that is begun.
    pub fn next_seq(&self) -> u64 {
        let last = self.buffers.back().map(|buffer| buffer.seq);
        let last = last.or(self.writing.as_ref().map(|writing| writing.buffer.seq));
        last.unwrap_or(self.written) + 1
    }

    /// The youngest record that holds anything: what a flush must make durable.
    pub fn last_seq(&self) -> u64 {
        let filled = self.buffers.iter().rev().find(|buffer| !buffer.is_empty());
        let filled = filled.or(self.writing.as_ref().map(|writing| &writing.buffer));
        filled.map_or(self.written, |buffer| buffer.seq)
    }

    fn fits(&self, buffer: &Buffer, data: u32) -> bool {
        buffer.data + data <= self.areas.most_data()
            && buffer.slots.len() + data as usize <= MAX_ENTRIES
            && !buffer.clean
    }

    fn may_open(&self) -> bool {
        let used = self.buffers.len() + usize::from(self.writing.is_some());
        used < self.most_buffers as usize
    }

    /// True if `data` blocks can be appended.
    pub fn has_room(&self, data: u32) -> bool {
        self.buffers.back().is_some_and(|buffer| self.fits(buffer, data)) || self.may_open()
    }

    /// The open buffer, with room for `data` blocks; [`Log::has_room`] said that there is one.
    pub fn open(&mut self, data: u32, now: Time) -> usize {
        debug_assert!(self.has_room(data), "a buffer is opened though there is no room");
        if !self.buffers.back().is_some_and(|buffer| self.fits(buffer, data)) {
            let seq = self.next_seq();
            let (slots, waiting) = (Vec::new(), SmallVec::new());
            let buffer = Buffer { seq, slots, data: 0, since: now, waiting, clean: false };
            self.buffers.push_back(buffer);
        }
        self.buffers.len() - 1
    }

    /// Appends the content of a block to the open buffer, or puts it where that has it already.
    pub fn put(&mut self, index: usize, block: u32, piece: Piece) {
        debug_assert!(index + 1 == self.buffers.len(), "only the open buffer grows");
        let piece = if is_zero(&piece) { Piece::block(Body::Zeros) } else { piece };
        let sum = self.areas.sums.of(&piece);
        let flags = if format::looks_like_header(&piece) { ESCAPED } else { 0 };
        let old = self.table.get(block);
        let base = self.ram(&self.buffers[index], 0);
        let again = old.and_then(|old| old.checked_sub(base)).map(|slot| slot as usize);
        if let Some(slot) = again.filter(|&slot| slot < self.buffers[index].slots.len()) {
            self.buffers[index].slots[slot].piece = Some(piece);
            self.table.fill(base + slot as u32, block, sum, flags);
            return;
        }
        self.graves.remove(&block);
        self.progress.forget(block);
        // What was killed stays so until its home is durable: it must not go there meanwhile.
        let replaces = old.into_iter().collect();
        let addr = base + self.buffers[index].slots.len() as u32;
        self.table.fill(addr, block, sum, flags);
        self.table.set(block, addr);
        let buffer = &mut self.buffers[index];
        buffer.slots.push(Slot { block, piece: Some(piece), replaces });
        buffer.data += 1;
    }

    /// Asks for a last record of this life; its number.
    pub fn end(&mut self, now: Time) -> u64 {
        let index = self.open(0, now);
        self.buffers[index].clean = true;
        self.buffers[index].seq
    }

    /// A slot is not needed.
    pub fn release(&mut self, addr: Addr) {
        if self.is_logged(addr) && self.table.clear(addr, DIRTY) {
            debug_assert!(self.segments[self.place_of(addr)].dirty > 0, "slot {addr} is clean");
            self.dirty -= 1;
            let place = self.place_of(addr);
            self.segments[place].dirty -= 1;
        }
    }

    /// A slot in memory.
    pub(super) fn slot_mut(&mut self, addr: Addr) -> Option<&mut Slot> {
        let ring = (addr - self.areas.log_blocks() as u32) as usize;
        let (ring, slot) = ((ring / MAX_ENTRIES) as u64, ring % MAX_ENTRIES);
        let at_home = |buffer: &&mut Buffer| buffer.seq % u64::from(MOST_BUFFERS) == ring;
        self.buffers.iter_mut().find(at_home)?.slots.get_mut(slot)
    }

    /// Makes a slot dirty, when it is filled.
    pub fn dirty_slot(&mut self, addr: Addr, block: u32, sum: u32, flags: u8) {
        debug_assert!(self.is_logged(addr), "slot {addr} is in memory");
        self.table.fill(addr, block, sum, flags | DIRTY);
        self.dirty += 1;
        let place = self.place_of(addr);
        self.segments[place].dirty += 1;
    }

    /// Gives up the segments at the tail that have nothing dirty.
    pub fn retire(&mut self) {
        while self.tail < self.head && self.segments[self.place(self.tail)].dirty == 0 {
            self.tail += 1;
        }
    }

    /// True if a segment may be begun: a durable record says that what is in its place does not
    /// count, no read uses it, and another one is left unless the record makes room by itself.
    pub fn may_begin(&self, number: u64) -> bool {
        let all = u64::from(self.areas.segments);
        let recorded =
            if planted(PlantedBug::FreeBeforeCommit) { self.tail } else { self.recorded };
        number < recorded + all
            && self.segments[self.place(number)].users == 0
            && (number + 1 < recorded + all || self.tail > recorded)
    }

    /// True if segments are given up but no durable record says so, and one on the device does.
    pub fn wants_flush(&self) -> bool {
        self.blocked() && self.tails.back().is_some_and(|&(_, tail)| tail > self.recorded)
    }

    /// True if a record could be written, if there is a place for it.
    pub fn is_ready(&self) -> bool {
        self.writing.is_none() && self.buffers.front().is_some_and(|buffer| !buffer.is_empty())
    }

    /// True if a record waits for a segment.
    pub fn blocked(&self) -> bool {
        let Some(buffer) = self.buffers.front().filter(|buffer| !buffer.is_empty()) else {
            return false;
        };
        self.writing.is_none()
            && self.offset + 1 + buffer.data > self.areas.segment
            && !self.may_begin(self.head + 1)
    }

    /// The content of a slot that is in memory.
    pub fn in_memory(&self, addr: Addr) -> Option<Piece> {
        if self.is_logged(addr) {
            let writing = self.writing.as_ref()?;
            let index = addr.checked_sub(writing.first)?;
            return writing.pieces.get(index as usize).cloned();
        }
        let ring = (addr - self.areas.log_blocks() as u32) as usize;
        let (ring, slot) = (ring / MAX_ENTRIES, ring % MAX_ENTRIES);
        let at_home = |buffer: &&Buffer| buffer.seq % u64::from(MOST_BUFFERS) == ring as u64;
        self.buffers.iter().find(at_home)?.slots.get(slot)?.piece.clone()
    }

    /// The place of the segment that a record is on its way to.
    pub fn writing_place(&self) -> Option<usize> {
        let header = self.writing.as_ref()?.first - 1;
        Some(self.place_of(header))
    }

    /// A record that is written says from which segment on things count.
    pub fn note_tail(&mut self, seq: u64, tail: u64) {
        debug_assert!(self.tails.back().is_none_or(|&(last, _)| last < seq), "records in order");
        self.tails.push_back((seq, tail));
    }

    /// Nothing more will be written: hands back who waits for a record.
    pub fn give_up(&mut self) -> Vec<usize> {
        let writing = self.writing.iter_mut().map(|writing| &mut writing.buffer);
        let buffers = writing.chain(&mut self.buffers);
        buffers.flat_map(|buffer| std::mem::take(&mut buffer.waiting)).collect()
    }

    /// All records up to `seq` are durable.
    pub fn made_durable(&mut self, seq: u64) {
        debug_assert!(seq <= self.written, "record {seq} is durable before it was written");
        self.durable = self.durable.max(seq);
        while let Some((_, tail)) = self.tails.pop_front_if(|&mut (one, _)| one <= seq) {
            for number in self.recorded..tail {
                self.unlist(number);
            }
            self.recorded = self.recorded.max(tail);
        }
    }

    /// A recovery does not look at this segment, so the table need not.
    fn unlist(&mut self, number: u64) {
        let first = self.place(number) as u32 * self.areas.segment;
        for addr in first..first + self.areas.segment {
            let block = self.table.block(addr);
            if self.table.get(block) == Some(addr) {
                self.table.remove(block);
                self.progress.forget(block);
            }
        }
    }

    /// Goes to a segment; those passed over stay empty.
    pub fn advance_to(&mut self, number: u64, seq: u64) {
        debug_assert!(number >= self.head, "the log goes back");
        for number in self.head + 1..=number {
            // Only a defect leaves something to be unlisted here.
            if let Some(before) = number.checked_sub(u64::from(self.areas.segments)) {
                self.unlist(before);
            }
            let place = self.place(number);
            self.segments[place] = Segment { first_seq: seq, ..Segment::default() };
        }
        if number > self.head {
            (self.head, self.offset) = (number, 0);
        }
    }

    /// Gives the slots of a buffer their addresses in the log, from `first` on.
    pub fn settle_slots(&mut self, buffer: &mut Buffer, first: Addr) -> (Vec<Piece>, Vec<Entry>) {
        self.forget_overwritten(buffer, first);
        let (mut pieces, mut entries) = (Vec::new(), Vec::new());
        for index in 0..buffer.slots.len() {
            let Slot { block, ref piece, .. } = buffer.slots[index];
            let Some(piece) = piece.clone() else {
                entries.push(Entry::Gone { block });
                continue;
            };
            let ram = self.ram(buffer, index);
            let addr = first + pieces.len() as u32;
            let (sum, escaped) = (self.table.sum(ram), self.table.is(ram, ESCAPED));
            self.dirty_slot(addr, block, sum, if escaped { ESCAPED } else { 0 });
            pieces.push(piece);
            entries.push(Entry::Data { block, sum, escaped });
            self.point(buffer, block, ram, addr);
        }
        for addr in buffer.slots.iter().flat_map(|slot| &slot.replaces) {
            self.release(*addr);
        }
        (pieces, entries)
    }

    /// Replaces the address of a slot in memory by its address in the log: in the table, or in the
    /// list of what was killed or replaced.
    fn point(&mut self, buffer: &mut Buffer, block: u32, ram: Addr, addr: Addr) {
        if self.table.get(block) == Some(ram) {
            return self.table.set(block, addr);
        }
        let killed = self.killed.get_mut(&block).into_iter().flat_map(|(addrs, _)| addrs);
        let slots = buffer.slots.iter_mut();
        let later = self.buffers.iter_mut().flat_map(|buffer| &mut buffer.slots);
        let replaced = slots.chain(later).flat_map(|slot| &mut slot.replaces);
        match killed.chain(replaced).find(|known| **known == ram) {
            Some(known) => *known = addr,
            // A younger version is durable at home.
            None => self.release(addr),
        }
    }

    /// What is about to be overwritten is not dirty, and must not be released again.
    fn forget_overwritten(&mut self, buffer: &mut Buffer, first: Addr) {
        let range = first..first + buffer.data;
        let later = self.buffers.iter_mut().flat_map(|buffer| &mut buffer.slots);
        for slot in buffer.slots.iter_mut().chain(later) {
            slot.replaces.retain(|addr| !range.contains(addr));
        }
    }

    /// Checks what holds between two events.
    pub fn check(&self) {
        let Log { head, tail, recorded, written, durable, .. } = *self;
        assert!(durable <= written, "record {durable} is durable, {written} is written");
        assert!(recorded <= tail && tail <= head, "segments {recorded}, {tail} and {head}");
        assert!(self.offset <= self.areas.segment, "block {} of a segment", self.offset);
        assert!(self.writing.as_ref().is_none_or(|one| one.buffer.seq > written));
    }

    /// The tail that a record on its way may state: segment and record.
    pub fn tail_now(&mut self, seq: u64, own_dirty: u64) -> (u64, u64) {
        self.retire();
        let (tail, first) = if self.dirty == own_dirty {
            (self.head, seq)
        } else {
            (self.tail, self.segments[self.place(self.tail)].first_seq)
        };
        self.needed = self.needed.max(first);
        (tail, self.needed)
    }
}
