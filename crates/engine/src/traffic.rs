//! What goes to a device, counted: requests and blocks by kind.

use crate::io::{Io, Op};

/// Requests to a device since it was started, and their blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Blocks of the reads.
    pub blocks_read: u64,
    /// Blocks of the writes; a write of sectors counts its whole block.
    pub blocks_written: u64,
}

impl Traffic {
    /// Counts a request.
    #[inline]
    pub fn count(&mut self, io: &Io) {
        let blocks = u64::from(io.count);
        match io.op {
            Op::Read => {
                self.reads += 1;
                self.blocks_read += blocks;
            }
            Op::Write => {
                self.writes += 1;
                self.blocks_written += blocks;
            }
            Op::Flush => self.flushes += 1,
            Op::Trim => self.trims += 1,
        }
    }

    /// Adds what went to another device.
    pub fn add(&mut self, other: &Traffic) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.trims += other.trims;
        self.blocks_read += other.blocks_read;
        self.blocks_written += other.blocks_written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;

    #[test]
    fn requests_are_counted_by_kind() {
        let mut traffic = Traffic::default();
        traffic.count(&Io::read(0, 5, 3));
        traffic.count(&Io::write(0, 5, Data::zeros(2)));
        traffic.count(&Io::write(0, 9, Data::zeros(1)));
        traffic.count(&Io::flush(0));
        let mut twice = traffic;
        twice.add(&traffic);
        let expected = Traffic {
            reads: 1,
            writes: 2,
            flushes: 1,
            trims: 0,
            blocks_read: 3,
            blocks_written: 3,
        };
        assert_eq!(traffic, expected);
        assert_eq!((twice.writes, twice.blocks_written), (4, 6));
    }
}
