//! A write-ahead log as a service of its own: the whole volume is the log.
//!
//! [`Log`] appends records, makes them durable, reads them and trims the oldest. Bytes, writer and
//! reader are those of the log of a file system (`seekless_fs::log`); a record is a group. Nothing
//! brings records in place, so those of earlier epochs count until they are trimmed.
//!
//! After a crash [`Log::open`] finds a prefix of what was appended, at least up to the last
//! [`Log::sync`] that returned. [`LogReader`] writes nothing, and gives what lies in front of
//! damage. Between calls the volume holds what the last sync promised, whatever has failed since.
//!
//! The calls block, and a log has one writer.

mod create;
mod error;
mod open;
mod reader;
#[cfg(test)]
mod tests;
mod view;
pub(crate) mod window;
mod writer;

pub use create::LogOptions;
pub(crate) use create::erase;
pub use error::Error;
pub use reader::{LogReader, of_file_system};
pub use seekless_fs::log::Lsn;
pub use view::Records;

use seekless_engine::disk::Disk;
use writer::Writer;

/// A log that is open for writing.
#[derive(Debug)]
pub struct Log<D> {
    disk: D,
    writer: Writer,
}

/// What a log is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Bytes of the log, with its superblocks.
    pub size: u64,
    /// Bytes from the oldest record to the end, with all that lies between them.
    pub used: u64,
    /// The position of the oldest record; the end if there is none.
    pub start: Lsn,
    /// All records in front of it are durable.
    pub durable: Lsn,
    /// All records lie in front of it.
    pub end: Lsn,
    /// Opening the log after a crash raises it.
    pub epoch: u32,
    /// Bytes of the largest write.
    pub unit: u32,
    /// Bytes of the longest record.
    pub most_record: u64,
}

impl<D> Log<D> {
    /// The same log by another handle of its volume, or by none.
    pub fn on<E>(self, disk: E) -> Log<E> {
        Log { disk, writer: self.writer }
    }

    /// What the log is like.
    pub fn stat(&self) -> Stat {
        self.writer.stat()
    }

    /// True after an error of the volume: it writes nothing from then on.
    pub fn has_failed(&self) -> bool {
        self.writer.has_failed()
    }
}

impl<D: Disk> Log<D> {
    /// Makes an empty log on all of a volume. What the volume held is lost.
    ///
    /// # Errors
    /// [`Error::BadOption`], and [`Error::BadOption`] for a volume that is too small; errors of the
    /// volume.
    pub fn create(mut disk: D, options: &LogOptions) -> Result<Log<D>, Error> {
        create::create(&mut disk, options)?;
        Log::open(disk)
    }

    /// Opens a log. After a crash it begins an epoch: what the crash has left behind the end does
    /// not count from then on.
    ///
    /// # Errors
    /// [`Error::NoLog`], [`Error::OfFileSystem`] and [`Error::Truncated`] if the volume holds no
    /// whole log; [`Error::Damaged`] and [`Error::Stale`] if records are lost: then nothing was
    /// written, and [`LogReader`] gives the others; errors of the volume.
    pub fn open(mut disk: D) -> Result<Log<D>, Error> {
        let writer = open::open(&mut disk)?;
        Ok(Log { disk, writer })
    }

    /// Appends a record, of any length up to [`Stat::most_record`] bytes. It is durable after the
    /// next sync.
    ///
    /// # Errors
    /// [`Error::TooLong`] and [`Error::Full`], and nothing is appended; errors of the volume, after
    /// which the log has failed.
    pub fn append(&mut self, record: &[u8]) -> Result<Lsn, Error> {
        self.writer.append(&mut self.disk, record)
    }

    /// Makes all records that were appended durable, with one flush.
    ///
    /// # Errors
    /// Errors of the volume, after which the log has failed: what is durable is found by opening it
    /// again.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.writer.sync(&mut self.disk)
    }

    /// The record at a position that [`Log::append`] has given. It must be durable.
    ///
    /// # Errors
    /// [`Error::NoRecord`], damage, and errors of the volume.
    pub fn read(&mut self, at: Lsn) -> Result<Vec<u8>, Error> {
        self.writer.view().read(&mut self.disk, at)
    }

    /// The durable records from a position on, in order, each with its position. A position in
    /// front of the oldest record means that one.
    pub fn records(&mut self, from: Lsn) -> Records<'_> {
        self.writer.view().records(&mut self.disk, from)
    }

    /// Gives up the records in front of `to`, the position of a record or [`Stat::end`]. Syncs
    /// first. When it returns, no crash brings them back, and their space is used again.
    ///
    /// # Errors
    /// [`Error::NoRecord`] if no record begins there; damage; errors of the volume, after which the
    /// log has failed.
    pub fn trim(&mut self, to: Lsn) -> Result<(), Error> {
        self.writer.trim(&mut self.disk, to)
    }

    /// Closes the log: it syncs, and writes down that everything is durable. Then damage of any
    /// record is noticed. Gives the volume back.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn close(mut self) -> Result<D, Error> {
        self.writer.close(&mut self.disk)?;
        Ok(self.disk)
    }
}
