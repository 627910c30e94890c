//! A damaged volume served to clients: reads of what is certain, an error for each other block.
//! It refuses writes, and leaves the device as it is.

use super::{Located, Salvage, Stored};
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Expected, Io, IoError, Tag};
use seekless_engine::layer::{Cx, Layer, Port, Status};
use seekless_engine::request_table::{Limits, RequestNr, RequestTable, Work};
use seekless_engine::units::{BlockNr, Time};
use slab::Slab;

/// Blocks that one command reads, at most.
const MOST_BLOCKS: u32 = 256;

/// A part of a read: blocks that lie behind each other, or need no device.
#[derive(Debug)]
struct Run {
    /// First block of the volume.
    at: BlockNr,
    stored: Vec<Stored>,
    data: Data,
}

#[derive(Debug)]
struct Reading {
    request: RequestNr,
    runs: Vec<Run>,
    left: u32,
}

/// The volume.
#[derive(Debug)]
pub struct SalvagedVolume {
    salvage: Salvage,
    allow_stale: bool,
    requests: RequestTable,
    reads: Slab<Reading>,
    /// By command: a read, and which of its runs.
    commands: Slab<(usize, usize)>,
}

impl SalvagedVolume {
    /// Serves a salvage; with `allow_stale` also content that may be older than the newest.
    pub fn new(salvage: Salvage, allow_stale: bool) -> SalvagedVolume {
        SalvagedVolume {
            salvage,
            allow_stale,
            requests: RequestTable::new(true),
            reads: Slab::new(),
            commands: Slab::new(),
        }
    }

    /// Cuts a read into runs; `Err` if a block of it is lost.
    fn runs(&self, at: BlockNr, count: u32) -> Result<Vec<Run>, IoError> {
        let mut runs: Vec<Run> = Vec::new();
        for block in at..at + u64::from(count) {
            let stored = match self.salvage.locate(block, self.allow_stale) {
                Located::Lost => return Err(IoError::Media { block }),
                Located::Zeros => None,
                Located::Stored(stored) if self.salvage.is_there(stored) => Some(stored),
                Located::Stored(_) => return Err(IoError::Media { block }),
            };
            let last = runs.last_mut();
            let follows = |run: &&mut Run| match (run.stored.last(), &stored) {
                (Some(last), Some(next)) => {
                    last.place + 1 == next.place && run.stored.len() < MOST_BLOCKS as usize
                }
                (None, None) => true,
                _ => false,
            };
            match (last.filter(follows), stored) {
                (Some(run), Some(stored)) => run.stored.push(stored),
                (Some(run), None) => run.data.append(Data::zeros(1)),
                (None, Some(stored)) => {
                    runs.push(Run { at: block, stored: vec![stored], data: Data::none() });
                }
                (None, None) => {
                    runs.push(Run { at: block, stored: Vec::new(), data: Data::zeros(1) });
                }
            }
        }
        Ok(runs)
    }

    fn begin(&mut self, request: RequestNr, at: BlockNr, count: u32, cx: &mut Cx<'_>) {
        let runs = match self.runs(at, count) {
            Ok(runs) => runs,
            Err(error) => {
                self.requests.fail(request, error);
                return self.requests.part_done(request, cx);
            }
        };
        let left = runs.iter().filter(|run| !run.stored.is_empty()).count() as u32;
        let sums = self.salvage.superblock.sums;
        let index = self.reads.insert(Reading { request, runs, left });
        if left == 0 {
            return self.finish(index, cx);
        }
        let finder = &self.salvage.finder;
        for (number, run) in self.reads[index].runs.iter().enumerate() {
            let Some(first) = run.stored.first() else { continue };
            let tag = self.commands.insert((index, number)) as Tag;
            let each = run.stored.iter().map(|&stored| finder.expected(stored)).collect();
            let io = Io::read(tag, first.place, run.stored.len() as u32);
            cx.send(0, io.expecting(Expected { sums, each }));
        }
    }

    /// Compares what was read with its checksums.
    fn verified(&self, run: &Run, data: &Data) -> Result<Data, IoError> {
        let mut out = Data::none();
        for ((stored, piece), block) in run.stored.iter().zip(data.each()).zip(run.at..) {
            let content = self.salvage.content(*stored, piece);
            out.push(content.ok_or(IoError::Checksum { block })?);
        }
        Ok(out)
    }

    fn finish(&mut self, index: usize, cx: &mut Cx<'_>) {
        let Reading { request, runs, .. } = self.reads.remove(index);
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

impl Layer for SalvagedVolume {
    fn blocks(&self) -> u64 {
        self.salvage.blocks()
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        let limits = Limits { write: 1, trim: 1 };
        if let Some(flush) = self.requests.accept(io, limits, cx) {
            self.requests.part_done(flush, cx);
        }
        while let Some(work) = self.requests.pop() {
            let Work::Read { request, at, count } = work else {
                panic!("a request table that is read-only queued a change");
            };
            self.begin(request, at, count, cx);
        }
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        let (index, number) = self.commands.remove(done.tag as usize);
        let reading = &self.reads[index];
        let (request, run) = (reading.request, &reading.runs[number]);
        let outcome = done.outcome.and_then(|data| self.verified(run, &data));
        let outcome = outcome.map_err(|error| match error {
            IoError::Media { block } => {
                let first = run.stored.first().map_or(0, |stored| stored.place);
                IoError::Media { block: run.at + block.saturating_sub(first) }
            }
            other => other,
        });
        self.requests.spend(request, &done.spent);
        match outcome {
            Ok(data) => self.reads[index].runs[number].data = data,
            Err(error) => self.requests.fail(request, error),
        }
        self.reads[index].left -= 1;
        if self.reads[index].left == 0 {
            self.finish(index, cx);
        }
    }

    fn pump(&mut self, _cx: &mut Cx<'_>) {
        if self.requests.must_leave_clean() {
            self.requests.end_shutdown();
        }
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.requests.ask_shutdown();
    }

    fn stopped(&self) -> bool {
        self.requests.is_shut_down()
    }

    fn failed(&self) -> Option<IoError> {
        None
    }

    fn status(&self) -> &dyn Status {
        self
    }
}

impl Status for SalvagedVolume {
    fn check(&self) {
        self.requests.check();
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
