//! An array in blocking style, for the code that runs alone: format, mount, check, dump.

use super::array::Source;
use super::{Array, Level};
use crate::data::Data;
use crate::disk::Disk;
use crate::io::{Expected, Io, IoError, Op, Outcome};
use crate::layer::{Cx, Layer};
use crate::rng::Rng;
use crate::units::BlockNr;
use std::fmt;

/// The same state machine as ever, over members that answer at once; `None` for one that is
/// missing.
pub struct ArrayDisk<'a, 'd> {
    array: &'a mut Array,
    disks: &'a mut [Option<&'d mut dyn Disk>],
    rng: Rng,
}

impl fmt::Debug for ArrayDisk<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "array of {} members", self.disks.len())
    }
}

impl<'a, 'd> ArrayDisk<'a, 'd> {
    /// An array that [`assemble`](super::assemble) found on these members.
    pub fn new(array: &'a mut Array, disks: &'a mut [Option<&'d mut dyn Disk>]) -> Self {
        ArrayDisk { array, disks, rng: Rng::stream(0, "array") }
    }

    /// Reads what its members give. A mount reads much, and mostly meets nothing that the machine
    /// above would be needed for. Nothing if there is anything out of the ordinary.
    fn read_directly(&mut self, at: BlockNr, count: u32) -> Option<Data> {
        let mut whole = Data::none();
        for Source { members, block, count } in self.array.sources(at, count)? {
            let mut sum: Option<Data> = None;
            for member in members {
                let data = self.disks[member].as_deref_mut()?.read(block, count).ok()?;
                let data = self.array.overlaid(member, block, data);
                sum = Some(match sum {
                    Some(sum) => sum.xor(&data),
                    None => data,
                });
            }
            whole.append(sum?);
        }
        Some(whole)
    }

    fn run(&mut self, io: Io) -> Outcome {
        let (mut below, mut above) = (Vec::new(), Vec::new());
        let mut submitted = Some(io);
        loop {
            let mut cx = Cx {
                now: 0,
                rng: &mut self.rng,
                idle_since: None,
                below: &mut below,
                above: &mut above,
                devices: &[],
            };
            if let Some(io) = submitted.take() {
                self.array.submit(io, &mut cx);
            }
            self.array.pump(&mut cx);
            for (member, io) in std::mem::take(&mut below) {
                let done = crate::io::Done::new(io.tag, carry_out(&mut self.disks[member], &io));
                let mut cx = Cx {
                    now: 0,
                    rng: &mut self.rng,
                    idle_since: None,
                    below: &mut below,
                    above: &mut above,
                    devices: &[],
                };
                self.array.complete(member, done, &mut cx);
            }
            // What goes on after the answer (a block written back) is carried out, too.
            if let (Some(done), true) = (above.last(), self.array.is_at_rest()) {
                return done.outcome.clone();
            }
        }
    }
}

fn carry_out(disk: &mut Option<&mut dyn Disk>, io: &Io) -> Outcome {
    let disk = disk.as_deref_mut().ok_or(IoError::Media { block: io.at })?;
    match io.op {
        Op::Read => disk.read(io.at, io.count),
        Op::Write => disk.write(io.at, io.data.clone()).map(|()| Data::none()),
        Op::Trim => disk.write(io.at, Data::zeros(io.count)).map(|()| Data::none()),
        Op::Flush => disk.flush().map(|()| Data::none()),
    }
}

impl Disk for ArrayDisk<'_, '_> {
    fn blocks(&self) -> u64 {
        self.array.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        crate::layout::check_range(self.array.blocks(), at, count)?;
        self.read_directly(at, count).map_or_else(|| self.run(Io::read(0, at, count)), Ok)
    }

    fn read_expecting(&mut self, at: BlockNr, expected: Expected) -> Result<Data, IoError> {
        let count = expected.each.len() as u32;
        crate::layout::check_range(self.array.blocks(), at, count)?;
        let met =
            |data: &Data| data.each().zip(0..).all(|(block, index)| expected.is_met(index, &block));
        match self.read_directly(at, count).filter(met) {
            Some(data) => Ok(data),
            None => self.run(Io::read(0, at, count).expecting(expected)),
        }
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        crate::layout::check_range(self.array.blocks(), at, data.blocks())?;
        self.run(Io::write(0, at, data)).map(|_| ())
    }

    fn stripe(&self) -> u64 {
        let geometry = self.array.superblock().geometry;
        if geometry.level == Level::Raid5 { geometry.stripe_blocks() } else { 1 }
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.run(Io::flush(0)).map(|_| ())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        let geometry = self.array.superblock().geometry;
        if at >= geometry.blocks() {
            return None;
        }
        // The first stripe of which some member holds something.
        let stripe = geometry.place(at).stripe;
        let first = geometry.block(stripe, 0);
        let held = self.disks.iter_mut().flatten().filter_map(|disk| disk.next_data(first)).min();
        let next = [held, self.array.next_laid(first)].into_iter().flatten().min()?;
        let next = geometry.stripe_of(next.max(first)).0;
        let from = at.max(next * geometry.stripe_blocks());
        (from < geometry.blocks()).then_some(from)
    }
}
