//! The epochs of a log that keeps its groups, one behind the other.
//!
//! An epoch begins at a multiple of the unit, with a group that names the epoch before and where
//! that ended. So each epoch leads back to the one in front of it, and the superblock names the
//! newest. A sector that is missing anywhere in front of the newest epoch was durable.

use super::{EpochSpan, LogError, LogSource, Reader, Scanned, find_groups};
use crate::log::format::{Kept, LogSuperblock, Lsn, SECTOR_HEAD};
use crate::log::group::{GroupView, HEAD, Record, length_of};
use seekless_engine::planted::{PlantedBug, planted};

/// The first group of an epoch.
struct Link {
    epoch: u32,
    before: u32,
    /// Behind the last group of the epoch before.
    end: Lsn,
}

impl<S: LogSource> Reader<'_, S> {
    /// Reads the groups of all epochs that count. Gives the first number that is no sector of
    /// theirs, and what is malformed in front of it.
    pub(super) fn read_epochs(&mut self, scanned: &mut Scanned) -> (u64, Option<LogError>) {
        let LogSuperblock { start, epoch: newest, kept, .. } = self.superblock;
        let mut epoch = kept.map_or(newest, |kept| kept.oldest);
        let mut at = start;
        loop {
            let sectors = self.read_epoch(&mut scanned.stream, epoch, at);
            let next = at.number() + sectors.len() as u64;
            let is_cut_off = match find_groups(scanned, &sectors) {
                Ok(is_cut_off) => is_cut_off,
                Err(malformed) => return (next, Some(malformed)),
            };
            scanned.end = scanned.end.max(at);
            scanned.epochs.push(EpochSpan { epoch, start: at, end: scanned.end, next, is_cut_off });
            if epoch == newest {
                match self.past_gap(next) {
                    Some(further) => at = further,
                    None => return (next, None),
                }
                continue;
            }
            match self.next_epoch(next, epoch) {
                Ok((number, link)) if link.end <= scanned.end => {
                    scanned.cut_at(link.end);
                    (at, epoch) = (Lsn::new(number, 0), link.epoch);
                }
                Ok(_) => return (next, None),
                Err(missing) => return (missing, None),
            }
        }
    }

    /// Where the epoch behind another one begins, and its link. If there is none, the number of a
    /// sector that is missing.
    fn next_epoch(&mut self, from: u64, before: u32) -> Result<(u64, Link), u64> {
        let unit = self.shape().unit_sectors();
        let newest = self.superblock.epoch;
        for number in (from.next_multiple_of(unit)..self.limit()).step_by(unit as usize) {
            if let Some(link) = self.link(number)
                && link.before == before
                && (before + 1..=newest).contains(&link.epoch)
            {
                return Ok((number, link));
            }
        }
        Err(self.missing(from, before))
    }

    /// The first group of the epoch that begins at a sector.
    fn link(&mut self, number: u64) -> Option<Link> {
        let id = self.superblock.id;
        let (head, sector) = self.numbered(number)?;
        let group = &sector[SECTOR_HEAD..SECTOR_HEAD + usize::from(head.used)];
        let group = group.get(..length_of(group.get(..HEAD)?)?)?;
        let view = GroupView::read(group, id, Lsn::new(number, SECTOR_HEAD))?;
        match view.records().ok()?.first()? {
            &Record::Epoch { before, end } => Some(Link { epoch: head.epoch, before, end }),
            _ => None,
        }
    }

    /// An epoch behind another one has lost its first sector: the number of a sector that is
    /// missing. A later sector of it tells, or the superblock.
    fn missing(&mut self, from: u64, before: u32) -> u64 {
        let unit = self.shape().unit_sectors();
        let newest = self.superblock.epoch;
        for number in from..self.limit() {
            if let Some((head, _)) = self.numbered(number)
                && (before + 1..=newest).contains(&head.epoch)
            {
                return (number / unit * unit).max(from);
            }
        }
        self.superblock.kept.map_or(from, |Kept { begin, .. }| begin.max(from))
    }

    /// With a planted bug: a group of the newest epoch behind missing sectors.
    fn past_gap(&mut self, from: u64) -> Option<Lsn> {
        if !planted(PlantedBug::TailPastGap) {
            return None;
        }
        let epoch = self.superblock.epoch;
        (from + 1..self.limit()).find_map(|number| {
            let (head, _) = self.numbered(number)?;
            let begins = head.epoch == epoch && head.first > 0;
            begins.then(|| Lsn::new(number, head.first.into()))
        })
    }
}

impl Scanned {
    /// The last epoch ends here: what a later reader finds behind it, recovery had not found.
    fn cut_at(&mut self, end: Lsn) {
        while self.groups.last().is_some_and(|(_, lsn)| *lsn >= end) {
            self.groups.pop();
        }
        self.end = end;
        if let Some(span) = self.epochs.last_mut() {
            span.end = end;
        }
    }
}
