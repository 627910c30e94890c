//! Blocking access to a device in virtual time.

use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::disk::{Disk, check_range};
use seekless_engine::io::{Io, IoError};
use seekless_engine::units::{BlockNr, Time};

/// A device whose requests are waited for, one after the other.
#[derive(Debug)]
pub struct DeviceDisk {
    device: Box<dyn Device>,
    now: Time,
}

impl DeviceDisk {
    /// Blocking access.
    pub fn new(device: Box<dyn Device>) -> DeviceDisk {
        DeviceDisk { device, now: 0 }
    }

    fn run(&mut self, io: Io) -> Result<Data, IoError> {
        self.device.submit(self.now, io);
        let mut done = Vec::new();
        loop {
            self.device.reap(self.now, &mut done);
            if let Some(done) = done.pop() {
                return done.outcome;
            }
            let due = self.device.next_event();
            self.now = self.now.max(due.expect("a request is under way"));
        }
    }
}

impl Disk for DeviceDisk {
    fn blocks(&self) -> u64 {
        self.device.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        check_range(self.blocks(), at, count)?;
        self.run(Io::read(0, at, count))
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        check_range(self.blocks(), at, data.blocks())?;
        self.run(Io::write(0, at, data)).map(drop)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.run(Io::flush(0)).map(drop)
    }
}
