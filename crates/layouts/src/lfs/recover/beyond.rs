//! Whether the log has come to its end, or a summary that is damaged cuts it short.

use super::super::format::{Claims, Position, looks_like_ours};
use super::{Found, Recovery, damaged, summary};
use seekless_engine::data::Piece;
use seekless_engine::layout::LayoutError;
use seekless_engine::units::BlockNr;

/// Segments that are looked at for a part behind one that is damaged. The log goes on in the next
/// one that is free.
const MOST_FAR: usize = 1024;

impl Recovery<'_> {
    /// A part behind the end of the log that says that more was durable shows that the end is a
    /// damaged summary: what follows it must not be lost silently. Where the next part may lie
    /// must be readable, or it is unknown whether the log ends there: taken for its end, segments
    /// that were given up behind it, and are written again, would be read as what they held. True
    /// if there is something behind it that does not hold.
    pub(super) fn look_beyond(
        &mut self,
        position: &Position,
        mount: u32,
    ) -> Result<bool, LayoutError> {
        let next = position.sequence + 1;
        if let Some(place) = self.lost {
            return damaged(format!(
                "device block {place}, where part {next} of the log may lie, is unreadable"
            ));
        }
        let mut from = *position;
        while let Some(Found { summary, link, .. }) = self.part_behind(&from, mount) {
            if summary.durable > position.sequence {
                return damaged(format!(
                    "part {next} of the log is unreadable, though part {} says that it was durable",
                    summary.sequence
                ));
            }
            // It may have been written before the one that is missing was durable.
            from = Position { sequence: summary.sequence, link, ways: summary.ways };
        }
        Ok(from.sequence > position.sequence || self.ends_torn(position))
    }

    /// True if a block where the next part may begin starts as a summary and is none.
    fn ends_torn(&mut self, position: &Position) -> bool {
        let (geometry, id) = (self.geometry, self.id);
        let mut inside = position.ways.into_iter().filter(|&way| geometry.holds(way, 1));
        inside.any(|way| {
            let blocks = self.read_each(BlockNr::from(way), &[None]);
            blocks.iter().flatten().any(|block| {
                looks_like_ours(id, &block.to_bytes())
                    && summary(id, way, block, |_| true).is_none()
            })
        })
    }

    /// A part behind a position, though the next one is not there.
    fn part_behind(&mut self, position: &Position, mount: u32) -> Option<Found> {
        let inside = position.ways.into_iter().filter(|&way| self.geometry.holds(way, 1));
        let ways: Vec<u32> = inside.collect();
        let mut last: Option<Found> = None;
        for &way in &ways {
            let segment = self.geometry.segment_of(way);
            let end = self.geometry.start_of(segment) + self.geometry.segment;
            let blocks = self.read_each(BlockNr::from(way), &vec![None; (end - way) as usize]);
            for (place, block) in (way..).zip(blocks) {
                let found = block.and_then(|block| self.later(place, &block, position, mount));
                let known = last.as_ref().map_or(0, |last| last.summary.sequence);
                last = found.filter(|found| found.summary.sequence > known).or(last);
            }
        }
        last.or_else(|| ways.into_iter().find_map(|way| self.part_far_behind(way, position, mount)))
    }

    /// The part in a block, if it is behind a position.
    fn later(&self, place: u32, block: &Piece, position: &Position, mount: u32) -> Option<Found> {
        let is_behind =
            |claims: &Claims| claims.mount >= mount && claims.sequence > position.sequence;
        let (summary, link) = summary(self.id, place, block, is_behind)?;
        self.is_sound(place, &summary).then_some(Found { place, summary, link })
    }

    /// If the first block of a segment in which the log may go on is no summary, though something
    /// is in the segment: the summary of a part that filled it may be damaged, and the log go on in
    /// any of the segments behind it that were free.
    fn part_far_behind(&mut self, way: u32, position: &Position, mount: u32) -> Option<Found> {
        let segment = self.geometry.segment_of(way);
        if way != self.geometry.start_of(segment) {
            return None;
        }
        let end = BlockNr::from(way) + u64::from(self.geometry.segment);
        let is_hole = self.disk.next_data(BlockNr::from(way)).is_none_or(|at| at >= end);
        let begins = if is_hole { Vec::new() } else { self.read_each(BlockNr::from(way), &[None]) };
        let is_summary = |block: &Piece| summary(self.id, way, block, |_| true).is_some();
        if is_hole || begins.iter().flatten().any(is_summary) {
            return None;
        }
        let count = self.geometry.segments() as u32;
        let geometry = self.geometry;
        let others = (1..count).map(|step| (segment + step) % count).take(MOST_FAR);
        others.map(|segment| geometry.start_of(segment)).find_map(|place| {
            let at = BlockNr::from(place);
            let blocks = match self.disk.next_data(at) == Some(at) {
                true => self.read_each(at, &[None]),
                false => Vec::new(),
            };
            blocks.iter().flatten().find_map(|block| self.later(place, block, position, mount))
        })
    }
}
