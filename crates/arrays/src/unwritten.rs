//! What a recovery would write to a member, kept in memory: an array that is assembled for reading
//! shows just what one that may write would make of it.

use super::log::Run;
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use std::collections::BTreeMap;

/// A member that is read and not written.
pub(super) struct Unwritten<'d> {
    disk: &'d mut dyn Disk,
    laid: BTreeMap<BlockNr, Piece>,
}

impl<'d> Unwritten<'d> {
    /// Nothing was to be written so far.
    pub(super) fn new(disk: &'d mut dyn Disk) -> Unwritten<'d> {
        Unwritten { disk, laid: BTreeMap::new() }
    }

    /// What was to be written to it as a member.
    pub(super) fn into_runs(self, member: usize) -> impl Iterator<Item = Run> {
        self.laid.into_iter().map(move |(at, block)| Run {
            member,
            at,
            data: Data::block_of(block.body),
        })
    }
}

impl Disk for Unwritten<'_> {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        let data = self.disk.read(at, count)?;
        let end = at + u64::from(count);
        if self.laid.range(at..end).next().is_none() {
            return Ok(data);
        }
        let mut shown = Data::none();
        for (at, block) in (at..).zip(data.each()) {
            shown.push(self.laid.get(&at).cloned().unwrap_or(block));
        }
        Ok(shown)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        seekless_engine::disk::check_range(self.blocks(), at, data.blocks())?;
        self.laid.extend((at..).zip(data.each()));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        let laid = self.laid.range(at..).next().map(|(&at, _)| at);
        [laid, self.disk.next_data(at)].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::device::medium::{Cells, Medium as _};
    use seekless_engine::disk::MediumDisk;

    #[test]
    fn what_is_written_is_read_and_not_on_the_medium() {
        let mut medium = Cells::new(8);
        let seven = Data::bytes(vec![7; 2 * 4096].into());
        let mut disk = MediumDisk(&mut medium);
        let mut member = Unwritten::new(&mut disk);
        assert!(member.write(3, seven.clone()).is_ok());
        assert!(member.write(7, seven.clone()).is_err(), "it has eight blocks");
        let shown = member.read(2, 4).expect("it can be read");
        assert_eq!(shown.slice(1, 2).to_bytes(), seven.to_bytes());
        assert_eq!(shown.slice(3, 1).to_bytes(), Data::zeros(1).to_bytes());
        let runs: Vec<(usize, BlockNr)> =
            member.into_runs(1).map(|run| (run.member, run.at)).collect();
        assert_eq!(runs, [(1, 3), (1, 4)]);
        let there = medium.read(3, 1).expect("it can be read");
        assert_eq!(there.to_bytes(), Data::zeros(1).to_bytes());
    }
}
