//! Reading: from memory, the log or the origin, wherever the youngest version is. Where a request
//! is scattered, its span is read from the origin in one command and what the log has laid over it;
//! the paper would write the blocks home first.

use super::format;
use super::table::{Addr, ESCAPED};
use super::{Dcd, READ};
use seekless_engine::checksum::Sums;
use seekless_engine::data::{Data, Piece, is_zero};
use seekless_engine::io::{Done, Io, IoError, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BlockNr;
use smallvec::SmallVec;

/// A read in flight.
#[derive(Clone, Debug)]
pub struct Reading {
    request: usize,
    at: BlockNr,
    runs: SmallVec<[Run; 1]>,
    /// What was read from homes: first block and content, in any order.
    homes: SmallVec<[(u32, Data); 1]>,
    left: u32,
}

/// Where a run of blocks comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Memory,
    Log(Addr),
    Home,
}

#[derive(Clone, Debug)]
struct Run {
    from: u32,
    count: u32,
    source: Source,
    data: Data,
}

/// A command of a read: which run it fills, and from which of its blocks on.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    reading: usize,
    /// `None` stands for the whole span of the blocks that are at home.
    run: usize,
    count: u32,
}

impl Dcd {
    fn source(&self, block: BlockNr) -> (Source, Option<Piece>) {
        match self.log.table.get(block as u32) {
            None => (Source::Home, None),
            Some(addr) => match self.log.in_memory(addr) {
                Some(piece) => (Source::Memory, Some(piece)),
                // What is durable at home is read there: the log is for what is not.
                None if !self.log.table.is(addr, super::table::DIRTY) => (Source::Home, None),
                None if planted(PlantedBug::OlderRead) => (Source::Home, None),
                None => (Source::Log(addr), None),
            },
        }
    }

    /// Cuts a range into runs of one source each.
    fn runs(&self, at: BlockNr, count: u32) -> SmallVec<[Run; 1]> {
        let mut runs: SmallVec<[Run; 1]> = SmallVec::new();
        if self.log.table.len() == 0 {
            runs.push(Run { from: 0, count, source: Source::Home, data: Data::none() });
            return runs;
        }
        for index in 0..count {
            let (source, piece) = self.source(at + u64::from(index));
            let mut data = Data::none();
            if let Some(piece) = piece {
                data.push(piece);
            }
            match runs.last_mut() {
                Some(run) if follows(run, source) => {
                    run.count += 1;
                    run.data.append(data);
                }
                _ => runs.push(Run { from: index, count: 1, source, data }),
            }
        }
        runs
    }

    pub(super) fn begin_read(&mut self, io: &Io, cx: &mut Cx<'_>) {
        let Some(request) = self.requests.begin(io, 1, cx) else { return };
        self.counters.reads += 1;
        let runs = self.runs(io.at, io.count);
        let home: Vec<&Run> = runs.iter().filter(|run| run.source == Source::Home).collect();
        let span = home.first().zip(home.last());
        let span = span.map(|(first, last)| (first.from, last.from + last.count - first.from));
        let reading = self.reads.insert(Reading {
            request,
            at: io.at,
            runs,
            homes: SmallVec::new(),
            left: 0,
        });
        if let Some((from, count)) = span {
            self.counters.reads_from_origin += 1;
            self.read_home(reading, from, count, cx);
        }
        for index in 0..self.reads[reading].runs.len() {
            let Run { count, source, .. } = self.reads[reading].runs[index];
            let Source::Log(addr) = source else { continue };
            self.use_log(addr, count, true);
            let tag = self.part(Part { reading, run: index, count });
            let at = self.log.device_block(addr);
            self.send(self.log_port(), Io::read(tag, at, count), cx);
        }
        if self.reads[reading].left == 0 {
            self.finish_read(reading, cx);
        }
    }

    /// Reads a span from where its blocks have their home; `run` of such a part is its first block,
    /// counted behind all runs.
    fn read_home(&mut self, reading: usize, from: u32, count: u32, cx: &mut Cx<'_>) {
        let runs = self.reads[reading].runs.len();
        let at = self.reads[reading].at + u64::from(from);
        let homes: SmallVec<[_; 2]> = self.homes(at, count).collect();
        let mut from = from;
        for (port, home, count) in homes {
            let tag = self.part(Part { reading, run: runs + from as usize, count });
            self.send(port, Io::read(tag, home, count), cx);
            from += count;
        }
    }

    fn part(&mut self, part: Part) -> Tag {
        self.reads[part.reading].left += 1;
        READ | self.parts.insert(part) as Tag
    }

    /// Notes that a read or a batch begins or ends to rely on the content of slots.
    pub(super) fn use_log(&mut self, addr: Addr, count: u32, begins: bool) {
        let (first, last) = (self.log.place_of(addr), self.log.place_of(addr + count - 1));
        for place in first..=last {
            let users = &mut self.log.segments[place].users;
            *users = if begins { *users + 1 } else { *users - 1 };
        }
    }

    pub(super) fn read_done(&mut self, part: usize, done: Done, cx: &mut Cx<'_>) {
        let Part { reading: index, run, count } = self.parts.remove(part);
        let reading = &mut self.reads[index];
        let (request, at) = (reading.request, reading.at);
        reading.left -= 1;
        self.requests.spend(request, &done.spent);
        let runs = reading.runs.len();
        let outcome = if run >= runs {
            let from = (run - runs) as u32;
            let at = at + u64::from(from);
            done.outcome
                .map(|data| reading.homes.push((from, data)))
                .map_err(|error| named(error, at, self.homes(at, 1).next().map_or(0, |h| h.1)))
        } else {
            let Run { from, source, .. } = reading.runs[run];
            let Source::Log(addr) = source else { panic!("only slots are read one by one") };
            self.use_log(addr, count, false);
            let at = at + u64::from(from);
            let data = done
                .outcome
                .map_err(|error| named(error, at, self.log.device_block(addr)))
                .and_then(|data| self.verified(addr, at, &data));
            data.map(|data| self.reads[index].runs[run].data = data)
        };
        if let Err(error) = outcome {
            self.requests.fail(request, error);
        }
        if self.reads[index].left == 0 {
            self.finish_read(index, cx);
        }
    }

    /// Compares slots with their checksums, and undoes what made them look like no header.
    pub(super) fn verified(&self, addr: Addr, at: BlockNr, data: &Data) -> Result<Data, IoError> {
        let mut out = Data::none();
        for (index, block) in (0..).zip(data.each()) {
            let piece = self.verify(addr + index, block);
            let piece = piece.ok_or(IoError::Checksum { block: at + u64::from(index) })?;
            out.push(piece);
        }
        Ok(out)
    }

    /// The content of a slot from what was read there, if that is whole.
    pub(super) fn verify(&self, addr: Addr, piece: Piece) -> Option<Piece> {
        let escaped = self.log.table.is(addr, ESCAPED);
        let piece = if escaped { format::escape(&piece) } else { piece };
        let right = is_sum_of(self.areas.sums, self.log.table.sum(addr), &piece);
        right.then_some(piece)
    }

    fn finish_read(&mut self, index: usize, cx: &mut Cx<'_>) {
        let Reading { request, mut runs, mut homes, .. } = self.reads.remove(index);
        homes.sort_unstable_by_key(|&(from, _)| from);
        for (from, data) in homes {
            lay_under(&mut runs, from, &data);
        }
        if !self.requests.has_failed(request) {
            let mut out = Data::none();
            for run in runs {
                out.append(run.data);
            }
            self.requests.found(request, out);
        }
        self.requests.part_done(request, cx);
    }
}

/// True if the next block comes from where a run goes on.
fn follows(run: &Run, source: Source) -> bool {
    match (run.source, source) {
        (Source::Log(first), Source::Log(addr)) => addr == first + run.count,
        (one, other) => one == other,
    }
}

/// Fills the runs that are at home from what was read from block `from` on.
fn lay_under(runs: &mut [Run], from: u32, data: &Data) {
    let count = data.blocks();
    for run in runs.iter_mut().filter(|run| run.source == Source::Home) {
        let (start, end) = (run.from.max(from), (run.from + run.count).min(from + count));
        if start < end {
            run.data.append(data.slice(start - from, end - start));
        }
    }
}

/// An error in terms of the volume: block `at` of it lies at `home` of a device.
fn named(error: IoError, at: BlockNr, home: BlockNr) -> IoError {
    match error {
        IoError::Media { block } => IoError::Media { block: at + block.saturating_sub(home) },
        other => other,
    }
}

/// True if a checksum is that of a block. Zeros have the checksum 0 however they are stored.
pub fn is_sum_of(sums: Sums, sum: u32, piece: &Piece) -> bool {
    sums.has(piece, sum) || (sum == 0 && is_zero(piece))
}
