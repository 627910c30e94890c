//! A medium that outlives its device, and mounts over it.

use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use seekless_formats::ffs::{self, Ffs};
use seekless_formats::{FsError, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::core::CoreOptions;
use std::sync::{Arc, Mutex};

/// Requests of one mount at most. More are a loop: the images have 1024 blocks.
const MOST_REQUESTS: u64 = 200_000;

/// Cells, and the requests that they had.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<(Cells, u64)>>);

impl Shared {
    pub fn new(cells: Cells) -> Shared {
        Shared(Arc::new(Mutex::new((cells, 0))))
    }

    pub fn cells(&self) -> Cells {
        self.0.lock().unwrap().0.clone()
    }

    /// Runs a tool on the medium.
    pub fn with_disk<T>(&self, run: impl FnOnce(&mut dyn Disk) -> T) -> T {
        let mut medium = self.clone();
        run(&mut MediumDisk(&mut medium))
    }

    fn with<T>(&self, run: impl FnOnce(&mut Cells) -> T) -> T {
        let (cells, requests) = &mut *self.0.lock().unwrap();
        *requests += 1;
        assert!(*requests < MOST_REQUESTS, "the file system loops");
        run(cells)
    }
}

impl Medium for Shared {
    fn blocks(&self) -> u64 {
        self.0.lock().unwrap().0.blocks()
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.with(|cells| cells.read(at, count))
    }
    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        self.with(|cells| cells.write(at, data))
    }
    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.with(|cells| cells.trim(at, count))
    }
}

/// Mounts; what the file system writes is in the medium at once.
pub fn mount(medium: &Shared, read_only: bool) -> Result<Blocking<Ffs>, FsError> {
    let node = Plain::node(Box::new(Ram::new(Box::new(medium.clone()))));
    let core = CoreOptions { read_only, ..CoreOptions::default() };
    Blocking::mount(node, |disk| {
        ffs::mount(disk, &MountOptions { core, now: 1, ..MountOptions::default() })
    })
}
