//! Reading a log without writing anything.

use super::error::Error;
use super::view::{Records, View};
use super::window::{AHEAD, Window};
use super::writer::stat;
use super::{Lsn, Stat, open};
use crate::error::FsError;
use crate::ffs;
use seekless_engine::disk::Disk;
use seekless_fs::log::scan::scan_to_damage;
use seekless_fs::log::{LogError, Scanned};

/// A log that is open for reading.
#[derive(Debug)]
pub struct LogReader<D> {
    disk: D,
    view: View,
    damage: Option<Error>,
}

impl<D> LogReader<D> {
    /// The same log by another handle of its volume, or by none.
    pub fn on<E>(self, disk: E) -> LogReader<E> {
        let LogReader { view, damage, .. } = self;
        LogReader { disk, view, damage }
    }

    /// Why no more records are there, if records that were durable are lost.
    pub fn damage(&self) -> Option<&Error> {
        self.damage.as_ref()
    }

    /// What the log is like. Its records are durable if no writer has it open.
    pub fn stat(&self) -> Stat {
        stat(&self.view, self.view.end())
    }

    /// Gives the volume back.
    pub fn into_disk(self) -> D {
        self.disk
    }
}

impl<D: Disk> LogReader<D> {
    /// Opens a log as a crash, or a writer that goes on, has left it. Writes nothing.
    ///
    /// # Errors
    /// Those of [`super::Log::open`] but for [`Error::Damaged`], which [`LogReader::damage`] tells.
    pub fn open(mut disk: D) -> Result<LogReader<D>, Error> {
        let (scanned, damage) = open::read(&mut disk)?;
        let view = View::of(&scanned);
        Ok(LogReader { disk, view, damage })
    }

    /// The record at a position.
    ///
    /// # Errors
    /// As for [`super::Log::read`].
    pub fn read(&mut self, at: Lsn) -> Result<Vec<u8>, Error> {
        self.view.read(&mut self.disk, at)
    }

    /// The records from a position on; see [`super::Log::records`].
    pub fn records(&mut self, from: Lsn) -> Records<'_> {
        self.view.records(&mut self.disk, from)
    }
}

/// What the log of a file system holds in its newest epoch, up to damage if there is some; none if
/// the file system keeps no log.
///
/// # Errors
/// No file system, no log where it should be, and errors of the volume.
pub fn of_file_system(disk: &mut dyn Disk) -> Result<Option<(Scanned, Option<LogError>)>, FsError> {
    let found = ffs::load(disk)?.superblock;
    let Some(range) = found.log_range()? else { return Ok(None) };
    let blocks = u32::try_from(range.end - range.start).unwrap_or(u32::MAX);
    let mut window = Window::new(disk, range, AHEAD);
    let scanned = scan_to_damage(&mut window, blocks, found.id);
    if let Some(error) = window.failed() {
        return Err(error.into());
    }
    Ok(Some(scanned.map_err(FsError::LogDamaged)?))
}
