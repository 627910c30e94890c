//! Writing to a stripe: read what the parity needs, protect, write in place.
//!
//! A whole stripe needs no reads. For a part of one there are two ways to the new parity: from the
//! old parity and the old content of what is written (*modify*), or from the content of what is not
//! written (*complete*); whichever needs fewer requests is taken. With a member missing or
//! unreadable, everything else is read and its content computed first.

use super::stripe_data::{StripeData, overlay};
use super::{Array, Call, Run, StripeOp, Work};
use crate::Level;
use crate::array::request::Part;
use seekless_engine::data::Data;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Breakdown, Io, IoError, Purpose};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::Time;

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Reading,
    Protecting,
    Writing,
}

/// Where the new parity comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Everything in the rows is new.
    Whole,
    /// Old parity, old content of what is written.
    Modify,
    /// Content of what is not written.
    Complete,
    /// All other members: one cannot be read.
    Compute,
    /// There is no parity to keep.
    Bare,
}

/// Old content: rows of one of the stripe's chunks; the parity counts as the last.
#[derive(Clone, Debug)]
struct Old {
    role: usize,
    row: u32,
    count: u32,
    data: Option<Data>,
}

/// Something to write in place.
#[derive(Clone, Debug)]
struct Put {
    role: usize,
    row: u32,
    data: Data,
}

/// A write to one stripe, for one or several requests.
#[derive(Clone, Debug)]
pub(super) struct Write {
    requests: Vec<usize>,
    /// What the first of them is for.
    purpose: Purpose,
    new: StripeData,
    /// First row and the one behind the last.
    rows: (u32, u32),
    trim: bool,
    way: Way,
    step: Step,
    old: Vec<Old>,
    puts: Vec<Put>,
    /// A chunk that could not be read; it is written anew as far as it is computed.
    unreadable: Option<usize>,
    /// An answer came that makes the reads worthless.
    again: bool,
    /// Batch of the log that protects it.
    record: Option<(usize, u64)>,
    /// It has been counted in the bitmap.
    marked: bool,
    error: Option<IoError>,
}

impl Array {
    /// Roles of a stripe that are missing or cannot be read: data chunks by index, then parity.
    fn missing_roles(&self, stripe: u64, write: &Write) -> Vec<usize> {
        let gone = |&role: &usize| {
            write.unreadable == Some(role) || !self.present(self.member_of(stripe, role), stripe)
        };
        (0..self.geometry.members).filter(gone).collect()
    }

    /// The member that plays a role in a stripe. In a mirror roles are members.
    fn member_of(&self, stripe: u64, role: usize) -> usize {
        match self.geometry.parity(stripe) {
            Some(parity) if role == self.geometry.data_chunks() => parity,
            _ => self.geometry.member(stripe, role),
        }
    }

    pub(super) fn start_write(&mut self, stripe: u64, parts: Vec<Part>, _now: Time) {
        let mut new = StripeData::default();
        let mut requests = Vec::with_capacity(parts.len());
        let trim = parts.iter().all(|part| part.trim);
        let chunk = self.geometry.chunk;
        for Part { request, at, data, .. } in parts {
            requests.push(request);
            let mut from = 0;
            while from < data.blocks() {
                let here = (chunk - (at + from) % chunk).min(data.blocks() - from);
                new.insert(at + from, data.slice(from, here));
                from += here;
            }
        }
        debug_assert!(self.is_held(stripe), "a write begins in a stripe of its own");
        debug_assert!((1..=super::MOST_PARTS).contains(&requests.len()), "a record has a bound");
        let rows = new.rows(chunk);
        debug_assert!(rows.0 < rows.1 && rows.1 <= chunk, "rows {rows:?} of a chunk of {chunk}");
        let purpose = requests.first().map(|&one| self.requests[one].purpose).unwrap_or_default();
        let work = Work::Write(Box::new(Write {
            requests,
            purpose,
            new,
            rows,
            trim,
            way: Way::Bare,
            step: Step::Reading,
            old: Vec::new(),
            puts: Vec::new(),
            unreadable: None,
            again: false,
            record: None,
            marked: false,
            error: None,
        }));
        let op = StripeOp { stripe, waiting: 0, spent: Breakdown::default(), work };
        let op = self.ops.insert(op);
        self.plan_write(op);
    }

    fn write_of(&mut self, op: usize) -> &mut Write {
        match &mut self.ops[op].work {
            Work::Write(write) => write,
            Work::Reconstruct(_) | Work::Heal(_) => unreachable!("operation {op} is a write"),
        }
    }

    /// Chooses the way and reads what it needs.
    fn plan_write(&mut self, op: usize) {
        let stripe = self.ops[op].stripe;
        let data_chunks = self.geometry.data_chunks();
        let Work::Write(write) = &self.ops[op].work else { return };
        debug_assert_eq!(write.step, Step::Reading, "a write that has begun is planned again");
        debug_assert_eq!(self.ops[op].waiting, 0, "reads of an earlier plan are under way");
        let (way, old) = if self.geometry.level == Level::Raid1 {
            (Way::Bare, Vec::new())
        } else {
            let missing = self.missing_roles(stripe, write);
            let (first, end) = write.rows;
            match missing.as_slice() {
                // Two at once are more than parity can stand in for.
                [_, _, ..] => {
                    let block = self.geometry.block(stripe, first);
                    self.write_of(op).error = Some(IoError::Media { block });
                    return self.finish_write(op, None);
                }
                [parity] if *parity == data_chunks && write.unreadable.is_none() => {
                    (Way::Bare, Vec::new())
                }
                _ if write.new.blocks() == data_chunks as u32 * (end - first) => {
                    (Way::Whole, Vec::new())
                }
                [role] => (Way::Compute, self.all_rows_but(*role, write)),
                [] => self.cheaper_way(write),
            }
        };
        let write = self.write_of(op);
        (write.way, write.old, write.again) = (way, old.clone(), false);
        if old.is_empty() {
            return self.protect(op);
        }
        self.ops[op].waiting = old.len() as u32;
        self.counters.prereads += old.len() as u64;
        for (slot, Old { role, row, count, .. }) in old.into_iter().enumerate() {
            let member = self.member_of(stripe, role);
            let io = Io::read(0, self.geometry.block(stripe, row), count);
            let io = io.for_purpose(Purpose::Parity);
            self.member_queue.push(member, io, Call::Op { op, slot });
        }
    }

    /// With all members there.
    fn cheaper_way(&self, write: &Write) -> (Way, Vec<Old>) {
        let (first, end) = write.rows;
        let (chunk, data_chunks) = (self.geometry.chunk, self.geometry.data_chunks());
        let (mut modify, mut complete) = (Vec::new(), Vec::new());
        for role in 0..data_chunks {
            let runs = write.new.chunk(role, chunk);
            if let (Some((from, _)), Some((last, data))) = (runs.first(), runs.last()) {
                let count = last + data.blocks() - from;
                modify.push(Old { role, row: *from, count, data: None });
            }
            if let Some((row, until)) = uncovered(first, end, &runs) {
                complete.push(Old { role, row, count: until - row, data: None });
            }
        }
        modify.push(Old { role: data_chunks, row: first, count: end - first, data: None });
        // Requests count first: a seek costs more than any number of blocks in one chunk.
        let cost = |old: &[Old]| (old.len(), old.iter().map(|one| one.count).sum::<u32>());
        if cost(&modify) <= cost(&complete) {
            (Way::Modify, modify)
        } else {
            (Way::Complete, complete)
        }
    }

    fn all_rows_but(&self, missing: usize, write: &Write) -> Vec<Old> {
        let (row, end) = write.rows;
        let others = (0..self.geometry.members).filter(|&role| role != missing);
        others.map(|role| Old { role, row, count: end - row, data: None }).collect()
    }

    pub(super) fn write_answered(
        &mut self,
        op: usize,
        slot: usize,
        member: usize,
        outcome: Result<Data, IoError>,
        now: Time,
    ) {
        let waiting = self.ops[op].waiting;
        let write = self.write_of(op);
        match (write.step, outcome) {
            (Step::Reading, Ok(data)) => {
                debug_assert_eq!(data.blocks(), write.old[slot].count, "as many as were asked for");
                write.old[slot].data = Some(data);
            }
            (Step::Reading, Err(error)) => {
                let role = write.old[slot].role;
                // The power is off, or one chunk is unreadable already.
                if error == IoError::PowerOff || write.unreadable.is_some_and(|one| one != role) {
                    write.error = Some(error);
                }
                write.unreadable = Some(role);
                write.again = true;
            }
            (Step::Writing, Ok(_)) => {}
            (Step::Writing, Err(error)) => {
                self.member_failed(member, error);
                if let Some(error) = self.table.failed() {
                    self.write_of(op).error = Some(error);
                    // Some members have it, and what is missing is computed from all of them.
                    let runs = self.runs_in_place(op).into_iter().map(|(_, run)| run).collect();
                    self.lay(runs);
                }
            }
            (Step::Protecting, _) => unreachable!("nothing of its own is under way"),
        }
        if waiting > 0 {
            return;
        }
        let write = self.write_of(op);
        match write.step {
            Step::Writing => self.finish_write(op, Some(now)),
            _ if write.error.is_some() => self.finish_write(op, None),
            _ if write.again => self.plan_write(op),
            _ => self.protect(op),
        }
    }

    /// Everything is known: computes what to write, and makes sure that a crash in the middle of it
    /// can be told.
    fn protect(&mut self, op: usize) {
        let settled = self.is_settled() || planted(PlantedBug::WrittenUnsettled);
        if self.geometry.level == Level::Raid5 && !settled {
            return self.unsettled.push(op);
        }
        let stripe = self.ops[op].stripe;
        let chunk = self.geometry.chunk;
        let data_chunks = self.geometry.data_chunks();
        let Work::Write(write) = &self.ops[op].work else { return };
        let puts = match self.geometry.level {
            Level::Raid1 => {
                let runs = write.new.chunk(0, chunk);
                let copies = (0..self.geometry.members).flat_map(|role| {
                    runs.iter().map(move |(row, data)| Put { role, row: *row, data: data.clone() })
                });
                copies.collect()
            }
            _ => write.puts_with_parity(chunk, data_chunks),
        };
        let parity = self.geometry.parity(stripe).filter(|&one| self.present(one, stripe));
        let whole = write.way == Way::Whole;
        // What a missing member holds is in the parity alone: a mark says too little about it.
        let short = (0..self.geometry.members).any(|one| !self.present_after_crash(one, stripe));
        let write = self.write_of(op);
        debug_assert_eq!(write.step, Step::Reading, "a write is protected once");
        debug_assert!(write.error.is_none(), "a write that has failed goes no further");
        write.puts = puts;
        write.step = Step::Protecting;
        if whole {
            self.counters.full_stripes += 1;
        } else {
            self.counters.partial_stripes += 1;
        }
        if planted(PlantedBug::NoWriteLog) {
            return self.write_in_place(op);
        }
        match (self.geometry.level, parity) {
            (Level::Raid5, None) => self.write_in_place(op),
            (Level::Raid5, Some(parity))
                if !whole
                    || Edge::LogWholeShort.blocks(short)
                    || Edge::LogCoversStripe.blocks(self.logs[parity].covers(stripe)) =>
            {
                let runs = self.runs_in_place(op).into_iter().map(|(_, run)| run).collect();
                // The batch of the log is the answer that it waits for.
                self.ops[op].waiting = 1;
                self.logs[parity].push(op, stripe, runs);
            }
            _ => {
                self.write_of(op).marked = true;
                if Edge::MarkBeforeWrite.allows(self.bitmap.begin(stripe)) {
                    self.write_in_place(op);
                } else {
                    self.unmarked.push(op);
                }
            }
        }
    }

    /// Lets operations go on that waited until all members know which of them is out. What is
    /// written or logged without it would be wrong if a crash made it a member again.
    pub(super) fn resume_settled(&mut self) {
        if !self.is_settled() {
            return;
        }
        for op in std::mem::take(&mut self.unsettled) {
            if self.table.failed().is_some() {
                self.write_in_place(op);
            } else {
                self.write_of(op).step = Step::Reading;
                self.plan_write(op);
            }
        }
    }

    /// What is to be written to members that are there; true in front of parity.
    fn runs_in_place(&self, op: usize) -> Vec<(bool, Run)> {
        let StripeOp { stripe, work: Work::Write(write), .. } = &self.ops[op] else {
            return Vec::new();
        };
        let last = self.geometry.data_chunks();
        let run = |put: &Put| {
            let member = self.member_of(*stripe, put.role);
            let at = self.geometry.block(*stripe, put.row);
            let parity = self.geometry.level == Level::Raid5 && put.role == last;
            (parity, Run { member, at, data: put.data.clone() })
        };
        let runs = write.puts.iter().map(run);
        runs.filter(|(_, run)| self.present(run.member, *stripe)).collect()
    }

    /// The log has the record.
    pub(super) fn logged(&mut self, op: usize, member: usize, seq: u64) {
        debug_assert_eq!(self.ops[op].waiting, 0, "it waits for its record alone");
        debug_assert_eq!(self.write_of(op).step, Step::Protecting, "a record of another step");
        self.write_of(op).record = Some((member, seq));
        self.write_in_place(op);
    }

    pub(super) fn write_in_place(&mut self, op: usize) {
        let runs = self.runs_in_place(op);
        let write = self.write_of(op);
        // From `Reading` only in a failed array: it waited for superblocks that are not written.
        debug_assert_ne!(write.step, Step::Writing, "a write goes to its place once");
        write.step = Step::Writing;
        let (trim, purpose) = (write.trim, write.purpose);
        if runs.is_empty() || self.table.failed().is_some() {
            let error = self.table.failed().unwrap_or(IoError::ReadOnly);
            self.write_of(op).error = Some(error);
            return self.finish_write(op, Some(0));
        }
        self.ops[op].waiting = runs.len() as u32;
        for (parity, Run { member, at, data }) in runs {
            let blocks = u64::from(data.blocks());
            let counters = &mut self.counters;
            let (writes, written) = if parity {
                (&mut counters.parity_writes, &mut counters.parity_blocks)
            } else {
                (&mut counters.data_writes, &mut counters.data_blocks)
            };
            *writes += 1;
            *written += blocks;
            let io = if trim { Io::trim(0, at, data.blocks()) } else { Io::write(0, at, data) };
            let io = io.for_purpose(if parity { Purpose::Parity } else { purpose });
            self.member_queue.push(member, io, Call::Op { op, slot: 0 });
        }
    }

    /// The stripe is released and the requests hear of it; `now` if something may have been
    /// written.
    fn finish_write(&mut self, op: usize, now: Option<Time>) {
        let StripeOp { stripe, spent, work, waiting } = self.ops.remove(op);
        debug_assert_eq!(waiting, 0, "answers to a stripe that is released");
        let Work::Write(write) = work else { return };
        self.clock += 1;
        if let Some((member, seq)) = write.record
            && self.present(member, stripe)
            && self.table.failed().is_none()
        {
            self.logs[member].ended(seq, self.clock);
        }
        if write.marked {
            self.bitmap.end(stripe, now.unwrap_or(0));
        }
        self.release(stripe);
        let share = spent.share(write.requests.len() as u64);
        for request in write.requests {
            self.charge(request, &share);
            self.part_done(request, write.error.map_or(Ok(()), Err));
        }
    }
}

/// The rows between the first and the last that no run covers.
fn uncovered(first: u32, end: u32, runs: &[(u32, Data)]) -> Option<(u32, u32)> {
    let mut row = first;
    let mut gaps = Vec::new();
    for (at, data) in runs {
        if *at > row {
            gaps.push((row, *at));
        }
        row = at + data.blocks();
    }
    if row < end {
        gaps.push((row, end));
    }
    Some((gaps.first()?.0, gaps.last()?.1))
}

impl Write {
    fn old(&self, role: usize) -> Option<(u32, &Data)> {
        let old = self.old.iter().find(|old| old.role == role)?;
        Some((old.row, old.data.as_ref()?))
    }

    /// The writes of data and, where there is one to keep, of parity.
    fn puts_with_parity(&self, chunk: u32, data_chunks: usize) -> Vec<Put> {
        let runs: Vec<_> = (0..data_chunks).map(|role| self.new.chunk(role, chunk)).collect();
        let (first, end) = self.rows;
        let mut puts = Vec::new();
        for (role, runs) in runs.iter().enumerate() {
            let put = |(row, data): &(u32, Data)| Put { role, row: *row, data: data.clone() };
            puts.extend(runs.iter().map(put));
        }
        let parity = match self.way {
            Way::Bare => return puts,
            Way::Modify => self.modified(&runs, data_chunks),
            Way::Whole | Way::Complete => self.completed(&runs, None),
            Way::Compute => {
                let missing = (0..=data_chunks).find(|&role| self.old(role).is_none());
                let missing = missing.expect("one role was not read");
                let content = (missing < data_chunks).then(|| self.computed(missing, data_chunks));
                let whole = content.as_ref().map(|data| overlay(first, data, &runs[missing]));
                // What was unreadable is written anew as far as it is known now.
                if let (Some(whole), Some(_)) = (&whole, self.unreadable) {
                    puts.retain(|put| put.role != missing);
                    puts.push(Put { role: missing, row: first, data: whole.clone() });
                }
                self.completed(&runs, content.map(|data| (missing, data)))
            }
        };
        assert_eq!(parity.blocks(), end - first, "parity for each row");
        puts.push(Put { role: data_chunks, row: first, data: parity });
        puts
    }

    /// Old parity, old content out, new content in.
    fn modified(&self, runs: &[Vec<(u32, Data)>], parity: usize) -> Data {
        debug_assert_eq!(self.way, Way::Modify, "old parity is of no use otherwise");
        let (first, old) = self.old(parity).expect("the old parity was read");
        let mut sum = old.clone();
        for (role, runs) in runs.iter().enumerate() {
            for (row, data) in runs {
                let (from, old) = self.old(role).expect("what is written was read");
                let change = old.slice(row - from, data.blocks()).xor(data);
                let here = sum.slice(row - first, data.blocks()).xor(&change);
                sum = overlay(first, &sum, &[(*row, here)]);
            }
        }
        sum
    }

    /// The sum of all data, new where it is written; `computed` is that of a chunk not read.
    fn completed(&self, runs: &[Vec<(u32, Data)>], computed: Option<(usize, Data)>) -> Data {
        let (first, end) = self.rows;
        let mut sum = Data::zeros(end - first);
        for (role, runs) in runs.iter().enumerate() {
            let old = match (&computed, self.old(role)) {
                (Some((missing, data)), _) if *missing == role => Some((first, data)),
                (_, old) => old,
            };
            let mut base = Data::zeros(end - first);
            if let Some((row, data)) = old {
                base = overlay(first, &base, &[(row, data.clone())]);
            }
            sum = sum.xor(&overlay(first, &base, runs));
        }
        sum
    }

    /// The old content of a chunk from all others.
    fn computed(&self, missing: usize, parity: usize) -> Data {
        debug_assert!(self.old(missing).is_none(), "what was read need not be computed");
        let (first, end) = self.rows;
        let others = (0..=parity).filter(|&role| role != missing);
        others.fold(Data::zeros(end - first), |sum, role| {
            sum.xor(self.old(role).expect("all others were read").1)
        })
    }
}
