//! The writer of a log over blocking access.
//!
//! Whole units go out as they fill; a sync writes the rest and flushes once. No write counts as
//! durable before a flush behind it has succeeded. After an error of the volume the writer refuses
//! everything that writes: a flush that is tried again proves nothing about writes before it.

use super::error::Error;
use super::view::{Span, View};
use super::{Lsn, Stat};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES};
use seekless_fs::log::format::PAYLOAD;
use seekless_fs::log::group::{HEAD, MOST_ENTRY, RECORD_HEAD};
use seekless_fs::log::{GroupBuilder, LogShape, LogSuperblock, Record, Ring};

/// Bytes of the group with which an epoch begins: recovery needs space for it.
const LINK_BYTES: usize = HEAD + RECORD_HEAD + 8;

/// A writer and what it knows of the records.
#[derive(Debug)]
pub struct Writer {
    ring: Ring,
    /// The durable records.
    view: View,
    /// Behind the last record.
    end: Lsn,
    /// First sectors of writes that no flush has covered.
    unflushed: Vec<u64>,
    /// Something has become durable that no superblock states.
    unattested: bool,
    failed: bool,
}

impl Writer {
    /// A writer that has written nothing yet, behind the records of `view`.
    pub fn new(mut ring: Ring, view: View) -> Writer {
        ring.carries(LINK_BYTES);
        let end = view.end();
        Writer { ring, view, end, unflushed: Vec::new(), unattested: true, failed: false }
    }

    /// The durable records.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What the log is like.
    pub fn stat(&self) -> Stat {
        stat(&self.view, self.end)
    }

    /// True after an error of the volume.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Adds a record.
    pub fn append(&mut self, disk: &mut dyn Disk, record: &[u8]) -> Result<Lsn, Error> {
        self.refuse_failed()?;
        let most = most_record(self.view.shape);
        if record.len() as u64 > most {
            return Err(Error::TooLong { length: record.len() as u64, most });
        }
        let mut group = GroupBuilder::new(0, 0, 0);
        let fits = group.push(Record::Entry(record));
        assert!(fits, "an entry that is not too long fits in a group");
        let placed = self.ring.append(group).map_err(|_| Error::Full)?;
        self.end = placed.end;
        self.attempt(|writer| writer.write_out(disk))?;
        Ok(placed.lsn)
    }

    /// Makes all records durable.
    pub fn sync(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        self.refuse_failed()?;
        self.ring.force(self.ring.end());
        self.attempt(|writer| {
            writer.write_out(disk)?;
            if writer.unflushed.is_empty() {
                return Ok(());
            }
            if !planted(PlantedBug::AckBeforeDurable) {
                disk.flush_for(Edge::RecordsFlush)?;
            }
            for number in std::mem::take(&mut writer.unflushed) {
                writer.ring.written(number);
            }
            writer.unattested = true;
            writer.view.grow(writer.end);
            Ok(())
        })
    }

    /// Moves the start to a record, or to the end.
    pub fn trim(&mut self, disk: &mut dyn Disk, to: Lsn) -> Result<(), Error> {
        self.sync(disk)?;
        if to <= self.view.start() {
            return Ok(());
        }
        let start = match to == self.end {
            true => self.ring.durable(),
            false => {
                self.view.read(disk, to)?;
                to
            }
        };
        let oldest = self.view.epoch_of(start);
        let Some(superblock) = self.ring.release_kept(start, oldest) else { return Ok(()) };
        self.attempt(|writer| writer.write_superblocks(disk, &superblock))?;
        self.view.begin_at(start);
        self.end = self.end.max(start);
        Ok(())
    }

    /// Makes everything durable, and states so.
    pub fn close(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        self.sync(disk)?;
        if self.unattested { self.attest(disk) } else { Ok(()) }
    }

    /// Writes both superblocks anew: they state up to where the log is durable.
    pub fn attest(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        let superblock = self.ring.attest();
        self.attempt(|writer| writer.write_superblocks(disk, &superblock))
    }

    /// Writes a superblock and then its copy: damage of either loses nothing.
    fn write_superblocks(
        &mut self,
        disk: &mut dyn Disk,
        first: &LogSuperblock,
    ) -> Result<(), IoError> {
        write_superblock(disk, first)?;
        if !planted(PlantedBug::TrimReusesEarly) {
            disk.flush_for(Edge::StartStated)?;
            if let Some(second) = self.ring.copied() {
                write_superblock(disk, &second)?;
                disk.flush_for(Edge::StartStated)?;
            }
        }
        self.ring.superblock_written();
        self.unattested = false;
        Ok(())
    }

    fn refuse_failed(&self) -> Result<(), Error> {
        if self.failed { Err(Error::Failed) } else { Ok(()) }
    }

    /// An error of the volume makes the writer fail.
    fn attempt(
        &mut self,
        act: impl FnOnce(&mut Writer) -> Result<(), IoError>,
    ) -> Result<(), Error> {
        let done = act(self);
        self.failed |= done.is_err();
        Ok(done?)
    }

    /// Writes what can go out.
    fn write_out(&mut self, disk: &mut dyn Disk) -> Result<(), IoError> {
        while let Some(write) = self.ring.next_write(None) {
            debug_assert!(write.sector.is_multiple_of(BLOCK_SECTORS), "whole blocks");
            disk.write(write.sector / BLOCK_SECTORS, Data::bytes(write.bytes))?;
            self.unflushed.push(write.number);
        }
        Ok(())
    }
}

fn write_superblock(disk: &mut dyn Disk, superblock: &LogSuperblock) -> Result<(), IoError> {
    disk.write(superblock.block(), Data::bytes(superblock.encode().into()))
}

/// Bytes of the longest record: one that fits in an empty log, beside what recovery needs.
pub fn most_record(shape: LogShape) -> u64 {
    let link = (LINK_BYTES.div_ceil(PAYLOAD) as u64 + 1).next_multiple_of(BLOCK_SECTORS);
    // The sector in which it begins may be full, and a force fills the block in which it ends.
    let beside = shape.unit_sectors() + link + BLOCK_SECTORS + 1;
    let bytes = (shape.sectors() - beside) * PAYLOAD as u64 - (HEAD + RECORD_HEAD) as u64;
    bytes.min(MOST_ENTRY as u64)
}

/// What a log is like whose records end at `end`.
pub fn stat(view: &View, end: Lsn) -> Stat {
    let (start, durable) = (view.start(), view.end());
    let sectors = (end.number() + u64::from(end.offset() > 0)).saturating_sub(start.number());
    let used = if start == end { 0 } else { sectors * SECTOR_BYTES as u64 };
    Stat {
        size: u64::from(view.shape.blocks) * BLOCK_BYTES as u64,
        used,
        start,
        durable,
        end,
        epoch: view.spans.last().map_or(0, |span| span.epoch),
        unit: view.shape.unit,
        most_record: most_record(view.shape),
    }
}

impl View {
    /// An epoch begins behind the others; the log's own groups in it end at `end`.
    pub fn begin_epoch(&mut self, epoch: u32, start: Lsn, end: Lsn) {
        self.spans.push(Span { epoch, start, end });
    }

    /// The records are durable up to here.
    fn grow(&mut self, end: Lsn) {
        if let Some(span) = self.spans.last_mut() {
            span.end = end;
        }
    }

    /// The epoch in which a position lies.
    fn epoch_of(&self, at: Lsn) -> u32 {
        let span = self.spans.iter().rev().find(|span| span.start <= at);
        span.map_or(0, |span| span.epoch)
    }

    /// The records in front of a position are gone.
    fn begin_at(&mut self, start: Lsn) {
        let epoch = self.epoch_of(start);
        self.spans.retain(|span| span.epoch >= epoch);
        if let Some(span) = self.spans.first_mut() {
            span.start = start;
            span.end = span.end.max(start);
        }
    }
}
