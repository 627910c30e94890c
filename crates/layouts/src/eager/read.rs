//! Reading: map lookup, one command per run of neighbouring places, checksums, zeros for holes.

use super::Mapped;
use bytes::Bytes;
use seekless_engine::checksum::Sums;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::io::{Done, Expected, Io, IoError, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::request_table::{RequestNr, RequestTable};
use seekless_engine::units::BlockNr;
use slab::Slab;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// What the map says of the blocks of a read, in order.
pub type Entries<E> = SmallVec<[E; 1]>;

/// A read in flight.
#[derive(Clone, Debug)]
struct Reading<E> {
    request: RequestNr,
    at: BlockNr,
    /// The map as it was when the read began.
    entries: Entries<E>,
    runs: SmallVec<[Run; 1]>,
    /// Blocks that are known without being read, by their index in the request.
    known: Vec<(u32, Piece)>,
    /// Runs that have not been read.
    left: u32,
    epoch: u64,
}

/// Blocks that lie behind each other, or are holes together.
#[derive(Clone, Debug)]
struct Run {
    from: u32,
    count: u32,
    data: Data,
}

/// A command of a read.
#[derive(Clone, Copy, Debug)]
struct Part {
    reading: usize,
    run: usize,
}

/// Reads in flight.
#[derive(Clone, Debug)]
pub struct Reads<E> {
    /// Commands have this tag, and their number below it.
    tag: Tag,
    /// How the checksums of blocks are made.
    sums: Sums,
    reads: Slab<Reading<E>>,
    parts: Slab<Part>,
    /// How many there are by epoch, the oldest first.
    epochs: VecDeque<(u64, u32)>,
}

impl<E: Mapped> Reads<E> {
    /// None. The lower 32 bits of `tag` are zeros.
    pub fn new(tag: Tag, sums: Sums) -> Reads<E> {
        debug_assert_eq!(tag as u32, 0);
        Reads { tag, sums, reads: Slab::new(), parts: Slab::new(), epochs: VecDeque::new() }
    }

    /// True if none is in flight.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// The epoch in which the oldest read began. Places that are superseded in it or later must
    /// stay as they are.
    pub fn oldest(&self) -> Option<u64> {
        self.epochs.front().map(|&(epoch, _)| epoch)
    }

    /// Begins the read of a request, of the blocks from `at` on that `entries` tells the places
    /// of. `epoch` counts the commits: it is that of the one that is open now.
    pub fn begin(
        &mut self,
        of: (RequestNr, BlockNr),
        entries: Entries<E>,
        epoch: u64,
        requests: &mut RequestTable,
        cx: &mut Cx<'_>,
    ) {
        self.begin_knowing(of, (entries, Vec::new()), epoch, requests, cx);
    }

    /// The same where some blocks are known without being read: their entries are unmapped.
    pub fn begin_knowing(
        &mut self,
        (request, at): (RequestNr, BlockNr),
        (entries, known): (Entries<E>, Vec<(u32, Piece)>),
        epoch: u64,
        requests: &mut RequestTable,
        cx: &mut Cx<'_>,
    ) {
        let mut runs: SmallVec<[Run; 1]> = SmallVec::new();
        let mut from = 0;
        while from < entries.len() {
            let count = run_length(&entries[from..]);
            let mapped = entries[from].is_mapped();
            let data = if mapped { Data::none() } else { Data::zeros(count) };
            runs.push(Run { from: from as u32, count, data });
            from += count as usize;
        }
        let left = runs.iter().filter(|run| run.data.is_empty()).count() as u32;
        self.enter(epoch);
        let index = self.reads.insert(Reading { request, at, entries, runs, known, left, epoch });
        if left == 0 {
            self.finish(index, requests, cx);
            return;
        }
        for (run, one) in self.reads[index].runs.iter().enumerate() {
            if one.data.is_empty() {
                let from = one.from as usize;
                let entries = &self.reads[index].entries[from..from + one.count as usize];
                let part = self.parts.insert(Part { reading: index, run });
                let at = BlockNr::from(entries[0].place());
                let mut io = Io::read(self.tag | part as Tag, at, one.count);
                if cx.has_copies(0) {
                    let each = entries.iter().map(|entry| Some(entry.checksum())).collect();
                    io = io.expecting(Expected { sums: self.sums, each });
                }
                cx.send(0, io);
            }
        }
    }

    /// A command of a read has been answered; `part` is the lower half of its tag.
    pub fn done(&mut self, part: usize, done: Done, requests: &mut RequestTable, cx: &mut Cx<'_>) {
        let Part { reading: index, run } = self.parts.remove(part);
        let reading = &mut self.reads[index];
        let request = reading.request;
        requests.spend(request, &done.spent);
        match done.outcome {
            Ok(data) => reading.runs[run].data = data,
            Err(error) => {
                let block = reading.at + u64::from(reading.runs[run].from);
                let error = match error {
                    IoError::Media { .. } => IoError::Media { block },
                    other => other,
                };
                requests.fail(request, error);
            }
        }
        reading.left -= 1;
        if reading.left == 0 {
            self.finish(index, requests, cx);
        }
    }

    fn finish(&mut self, index: usize, requests: &mut RequestTable, cx: &mut Cx<'_>) {
        let mut reading = self.reads.remove(index);
        self.leave(reading.epoch);
        let request = reading.request;
        if !requests.has_failed(request) {
            match reading.join(self.sums) {
                Ok(data) => requests.found(request, data),
                Err(error) => requests.fail(request, error),
            }
        }
        requests.part_done(request, cx);
    }

    fn enter(&mut self, epoch: u64) {
        match self.epochs.back_mut() {
            Some((last, count)) if *last == epoch => *count += 1,
            _ => self.epochs.push_back((epoch, 1)),
        }
    }

    fn leave(&mut self, epoch: u64) {
        for (one, count) in &mut self.epochs {
            if *one == epoch {
                *count -= 1;
            }
        }
        while self.epochs.front().is_some_and(|&(_, count)| count == 0) {
            self.epochs.pop_front();
        }
    }
}

impl<E: Mapped> Reading<E> {
    /// All that was read, if the checksums are right.
    fn join(&mut self, sums: Sums) -> Result<Data, IoError> {
        let mut out = Data::none();
        for run in &mut self.runs {
            let from = run.from as usize;
            let entries = &self.entries[from..from + run.count as usize];
            out.append(verify(
                sums,
                entries,
                std::mem::take(&mut run.data),
                self.at + from as u64,
            )?);
        }
        if self.known.is_empty() {
            return Ok(out);
        }
        let mut all = Data::none();
        let mut known = self.known.drain(..).peekable();
        for (index, block) in (0..).zip(out.each()) {
            let is_known = known.next_if(|(at, _)| *at == index);
            all.push(is_known.map_or(block, |(_, piece)| piece));
        }
        Ok(all)
    }
}

/// How many entries from the first on lie behind each other, or are unmapped together.
fn run_length<E: Mapped>(entries: &[E]) -> u32 {
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

/// Compares what was read with the checksums in the map and undoes escapes. `at` is the first
/// block, for the message.
///
/// # Errors
/// [`IoError::Checksum`] for the first block that is not what was written.
pub fn verify<E: Mapped>(
    sums: Sums,
    entries: &[E],
    data: Data,
    at: BlockNr,
) -> Result<Data, IoError> {
    if !entries[0].is_mapped() {
        return Ok(data);
    }
    let mut escaped = false;
    for ((index, entry), block) in entries.iter().enumerate().zip(data.each()) {
        if !sums.is_of(&block, entry.checksum()) {
            return Err(IoError::Checksum { block: at + index as u64 });
        }
        escaped |= entry.escaped();
    }
    if !escaped {
        return Ok(data);
    }
    let mut out = Data::none();
    for (entry, block) in entries.iter().zip(data.each()) {
        out.push(match &block.body {
            Body::Zeros | Body::Stamp { .. } => block,
            _ if entry.escaped() => invert_first(&block),
            _ => block,
        });
    }
    Ok(out)
}

/// A copy of a block with the first byte inverted: what an escaped block is stored as.
pub fn invert_first(block: &Piece) -> Piece {
    let mut copy = block.to_bytes().to_vec();
    copy[0] ^= 0xff;
    Piece::block(Body::Bytes(Bytes::from(copy)))
}
