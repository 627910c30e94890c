//! Bringing marked regions into step after a crash: copies are made equal, parity fits again.
//!
//! Rows in which the members disagree are found first. Then the layout above is asked which blocks
//! are right ([`ask`](super::ask)); only where it does not know does the data count on RAID-5, and
//! the first member on RAID-1. Nothing is written before all of that is known.

use super::arbitrate::right;
use super::ask::{Answers, Question};
use super::assemble::on;
use super::recover::Recovery;
use super::scrub::Row;
use super::{Level, VolumeError};
use seekless_engine::data::{Cuts, Data, Piece, cancel};
use seekless_engine::planted::{PlantedBug, planted};
use std::collections::BTreeSet;
use std::ops::Range;

/// Blocks of each member that a resync reads at a time (1 MiB).
const STEP_BLOCKS: u64 = 256;

impl Recovery<'_, '_> {
    /// Brings stripes into step, and says how many it has looked at. Where a member is missing
    /// there is nothing to be in step with.
    pub(super) fn resync(&mut self, marked: &[Range<u64>]) -> Result<u64, VolumeError> {
        let mut stripes = 0;
        let mut suspects = BTreeSet::new();
        for range in marked {
            stripes += range.end - range.start;
            self.compare(range.clone(), &mut suspects)?;
        }
        if suspects.is_empty() {
            return Ok(stripes);
        }
        let answers = self.ask(&suspects);
        for (member, blocks) in answers.wrong.iter().enumerate() {
            self.healed[member] += blocks;
        }
        let mut rows = suspects.into_iter().peekable();
        while let Some(first) = rows.next() {
            // Neighbours of which the same is believed are written together.
            let believed = answers.believed(first);
            let mut count = 1;
            while rows
                .next_if(|&row| {
                    row == (first.0, first.1 + count) && answers.believed(row) == believed
                })
                .is_some()
            {
                count += 1;
            }
            self.put_right(first, count, believed)?;
        }
        Ok(stripes)
    }

    /// The members that have a stripe, if there is something to compare.
    fn comparable(&self, stripe: u64) -> Vec<usize> {
        let here: Vec<usize> =
            self.members().into_iter().filter(|&one| self.present(one, stripe)).collect();
        let enough = match self.superblock.geometry.level {
            Level::Raid0 => false,
            Level::Raid1 => here.len() > 1,
            Level::Raid5 => here.len() == self.superblock.geometry.members,
        };
        if enough { here } else { Vec::new() }
    }

    /// Reads stripes on all members, and notes rows in which these disagree.
    fn compare(
        &mut self,
        stripes: Range<u64>,
        suspects: &mut BTreeSet<Row>,
    ) -> Result<(), VolumeError> {
        let chunk = self.superblock.geometry.chunk;
        let each = (STEP_BLOCKS / u64::from(chunk)).max(1);
        let mut first = stripes.start;
        while first < stripes.end {
            // A rebuild has been through all of them or through none.
            let border = self.superblock.rebuilt;
            let end = (first + each).min(stripes.end);
            let end = if first < border { end.min(border) } else { end };
            let mut contents = Vec::new();
            for member in self.comparable(first) {
                contents.push(self.read_rows(member, (first, 0), (end - first) as u32 * chunk)?);
            }
            let mut cuts: Vec<Cuts<'_>> = contents.iter().map(Data::cuts).collect();
            for stripe in first..end {
                let chunks: Vec<Data> = cuts.iter_mut().map(|cut| cut.take(chunk)).collect();
                if chunks.is_empty() || self.agree(&chunks) {
                    continue;
                }
                for row in 0..chunk {
                    let blocks: Vec<Data> = chunks.iter().map(|data| data.slice(row, 1)).collect();
                    if !self.agree(&blocks) {
                        suspects.insert((stripe, row));
                    }
                }
            }
            debug_assert!(first < end, "a resync that does not get on");
            first = end;
        }
        Ok(())
    }

    /// True if copies are the same, or parity fits.
    fn agree(&self, held: &[Data]) -> bool {
        match self.superblock.geometry.level {
            Level::Raid5 => cancel(&held.iter().collect::<Vec<_>>()),
            _ => held.iter().all(|data| same(data, &held[0])),
        }
    }

    fn read_rows(&mut self, member: usize, first: Row, count: u32) -> Result<Data, VolumeError> {
        let at = self.superblock.geometry.block(first.0, first.1);
        self.read += u64::from(count);
        on(member, self.disk(member).read(at, count))
    }

    /// Asks the layout what it finds whole in rows about which the members disagree.
    fn ask(&mut self, suspects: &BTreeSet<Row>) -> Answers {
        let unasked = Answers::none(self.usable.len());
        let Some(volume) = self.options.volume else { return unasked };
        if planted(PlantedBug::ResyncUnasked) {
            return unasked;
        }
        let mut question = Question::new(self.disks, self.counted_out(), suspects);
        // A volume that cannot be mounted has no answers.
        let mounted = volume(&mut question).is_ok();
        let (answers, read) = question.end();
        self.read += read;
        if mounted { answers } else { unasked }
    }

    /// Writes what the members should hold in rows of a stripe.
    fn put_right(
        &mut self,
        first: Row,
        count: u32,
        believed: Option<usize>,
    ) -> Result<(), VolumeError> {
        let geometry = self.superblock.geometry;
        let here = self.comparable(first.0);
        debug_assert!(here.len() > 1, "one member disagrees with none");
        let mut held = vec![None; geometry.members];
        for &member in &here {
            held[member] = Some(self.read_rows(member, first, count)?);
        }
        // Candidate 0 of RAID-5 is that the parity is wrong.
        let usual = if geometry.level == Level::Raid5 { 0 } else { here[0] };
        let right = right(&geometry, first, believed.unwrap_or(usual), held.clone());
        let right = right.expect("all that is to agree was read");
        for (member, data) in right.into_iter().enumerate() {
            if held[member].as_ref().is_none_or(|held| same(held, &data)) {
                continue;
            }
            let at = geometry.block(first.0, first.1);
            on(member, self.disk(member).write(at, data))?;
        }
        Ok(())
    }
}

/// Copies are mostly equal as they are kept; only where they are not need bytes tell.
fn same(one: &Data, other: &Data) -> bool {
    one == other
        || one
            .each()
            .zip(other.each())
            .all(|(a, b): (Piece, Piece)| a == b || a.to_bytes() == b.to_bytes())
}
