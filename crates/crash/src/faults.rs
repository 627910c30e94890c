//! Faults on purpose: a plan of what fails, and the counters that decide when.
//!
//! A device asks its [`Injector`] about each write, flush and read; the injector answers from the
//! plan and counts. When the question is asked is up to the device: at submission, or at
//! completion where a failing write may leave some blocks behind.

use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::io::{IoError, Outcome};
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};

/// A range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// First.
    pub from: BlockNr,
    /// One past the last.
    pub to: BlockNr,
}

impl Blocks {
    /// One block.
    pub fn one(at: BlockNr) -> Blocks {
        Blocks { from: at, to: at + 1 }
    }

    /// The first block of `at..at + count` that is in here.
    pub fn first_in(&self, at: BlockNr, count: u32) -> Option<BlockNr> {
        let end = at + u64::from(count);
        (self.from < end && at < self.to).then(|| self.from.max(at))
    }

    /// True if the block is in here.
    pub fn contains(&self, block: BlockNr) -> bool {
        (self.from..self.to).contains(&block)
    }
}

/// The first of `at..at + count` that is in the first range that has some of them.
fn first_in(ranges: &[Blocks], at: BlockNr, count: u32) -> Option<BlockNr> {
    ranges.iter().find_map(|blocks| blocks.first_in(at, count))
}

/// What is to go wrong. Numbers of requests count from 1, over the life of the device; trims count
/// as writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Blocks that cannot be read: [`IoError::Media`].
    pub unreadable: Vec<Blocks>,
    /// Blocks that cannot be written: [`IoError::Media`].
    pub unwritable: Vec<Blocks>,
    /// Blocks that read back with one bit wrong, the same one every time.
    pub rotten: Vec<Blocks>,
    /// The write with this number fails with [`IoError::Media`].
    pub failing_write: Option<u64>,
    /// The first block of the write that fails cannot be written from then on.
    pub failing_sticks: bool,
    /// After so many writes the device is dead: all further writes and flushes fail with
    /// [`IoError::Media`].
    pub dead_after_writes: Option<u64>,
    /// From the write with this number on, writes fail with [`IoError::NoSpace`].
    pub full_from_write: Option<u64>,
    /// The flush with this number fails with [`IoError::Media`] and covers nothing.
    pub failing_flush: Option<u64>,
    /// Flushes and forced writes are answered and mean nothing: a device that breaks its word.
    pub lying_flush: bool,
    /// The write with this number is answered and changes nothing.
    pub lost_write: Option<u64>,
}

/// How often each fault has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads failed.
    pub unreadable: u64,
    /// Reads that brought wrong bytes.
    pub rotten: u64,
    /// Writes failed.
    pub failed_writes: u64,
    /// Writes refused for want of space.
    pub full: u64,
    /// Flushes failed.
    pub failed_flushes: u64,
    /// Flushes and forced writes answered that meant nothing.
    pub lying_flushes: u64,
    /// Writes answered and not carried out.
    pub lost_writes: u64,
}

/// A plan and how far it has come.
#[derive(Clone, Debug, Default)]
pub struct Injector {
    plan: Plan,
    counts: Counts,
    writes: u64,
    flushes: u64,
}

impl Injector {
    /// What is to go wrong.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What is to go wrong, to change it.
    pub fn plan_mut(&mut self) -> &mut Plan {
        &mut self.plan
    }

    /// How often each fault has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How often each fault has happened since the counts were last taken.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Writes and trims seen so far.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Flushes seen so far.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// After `more` further writes one fails; `sticks` says that its first block cannot be written
    /// from then on.
    pub fn fail_write_after(&mut self, more: u64, sticks: bool) {
        self.plan.failing_sticks = sticks;
        self.plan.failing_write = Some(self.writes.saturating_add(more).saturating_add(1));
    }

    /// After `more` further writes the device is dead.
    pub fn die_after(&mut self, more: u64) {
        self.plan.dead_after_writes = Some(self.writes.saturating_add(more));
    }

    /// After `more` further writes there is no space left.
    pub fn fill_after(&mut self, more: u64) {
        self.plan.full_from_write = Some(self.writes.saturating_add(more).saturating_add(1));
    }

    /// After `more` further flushes one fails.
    pub fn fail_flush_after(&mut self, more: u64) {
        self.plan.failing_flush = Some(self.flushes.saturating_add(more).saturating_add(1));
    }

    /// A write or trim comes: `Some` is its answer if the plan interferes, and then it is not to
    /// be carried out.
    pub fn write(&mut self, at: BlockNr, count: u32) -> Option<Outcome> {
        self.writes += 1;
        let unwritable = first_in(&self.plan.unwritable, at, count);
        let dead = self.plan.dead_after_writes.is_some_and(|last| self.writes > last);
        let failing = (dead || self.plan.failing_write == Some(self.writes)).then_some(at);
        if let Some(block) = failing.filter(|_| self.plan.failing_sticks) {
            self.plan.unwritable.push(Blocks::one(block));
        }
        if let Some(block) = unwritable.or(failing) {
            self.counts.failed_writes += 1;
            return Some(Err(IoError::Media { block }));
        }
        if self.plan.full_from_write.is_some_and(|from| self.writes >= from) {
            self.counts.full += 1;
            return Some(Err(IoError::NoSpace));
        }
        if self.plan.lost_write == Some(self.writes) {
            self.counts.lost_writes += 1;
            return Some(Ok(Data::none()));
        }
        None
    }

    /// A flush comes: `Some` is its answer if the plan interferes, and then it covers nothing.
    pub fn flush(&mut self) -> Option<Outcome> {
        self.flushes += 1;
        let dead = self.plan.dead_after_writes.is_some_and(|last| self.writes >= last);
        if dead || self.plan.failing_flush == Some(self.flushes) {
            self.counts.failed_flushes += 1;
            return Some(Err(IoError::Media { block: 0 }));
        }
        self.lies().then(|| Ok(Data::none()))
    }

    /// A flush comes that the device does not get to: the power goes first.
    pub fn pass_flush(&mut self) {
        self.flushes += 1;
    }

    /// A flush or a forced write comes: true if it is answered and means nothing.
    pub fn lies(&mut self) -> bool {
        self.counts.lying_flushes += u64::from(self.plan.lying_flush);
        self.plan.lying_flush
    }

    /// A read comes.
    ///
    /// # Errors
    /// [`IoError::Media`] if the plan makes one of its blocks unreadable.
    pub fn read(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        let Some(block) = first_in(&self.plan.unreadable, at, count) else { return Ok(()) };
        self.counts.unreadable += 1;
        Err(IoError::Media { block })
    }

    /// What a read brings, given what is stored. The seed and the number of a block decide which
    /// of its bits is wrong.
    pub fn spoil(&mut self, seed: u64, at: BlockNr, data: Data) -> Data {
        let rotten = |block| self.plan.rotten.iter().any(|blocks| blocks.contains(block));
        let range = at..at + u64::from(data.blocks());
        if self.plan.rotten.is_empty() || !range.clone().any(rotten) {
            return data;
        }
        let mut spoilt = Data::none();
        for (index, block) in (0..).zip(range) {
            let piece = data.block(index);
            spoilt.push(if rotten(block) { rot(&piece, seed, block) } else { piece });
        }
        self.counts.rotten += 1;
        spoilt
    }
}

/// A block with one bit flipped; which one depends on the seed and the number of the block only.
pub fn rot(piece: &Piece, seed: u64, block: BlockNr) -> Piece {
    assert_eq!(piece.blocks, 1, "rot takes one block at a time");
    let bit = Rng::stream(seed ^ block.rotate_left(32), "rot").below(8 * BLOCK_BYTES as u64);
    Piece::block(flip_bit(&piece.body, bit))
}

/// A block with one bit flipped; the number chooses which.
pub fn flip_bit(body: &Body, bit: u64) -> Body {
    let mut bytes = Piece::block(body.clone()).to_bytes().to_vec();
    let bit = bit % (8 * bytes.len() as u64);
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    Body::Bytes(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_count_from_when_they_are_set() {
        let mut faults = Injector::default();
        assert_eq!(faults.write(0, 1), None);
        faults.fail_write_after(1, false);
        faults.fail_flush_after(0);
        assert_eq!(faults.write(1, 1), None);
        assert_eq!(faults.write(2, 1), Some(Err(IoError::Media { block: 2 })));
        assert_eq!(faults.write(3, 1), None, "one write fails");
        faults.fill_after(0);
        assert_eq!(faults.write(4, 1), Some(Err(IoError::NoSpace)));
        assert_eq!(faults.write(5, 1), Some(Err(IoError::NoSpace)), "full stays full");
        assert_eq!(faults.flush(), Some(Err(IoError::Media { block: 0 })));
        assert_eq!(faults.flush(), None);
        let expected = Counts { failed_writes: 1, full: 2, failed_flushes: 1, ..Counts::default() };
        assert_eq!(faults.counts(), expected);
    }

    #[test]
    fn ranges_are_met_at_their_first_block() {
        let mut faults = Injector::default();
        faults.plan_mut().unwritable = vec![Blocks { from: 4, to: 8 }];
        faults.plan_mut().unreadable = vec![Blocks::one(9), Blocks { from: 2, to: 4 }];
        assert_eq!(faults.write(0, 4), None);
        assert_eq!(faults.write(6, 4), Some(Err(IoError::Media { block: 6 })));
        assert_eq!(faults.read(0, 3), Err(IoError::Media { block: 2 }));
        assert_eq!(faults.read(0, 10), Err(IoError::Media { block: 9 }), "in order of the plan");
        assert_eq!(faults.read(4, 5), Ok(()));
    }
}
