//! Shared by several tests of volumes.

use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::io::{IoError, Label};
use seekless_engine::units::BlockNr;
use std::sync::{Arc, Mutex};

/// A medium that outlives its device.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<Cells>>);

impl Shared {
    /// A medium with this content.
    pub fn new(cells: Cells) -> Shared {
        Shared(Arc::new(Mutex::new(cells)))
    }

    /// Reads or changes its content.
    pub fn with<T>(&self, act: impl FnOnce(&mut Cells) -> T) -> T {
        act(&mut self.0.lock().expect("no thread panics with the lock"))
    }
}

impl Medium for Shared {
    fn blocks(&self) -> u64 {
        self.with(|cells| cells.blocks())
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.with(|cells| cells.read(at, count))
    }
    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        self.with(|cells| cells.write(at, data))
    }
    fn has_labels(&self) -> bool {
        self.with(|cells| cells.has_labels())
    }
    fn write_labelled(
        &mut self,
        at: BlockNr,
        data: &Data,
        labels: &[Label],
    ) -> Result<(), IoError> {
        self.with(|cells| cells.write_labelled(at, data, labels))
    }
    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        self.with(|cells| cells.labels(at, count))
    }
    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.with(|cells| cells.trim(at, count))
    }
}
