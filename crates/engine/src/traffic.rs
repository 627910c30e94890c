//! What goes to a device, counted: requests and blocks by kind, and what failed.

use crate::io::{Io, IoError, Op, Outcome};

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

/// Requests that failed as what is stored is damaged, or cannot be read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many.
    pub count: u64,
    /// The last of them.
    pub last: Option<IoError>,
}

impl Faults {
    /// Notes what a request has come to. Refusals are no faults.
    #[inline]
    pub fn note(&mut self, outcome: &Outcome) {
        if let Err(error) = outcome {
            self.note_error(*error);
        }
    }

    #[cold]
    fn note_error(&mut self, error: IoError) {
        match error {
            IoError::Media { .. } | IoError::Checksum { .. } | IoError::Os { .. } => {
                self.count += 1;
                self.last = Some(error);
            }
            IoError::NoSpace
            | IoError::ReadOnly
            | IoError::OutOfRange { .. }
            | IoError::Zone { .. }
            | IoError::PowerOff => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;

    #[test]
    fn faults_are_told_from_refusals() {
        let mut faults = Faults::default();
        faults.note(&Ok(Data::none()));
        faults.note(&Err(IoError::ReadOnly));
        assert_eq!(faults, Faults::default());
        faults.note(&Err(IoError::Media { block: 7 }));
        faults.note(&Err(IoError::Os { errno: 5 }));
        assert_eq!(faults, Faults { count: 2, last: Some(IoError::Os { errno: 5 }) });
    }

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
