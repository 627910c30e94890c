//! Reading: table lookup, one command per run of neighbouring places, checksums, zeros for holes.

use super::table::Entry;
use super::{Loge, READ};
use crate::checksum;
use crate::data::Data;
use crate::io::{Done, Io, IoError, Tag};
use crate::layer::Cx;
use crate::planted::{PlantedBug, planted};
use crate::units::BlockNr;
use smallvec::SmallVec;

/// A read in flight.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    request: usize,
    at: BlockNr,
    /// The table as it was when the read began.
    entries: SmallVec<[Entry; 1]>,
    runs: SmallVec<[Run; 1]>,
    left: u32,
    /// The commit that was open then: superseded places stay untouched until it is past.
    epoch: u64,
}

#[derive(Clone, Debug)]
struct Run {
    from: u32,
    count: u32,
    data: Data,
}

/// A command of a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    reading: usize,
    run: usize,
}

impl Loge {
    pub(super) fn begin_read(&mut self, request: usize, at: BlockNr, count: u32, cx: &mut Cx<'_>) {
        let entries: SmallVec<[Entry; 1]> = self.table.range(at, u64::from(count)).collect();
        let mut runs: SmallVec<[Run; 1]> = SmallVec::new();
        let mut from = 0;
        while from < count {
            let length = run_length(&entries[from as usize..]);
            let data = match entries[from as usize].is_mapped() {
                true => Data::none(),
                false => Data::zeros(length),
            };
            runs.push(Run { from, count: length, data });
            from += length;
        }
        let stored = runs.iter().filter(|run| run.data.is_empty()).count() as u32;
        let epoch = self.history.open();
        self.enter_epoch(epoch);
        let reading = Reading { request, at, entries, runs, left: stored, epoch };
        let index = self.reads.insert(reading);
        if stored == 0 {
            self.finish_read(index, cx);
            return;
        }
        for run in 0..self.reads[index].runs.len() {
            let Run { from, count, ref data } = self.reads[index].runs[run];
            if !data.is_empty() {
                continue;
            }
            let place = self.reads[index].entries[from as usize].place();
            let part = self.parts.insert(Part { reading: index, run });
            cx.send(0, Io::read(READ | part as Tag, BlockNr::from(place), count));
        }
    }

    pub(super) fn read_done(&mut self, part: usize, done: Done, cx: &mut Cx<'_>) {
        let Part { reading: index, run } = self.parts.remove(part);
        let reading = &mut self.reads[index];
        let request = reading.request;
        self.desk.spend(request, &done.spent);
        match done.outcome {
            Ok(data) => reading.runs[run].data = data,
            Err(error) => {
                let block = reading.at + u64::from(reading.runs[run].from);
                let error = match error {
                    IoError::Media { .. } => IoError::Media { block },
                    other => other,
                };
                self.desk.fail(request, error);
            }
        }
        reading.left -= 1;
        if reading.left == 0 {
            self.finish_read(index, cx);
        }
    }

    fn finish_read(&mut self, index: usize, cx: &mut Cx<'_>) {
        let mut reading = self.reads.remove(index);
        self.leave_epoch(reading.epoch);
        let request = reading.request;
        if !self.desk.has_failed(request) {
            let mut out = Data::none();
            for run in &mut reading.runs {
                let from = run.from as usize;
                let entries = &reading.entries[from..from + run.count as usize];
                match verify(entries, std::mem::take(&mut run.data), reading.at + from as u64) {
                    Ok(data) => out.append(data),
                    Err(error) => {
                        self.desk.fail(request, error);
                        break;
                    }
                }
            }
            self.desk.found(request, out);
        }
        self.desk.part_done(request, cx);
    }

    fn enter_epoch(&mut self, epoch: u64) {
        match self.read_epochs.back_mut() {
            Some((last, count)) if *last == epoch => *count += 1,
            _ => self.read_epochs.push_back((epoch, 1)),
        }
    }

    fn leave_epoch(&mut self, epoch: u64) {
        for (one, count) in &mut self.read_epochs {
            if *one == epoch {
                *count -= 1;
            }
        }
        while self.read_epochs.front().is_some_and(|&(_, count)| count == 0) {
            self.read_epochs.pop_front();
        }
    }
}

/// How many entries from the first on lie behind each other, or are unmapped together.
fn run_length(entries: &[Entry]) -> u32 {
    let first = entries[0];
    let mut length = 1;
    for entry in &entries[1..] {
        let follows = match first.is_mapped() {
            true => entry.is_mapped() && entry.place() == first.place() + length,
            false => !entry.is_mapped(),
        };
        if !follows {
            break;
        }
        length += 1;
    }
    length
}

/// Compares what was read with the checksums in the table. `at` is the first block, for the
/// message.
pub(super) fn verify(entries: &[Entry], data: Data, at: BlockNr) -> Result<Data, IoError> {
    if !entries[0].is_mapped() {
        return Ok(data);
    }
    for (index, entry) in entries.iter().enumerate() {
        let wrong = match data.pieces() {
            [one] if one.blocks == 1 => checksum::of_block(one) != entry.sum(),
            _ => checksum::of_block(&data.block(index as u32)) != entry.sum(),
        };
        if wrong && !planted(PlantedBug::ChecksumNotVerified) {
            return Err(IoError::Checksum { block: at + index as u64 });
        }
    }
    Ok(data)
}
