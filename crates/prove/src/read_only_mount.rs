//! What a read-only mount shows, and that it writes nothing.

use crate::subject::{Subject, VolumeOf};
use crate::volume::Mounted as _;
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{IoError, Label};
use seekless_engine::layout::MountOptions;
use seekless_engine::units::BlockNr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A read-only medium that records attempted writes.
#[derive(Debug)]
struct Guarded {
    medium: Cells,
    touched: Arc<AtomicBool>,
}

impl Guarded {
    fn refuse(&self) -> Result<(), IoError> {
        self.touched.store(true, Ordering::Relaxed);
        Err(IoError::ReadOnly)
    }
}

impl Medium for Guarded {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.medium.read(at, count)
    }
    fn write(&mut self, _at: BlockNr, _data: &Data) -> Result<(), IoError> {
        self.refuse()
    }
    fn has_labels(&self) -> bool {
        self.medium.has_labels()
    }
    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        self.medium.labels(at, count)
    }
    fn trim(&mut self, _at: BlockNr, _count: u32) -> Result<(), IoError> {
        self.refuse()
    }
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.medium.next_data(at)
    }
}

/// Mounts media read-only, without the device `lost`, and has `read` read them.
///
/// # Errors
/// A mount that fails, and one that writes.
pub fn read_only<S: Subject, T>(
    subject: S,
    media: &[Cells],
    lost: Option<usize>,
    volatile: bool,
    read: impl FnOnce(&mut VolumeOf<S>) -> T,
) -> Result<T, String> {
    let touched = Arc::new(AtomicBool::new(false));
    let guarded = |medium: &Cells| Guarded { medium: medium.clone(), touched: touched.clone() };
    let mut media: Vec<Guarded> = media.iter().map(guarded).collect();
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let here = |(index, disk)| (lost != Some(index)).then_some(disk as &mut dyn Disk);
    let mut disks: Vec<_> = plain.iter_mut().enumerate().map(here).collect();
    let options = MountOptions { volatile, read_only: true, ..MountOptions::default() };
    let mounted = subject.mount(&mut disks, &options);
    let mounted = mounted.map_err(|error| format!("it cannot be mounted read-only: {error}"))?;
    let device = |(index, medium): (usize, Guarded)| -> Box<dyn Device> {
        // A volume that still asks a lost device finds nothing there.
        let empty = lost == Some(index);
        let medium: Box<dyn Medium> =
            if empty { Box::new(Cells::new(medium.blocks())) } else { Box::new(medium) };
        Box::new(Ram::new(medium))
    };
    let mut volume = mounted.join(media.into_iter().enumerate().map(device).collect(), 0);
    let found = read(&mut volume);
    if touched.load(Ordering::Relaxed) {
        return Err("a read-only mount writes".to_owned());
    }
    Ok(found)
}
