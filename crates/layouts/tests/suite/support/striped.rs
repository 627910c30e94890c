//! A device that prefers whole stripes.

use seekless_engine::data::Data;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;

/// A device whose whole stripes, of so many blocks, cost less.
#[derive(Debug)]
pub struct Striped<'a>(pub MediumDisk<'a>, pub u64);

impl Disk for Striped<'_> {
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    fn read(&mut self, at: u64, count: u32) -> Result<Data, IoError> {
        self.0.read(at, count)
    }

    fn write(&mut self, at: u64, data: Data) -> Result<(), IoError> {
        self.0.write(at, data)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.0.flush()
    }

    fn stripe(&self) -> u64 {
        self.1
    }
}
