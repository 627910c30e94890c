//! Reading: records by their positions, and one behind the other.
//!
//! The view knows where the epochs of the log begin and end. Everything else is read from the
//! volume again, and each sector and each group is checked again.

use super::error::Error;
use super::window::{AHEAD, Window};
use bytes::Bytes;
use seekless_engine::disk::Disk;
use seekless_engine::units::{BLOCK_SECTORS, SECTOR_BYTES};
use seekless_fs::log::format::{PAYLOAD, SECTOR_HEAD, SectorHead};
use seekless_fs::log::group::{HEAD, length_of};
use seekless_fs::log::{GroupView, LogShape, LogSource as _, Lsn, Record, Scanned};
use seekless_fs::seal::Sealer;
use std::iter::FusedIterator;

/// Where the groups of an epoch lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The epoch.
    pub epoch: u32,
    /// Where they begin.
    pub start: Lsn,
    /// Behind the last one that is durable.
    pub end: Lsn,
}

/// Where the records of a log lie.
#[derive(Clone, Debug)]
pub struct View {
    pub shape: LogShape,
    pub id: u128,
    /// The oldest epoch first. There is one at least.
    pub spans: Vec<Span>,
}

/// A sector of an epoch.
struct Sector {
    head: SectorHead,
    bytes: Bytes,
}

impl Sector {
    /// Behind its payload.
    fn end(&self) -> usize {
        SECTOR_HEAD + usize::from(self.head.used)
    }
}

/// Where a reader of groups is.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    span: usize,
    at: Lsn,
}

impl View {
    /// That of a log that was read. Damage ends it in front of where the log ends.
    pub fn of(scanned: &Scanned) -> View {
        let superblock = &scanned.superblock;
        let spans = scanned.epochs.iter().map(|one| Span {
            epoch: one.epoch,
            start: one.start,
            end: one.end,
        });
        View { shape: superblock.shape, id: superblock.id, spans: spans.collect() }
    }

    /// Where the oldest record begins, if there is one.
    pub fn start(&self) -> Lsn {
        self.spans.first().map_or(Lsn::default(), |span| span.start)
    }

    /// Behind the newest one.
    pub fn end(&self) -> Lsn {
        self.spans.last().map_or(Lsn::default(), |span| span.end)
    }

    /// A window that is good as long as nothing is written.
    fn window<'d>(&self, disk: &'d mut dyn Disk, ahead: u64) -> Window<'d> {
        Window::new(disk, 0..u64::from(self.shape.blocks), ahead)
    }

    /// The record at a position.
    ///
    /// # Errors
    /// [`Error::NoRecord`] if none begins there; damage; errors of the volume.
    pub fn read(&self, disk: &mut dyn Disk, at: Lsn) -> Result<Vec<u8>, Error> {
        let none = Error::NoRecord(at);
        let holds = |span: &Span| (span.start..span.end).contains(&at);
        let span = self.spans.iter().position(holds).ok_or(none.clone())?;
        let mut window = self.window(disk, 1);
        let mut cursor = Cursor { span, at };
        match self.group(&mut window, &mut cursor)? {
            Some(bytes) => self.entry(&bytes, at)?.ok_or(none),
            None => Err(none),
        }
    }

    /// The records from a position on.
    pub fn records<'v>(&'v self, disk: &'v mut dyn Disk, from: Lsn) -> Records<'v> {
        let span = self.spans.iter().position(|span| from < span.end);
        let span = span.unwrap_or(self.spans.len());
        let at = self.spans.get(span).map_or(from, |span| from.max(span.start));
        let window = self.window(disk, AHEAD);
        Records { view: self, window, cursor: Cursor { span, at }, ended: false }
    }

    /// A sector of an epoch, which was whole and durable.
    fn sector(&self, window: &mut Window<'_>, epoch: u32, number: u64) -> Result<Sector, Error> {
        let place = self.shape.place(number);
        let block = window.block(place / BLOCK_SECTORS);
        if let Some(error) = window.failed() {
            return Err(error.into());
        }
        let at = (place % BLOCK_SECTORS) as usize * SECTOR_BYTES;
        let bytes = block.map(|block| block.slice(at..at + SECTOR_BYTES));
        let whole = bytes.and_then(|bytes| {
            let head = SectorHead::read(&bytes, &Sealer::new(self.id), self.shape, place)?;
            ((head.number, head.epoch) == (number, epoch)).then_some(Sector { head, bytes })
        });
        whole.ok_or_else(|| Error::lost(number, self.end(), self.shape))
    }

    /// The bytes of the group at the cursor, which moves behind it. None if no group begins there.
    fn group(
        &self,
        window: &mut Window<'_>,
        cursor: &mut Cursor,
    ) -> Result<Option<Vec<u8>>, Error> {
        let span = self.spans[cursor.span];
        let mut group = Vec::new();
        let (mut number, mut from) = (cursor.at.number(), cursor.at.offset());
        let mut length = HEAD;
        loop {
            let sector = self.sector(window, span.epoch, number)?;
            if !(SECTOR_HEAD..sector.end()).contains(&from) {
                return Ok(None);
            }
            let rest = length - group.len();
            let to = sector.end().min(from + rest);
            group.extend_from_slice(&sector.bytes[from..to]);
            if group.len() == HEAD && length == HEAD {
                match length_of(&group) {
                    Some(stated) => length = stated,
                    None => return Ok(None),
                }
            }
            if group.len() == length {
                cursor.at = Lsn(Lsn::new(number, 0).0 + to as u64);
                return Ok(Some(group));
            }
            from = to;
            if from == SECTOR_HEAD + PAYLOAD {
                (number, from) = (number + 1, SECTOR_HEAD);
            }
        }
    }

    /// The record of the group at a position. None if it is one of the log's own.
    fn entry(&self, group: &[u8], at: Lsn) -> Result<Option<Vec<u8>>, Error> {
        let view = GroupView::read(group, self.id, at).ok_or(Error::NoRecord(at))?;
        match view.records().as_deref() {
            Ok([Record::Entry(bytes)]) => Ok(Some(bytes.to_vec())),
            Ok([Record::Epoch { .. }]) => Ok(None),
            _ => Err(Error::lost(at.number(), self.end(), self.shape)),
        }
    }

    /// Moves the cursor to the next group, if there is one.
    fn seek(&self, window: &mut Window<'_>, cursor: &mut Cursor) -> Result<bool, Error> {
        while let Some(span) = self.spans.get(cursor.span) {
            if cursor.at >= span.end {
                cursor.span += 1;
                cursor.at = self.spans.get(cursor.span).map_or(cursor.at, |next| next.start);
                continue;
            }
            let (number, offset) = (cursor.at.number(), cursor.at.offset().max(SECTOR_HEAD));
            let sector = self.sector(window, span.epoch, number)?;
            if offset < sector.end() {
                cursor.at = Lsn::new(number, offset);
                return Ok(true);
            }
            // A force leaves the rest of a block without payload.
            cursor.at = Lsn::new(number + 1, 0);
        }
        Ok(false)
    }
}

/// Records, one behind the other. An error ends them.
pub struct Records<'v> {
    view: &'v View,
    window: Window<'v>,
    cursor: Cursor,
    ended: bool,
}

impl Records<'_> {
    fn step(&mut self) -> Result<Option<(Lsn, Vec<u8>)>, Error> {
        while self.view.seek(&mut self.window, &mut self.cursor)? {
            let at = self.cursor.at;
            let group = self.view.group(&mut self.window, &mut self.cursor)?;
            // The caller may have named a position within a record.
            let group = group.ok_or(Error::NoRecord(at))?;
            if let Some(entry) = self.view.entry(&group, at)? {
                return Ok(Some((at, entry)));
            }
        }
        Ok(None)
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(Lsn, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.step().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl FusedIterator for Records<'_> {}
