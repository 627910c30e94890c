//! An array in blocking style, for the code that runs alone: format, mount, check, dump.

use super::array::Source;
use super::{Array, Level};
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::io::{Done, Expected, Io, IoError, Op, Outcome};
use seekless_engine::layer::{Cx, Layer, Port};
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;
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
        debug_assert_eq!(disks.len(), array.superblock().geometry.members, "a place for each");
        ArrayDisk { array, disks, rng: Rng::stream(0, "array") }
    }

    /// Reads what its members give. A mount reads much, and mostly meets nothing that the machine
    /// above would be needed for. Nothing if there is anything out of the ordinary.
    fn read_directly(&mut self, at: BlockNr, count: u32) -> Option<Data> {
        let mut whole = Data::none();
        for source in self.array.sources(at, count)? {
            whole.append(self.read_source(&source)?);
        }
        Some(whole)
    }

    fn read_source(&mut self, source: &Source) -> Option<Data> {
        let mut sum: Option<Data> = None;
        for &member in &source.members {
            let disk = self.disks[member].as_deref_mut()?;
            let data = disk.read(source.block, source.count).ok()?;
            let data = self.array.overlaid(member, source.block, data);
            sum = Some(match sum {
                Some(sum) => sum.xor(&data),
                None => data,
            });
        }
        sum
    }

    /// Looks for a way to have a block that `is_whole`; if it is `certain` that such a one belongs
    /// there, members that have it wrong get it back.
    fn find(
        &mut self,
        at: BlockNr,
        is_whole: &dyn Fn(&Piece) -> bool,
        certain: bool,
    ) -> Option<Piece> {
        let mut right = None;
        let mut wrong = Vec::new();
        for source in self.array.ways(at) {
            let found = self.read_source(&source).map(|data| data.block(0));
            match found.filter(is_whole) {
                Some(block) => right = right.or(Some(block)),
                // Where it is computed from several members, the wrong one is unknown.
                None if source.members.len() == 1 => wrong.push((source.members[0], source.block)),
                None => {}
            }
        }
        let right = right?;
        debug_assert!(is_whole(&right), "a member gets back only what is whole");
        if certain && !wrong.is_empty() && self.array.puts_right(wrong.iter().map(|one| one.0)) {
            for (member, block) in wrong {
                let Some(disk) = self.disks[member].as_deref_mut() else { continue };
                // If it fails, there is what was there: no read takes it for right.
                let _ = disk.write(block, Data::block_of(right.body.clone()));
            }
        }
        Some(right)
    }

    fn run(&mut self, io: Io) -> Outcome {
        // What goes on after the answer (a block written back) is carried out, too.
        let over = |array: &Array, above: &[Done]| !above.is_empty() && array.is_at_rest();
        let done = self.turn(|array, cx| array.submit(io, cx), over);
        debug_assert_eq!(done.len(), 1, "one request has one answer");
        done.last().expect("it is over when there is one").outcome.clone()
    }

    /// Brings the array to a clean shutdown.
    ///
    /// # Errors
    /// Why writing has ended, if it has.
    pub fn end(&mut self) -> Result<(), IoError> {
        let over = |array: &Array, _: &[Done]| array.stopped() || array.failed().is_some();
        self.turn(|array, cx| array.stop(cx), over);
        self.array.failed().map_or(Ok(()), Err)
    }

    /// Lets the array work until something is over; returns its answers.
    fn turn(
        &mut self,
        begin: impl FnOnce(&mut Array, &mut Cx<'_>),
        over: impl Fn(&Array, &[Done]) -> bool,
    ) -> Vec<Done> {
        let (mut below, mut above) = (Vec::new(), Vec::new());
        begin(self.array, &mut cx(&mut self.rng, &mut below, &mut above));
        loop {
            self.array.pump(&mut cx(&mut self.rng, &mut below, &mut above));
            for (member, io) in std::mem::take(&mut below) {
                let done = Done::new(io.tag, carry_out(&mut self.disks[member], &io));
                self.array.complete(member, done, &mut cx(&mut self.rng, &mut below, &mut above));
            }
            if over(self.array, &above) {
                return above;
            }
        }
    }
}

/// All happens at one instant, and no device is there to be asked.
fn cx<'c>(rng: &'c mut Rng, below: &'c mut Vec<(Port, Io)>, above: &'c mut Vec<Done>) -> Cx<'c> {
    Cx { now: 0, rng, idle_since: None, below, above, devices: &[] }
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
        seekless_engine::disk::check_range(self.array.blocks(), at, count)?;
        self.read_directly(at, count).map_or_else(|| self.run(Io::read(0, at, count)), Ok)
    }

    fn read_expecting(&mut self, at: BlockNr, expected: Expected) -> Result<Data, IoError> {
        let count = expected.each.len() as u32;
        seekless_engine::disk::check_range(self.array.blocks(), at, count)?;
        let met = |data: &Data| data.all(|index, block| expected.is_met(index, block));
        match self.read_directly(at, count).filter(met) {
            Some(data) => Ok(data),
            None => self.run(Io::read(0, at, count).expecting(expected)),
        }
    }

    fn read_whole(
        &mut self,
        at: BlockNr,
        count: u32,
        is_whole: &dyn Fn(u32, &Piece) -> bool,
    ) -> Result<Data, IoError> {
        let data = self.read(at, count)?;
        if data.all(is_whole) {
            return Ok(data);
        }
        let mut whole = Data::none();
        for (block, index) in data.each().zip(0..) {
            let is_whole = |block: &Piece| is_whole(index, block);
            let other = match is_whole(&block) {
                true => None,
                false => self.find(at + u64::from(index), &is_whole, true),
            };
            whole.push(other.unwrap_or(block));
        }
        Ok(whole)
    }

    fn look_for_whole(
        &mut self,
        at: BlockNr,
        is_whole: &dyn Fn(&Piece) -> bool,
    ) -> Result<Data, IoError> {
        let data = self.read(at, 1)?;
        let found = if is_whole(&data.block(0)) { None } else { self.find(at, is_whole, false) };
        Ok(found.map_or(data, |block| Data::block_of(block.body)))
    }

    fn is_computed(&self, at: BlockNr) -> bool {
        self.array.is_computed(at)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        seekless_engine::disk::check_range(self.array.blocks(), at, data.blocks())?;
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
