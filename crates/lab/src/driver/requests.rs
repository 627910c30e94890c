//! The requests of a simulated client: their slots, the stamps they write, and the comparison of
//! what is read with what was written.

use super::{Completion, DriveError};
use crate::oracle::Oracle;
use seekless_engine::client::{Below, Slots};
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io, Op, Tag};
use seekless_engine::units::{BlockNr, Time};
use std::hint::cold_path;

/// What was written to a volume, over all phases of a run.
#[derive(Debug)]
pub(super) struct Written {
    /// What reads must return, if they are compared.
    pub(super) oracle: Option<Oracle>,
    /// Version of the latest write or trim; each has its own.
    version: u32,
}

impl Written {
    /// Nothing, on a volume of `blocks` blocks.
    pub(super) fn nothing(blocks: u64, verify: bool) -> Written {
        Written { oracle: verify.then(|| Oracle::new(blocks)), version: 0 }
    }
}

/// A request to the volume, without its content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) op: Op,
    pub(super) at: BlockNr,
    pub(super) count: u32,
    pub(super) fua: bool,
}

impl Part {
    pub(super) const FLUSH: Part = Part { op: Op::Flush, at: 0, count: 0, fua: false };
}

/// A request in flight, and what its client wants back with the answer.
#[derive(Clone, Copy, Debug)]
struct Sent<C> {
    op: Op,
    at: BlockNr,
    count: u32,
    submitted: Time,
    context: C,
}

/// The requests of one phase, in flight on port 0.
#[derive(Debug)]
pub(super) struct Requests<'w, C> {
    written: &'w mut Written,
    slots: Slots<Sent<C>>,
    /// For each slot, the oldest version that a read may return of each of its blocks: `stride` of
    /// them a slot. Empty while no read was compared.
    floors: Vec<u32>,
    /// Most blocks of a request.
    stride: usize,
}

impl<'w, C> Requests<'w, C> {
    /// Requests of up to `longest` blocks each; the first `depth` in flight allocate nothing.
    pub(super) fn new(written: &'w mut Written, depth: usize, longest: u32) -> Requests<'w, C> {
        let stride = longest as usize;
        Requests { written, slots: Slots::with_capacity(depth), floors: Vec::new(), stride }
    }

    /// A hint: a request for this block comes soon.
    #[inline]
    pub(super) fn expect(&self, at: BlockNr) {
        if let Some(oracle) = &self.written.oracle {
            oracle.expect(at);
        }
    }

    /// How many are in flight.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if none is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Sends a request.
    #[inline(always)]
    pub(super) fn send(&mut self, part: Part, context: C, below: &mut Below<'_>) {
        let Part { op, at, count, fua } = part;
        debug_assert!(count as usize <= self.stride, "{part:?} is longer than was said");
        let tag = self.slots.insert(Sent { op, at, count, submitted: below.now(), context });
        let io = match op {
            Op::Read => {
                self.read_begins(tag, at, count);
                Io::read(tag, at, count)
            }
            Op::Write => {
                let version = self.next_version();
                if let Some(oracle) = &mut self.written.oracle {
                    oracle.write_begins(at, count, version);
                }
                let mut io = Io::write(tag, at, Data::stamp(count, at, u64::from(version)));
                io.fua = fua;
                io
            }
            Op::Trim => {
                let version = self.next_version();
                if let Some(oracle) = &mut self.written.oracle {
                    oracle.trim_begins(at, count, version);
                }
                Io::trim(tag, at, count)
            }
            Op::Flush => Io::flush(tag),
        };
        below.submit(0, io);
    }

    fn next_version(&mut self) -> u32 {
        self.written.version += 1;
        self.written.version
    }

    #[inline]
    fn read_begins(&mut self, tag: Tag, at: BlockNr, count: u32) {
        let Some(oracle) = &self.written.oracle else { return };
        let first = tag as usize * self.stride;
        if self.floors.len() < first + self.stride {
            cold_path();
            self.floors.resize(first + self.stride, 0);
        }
        oracle.read_begins(at, &mut self.floors[first..first + count as usize]);
    }

    /// Takes an answer, and compares what was read.
    ///
    /// # Errors
    /// A failed request, and a read that returned something else than what was written.
    #[inline(always)]
    pub(super) fn finish(
        &mut self,
        done: Done,
        now_ns: Time,
    ) -> Result<(Completion, C), DriveError> {
        let Sent { op, at, count, submitted, context } = self.slots.remove(done.tag);
        debug_assert!(submitted <= now_ns, "answered before it was sent");
        let data = match done.outcome {
            Ok(data) => data,
            Err(error) => {
                cold_path();
                return Err(DriveError::Failed { op, at, count, error, now_ns });
            }
        };
        match (&mut self.written.oracle, op) {
            (Some(oracle), Op::Write | Op::Trim) => oracle.write_ends(at, count),
            (Some(oracle), Op::Read) => {
                let first = done.tag as usize * self.stride;
                let floors = &self.floors[first..first + count as usize];
                oracle
                    .read_ends(at, floors, &data)
                    .map_err(|wrong| DriveError::WrongContent { wrong, now_ns })?;
            }
            _ => {}
        }
        let latency = now_ns - submitted;
        let mut spent = done.spent;
        if spent.total_ns() != latency {
            spent = spent.within(latency);
        }
        Ok((Completion { op, at, count, submitted, spent }, context))
    }
}
