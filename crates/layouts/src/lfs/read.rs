//! Reading: the map says where blocks lie; neighbours are read with one command, what has not
//! reached the device comes from memory, what is not stored is zeros.

use super::format::{Entry, Mark, looks_like_ours};
use super::overwrite::service_ns;
use super::segments::SegmentNr;
use super::{Lfs, READ, pool};
use bytes::Bytes;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::io::{Done, Expected, Io, IoError, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::units::BlockNr;
use smallvec::SmallVec;

/// A read in flight.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    request: usize,
    at: BlockNr,
    runs: SmallVec<[Run; 1]>,
    left: u32,
}

/// Blocks that are read together.
#[derive(Clone, Debug)]
struct Run {
    /// First block of it, from the beginning of the request.
    from: u32,
    count: u32,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// They come from memory.
    Here(Data),
    /// They come from the device: the map as it was when the read began.
    Device(SmallVec<[Entry; 1]>, SegmentNr),
}

/// A command of a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    reading: usize,
    run: usize,
}

impl Lfs {
    pub(super) fn begin_read(&mut self, request: usize, at: BlockNr, count: u32, cx: &mut Cx<'_>) {
        let mut runs: SmallVec<[Run; 1]> = SmallVec::new();
        let mut from = 0;
        while from < count {
            let run = self.run(at, from, count);
            from += run.count;
            runs.push(run);
        }
        let stored = runs.iter().filter(|run| matches!(run.source, Source::Device(..))).count();
        let index = self.reads.insert(Reading { request, at, runs, left: stored as u32 });
        if stored == 0 {
            return self.finish_read(index, cx);
        }
        for run in 0..self.reads[index].runs.len() {
            let Run { count, ref source, .. } = self.reads[index].runs[run];
            if let Source::Device(ref entries, segment) = *source {
                let place = entries[0].place();
                self.segments.enter(segment);
                let part = self.parts.insert(Part { reading: index, run });
                let mut io = Io::read(READ | part as Tag, BlockNr::from(place), count);
                if cx.has_copies(0) {
                    let each = entries.iter().map(|entry| entry.known_sum()).collect();
                    io = io.expecting(Expected { sums: self.sums, each });
                }
                cx.send(0, io);
            }
        }
    }

    /// The longest run that begins at block `from` of a request.
    fn run(&self, at: BlockNr, from: u32, count: u32) -> Run {
        let entries = self.map.range(at + u64::from(from), u64::from(count - from));
        let first = self.map.get(at + u64::from(from));
        if !first.is_mapped() {
            let count = entries.take_while(|entry| !entry.is_mapped()).count() as u32;
            return Run { from, count, source: Source::Here(Data::zeros(count)) };
        }
        if let Some(body) = self.in_memory(first.place()) {
            let piece = restore(Piece::block(body), first.mark());
            let mut data = Data::none();
            data.push(piece);
            return Run { from, count: 1, source: Source::Here(data) };
        }
        let segment = self.segments.of(first.place());
        let end = self.geometry.start_of(segment) + self.geometry.segment;
        let follows = |&(entry, index): &(Entry, u32)| {
            let place = first.place() + index;
            entry.place() == place && place < end && self.in_memory(place).is_none()
        };
        let run = entries.zip(0..).take_while(follows).map(|(entry, _)| entry);
        let entries: SmallVec<[Entry; 1]> = run.collect();
        Run { from, count: entries.len() as u32, source: Source::Device(entries, segment) }
    }

    /// The content of a place that is not on the device yet.
    fn in_memory(&self, place: u32) -> Option<Body> {
        match pool::is_buffered(place) {
            true => Some(self.pool.body(place).clone()),
            false => self.log.body_in_flight(place),
        }
    }

    pub(super) fn read_done(&mut self, part: usize, done: Done, cx: &mut Cx<'_>) {
        let Part { reading: index, run } = self.parts.remove(part);
        let reading = &mut self.reads[index];
        let request = reading.request;
        let block = reading.at + u64::from(reading.runs[run].from);
        self.requests.spend(request, &done.spent);
        if let Some(hylog) = self.policy.hylog() {
            hylog.meter.read_ns += service_ns(&done.spent);
        }
        if reading.runs[run].count == 1 {
            self.service.page(service_ns(&done.spent));
        }
        let source = std::mem::replace(&mut reading.runs[run].source, Source::Here(Data::none()));
        if let Source::Device(mut entries, segment) = source {
            self.segments.leave(segment);
            for (entry, at) in entries.iter_mut().zip(block..) {
                // It may have become cold since, and been overwritten.
                let now = self.map.get(at);
                if now.place() == entry.place() {
                    *entry = now;
                }
            }
            match done.outcome.and_then(|data| verify(self.sums, &entries, data, block)) {
                Ok(data) => reading.runs[run].source = Source::Here(data),
                Err(error) => {
                    let error = match error {
                        IoError::Media { .. } => IoError::Media { block },
                        other => other,
                    };
                    self.requests.fail(request, error);
                }
            }
        }
        reading.left -= 1;
        if reading.left == 0 {
            self.finish_read(index, cx);
        }
    }

    fn finish_read(&mut self, index: usize, cx: &mut Cx<'_>) {
        let reading = self.reads.remove(index);
        let mut out = Data::none();
        for run in reading.runs {
            if let Source::Here(data) = run.source {
                out.append(data);
            }
        }
        self.requests.found(reading.request, out);
        self.requests.part_done(reading.request, cx);
    }
}

/// Compares what was read with the map and undoes escapes. `at` is the first block, for the
/// message.
pub(super) fn verify(
    sums: Sums,
    entries: &[Entry],
    data: Data,
    at: BlockNr,
) -> Result<Data, IoError> {
    let mut escaped = false;
    for ((index, entry), block) in entries.iter().enumerate().zip(data.each()) {
        let mark = entry.mark();
        escaped |= mark.escaped;
        if !mark.unchecked && !sums.has(&block, entry.checksum()) {
            return Err(IoError::Checksum { block: at + index as u64 });
        }
    }
    if !escaped {
        return Ok(data);
    }
    let mut out = Data::none();
    for (entry, block) in entries.iter().zip(data.each()) {
        out.push(restore(block, entry.mark()));
    }
    Ok(out)
}

/// A stored block as the client wrote it.
fn restore(block: Piece, mark: Mark) -> Piece {
    match &block.body {
        Body::Zeros | Body::Stamp { .. } => block,
        _ if mark.escaped => invert_first(&block),
        _ => block,
    }
}

/// A block as it is stored: client data that looks like the log's own blocks has its first byte
/// inverted. Returns true for those.
pub(super) fn escape(id: Identity, block: Piece) -> (Piece, bool) {
    let hides = match &block.body {
        Body::Zeros | Body::Stamp { .. } => false,
        Body::Bytes(bytes) => looks_like_ours(id, bytes),
        Body::Sectors(sectors) => looks_like_ours(id, &*sectors[0]),
        Body::Lazy(_) | Body::Parity(_) => looks_like_ours(id, &block.to_bytes()),
    };
    if hides { (invert_first(&block), true) } else { (block, false) }
}

/// A copy of a block with the first byte inverted.
fn invert_first(block: &Piece) -> Piece {
    let mut copy = block.to_bytes().to_vec();
    copy[0] ^= 0xff;
    Piece::block(Body::Bytes(Bytes::from(copy)))
}
