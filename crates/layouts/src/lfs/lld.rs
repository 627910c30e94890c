//! LLD, the logical disk: what the log-structured file system of the virtual log paper lies on (de
//! Jonge, Kaashoek and Hsieh, "The logical disk: a new approach to improving file systems", SOSP
//! 1993; section 4.4 of the virtual log paper, claim V10).
//!
//! Segments are 512 KiB. A flush that finds a segment less than three quarters full writes it and
//! keeps it in memory: the next one writes what it held, and what has come since, to a *fresh*
//! segment, so that segments are full in the end. The earlier copy is free when that is durable.
//! Where few segments are free the log goes on behind it instead, as `lfs` does. The emptiest
//! segments are cleaned, also while no client waits.

use super::Lfs;
use super::format::default_segment;
use super::options::Partial;
use super::pool::Slot;
use super::segments::SegmentNr;
use seekless_engine::data::Body;
use seekless_engine::layout::{self, FormatOptions, LayoutError};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, Time};

/// Blocks of a segment: 512 KiB.
const SEGMENT: u32 = 128;
/// Segments that a full volume leaves free: four, and the one that is being filled.
pub(super) const RESERVE: u64 = 5;

/// The segment size of a volume on a device of that many blocks: that of other logs on small ones,
/// which would have fewer than 40 segments.
pub(super) fn segment(device_blocks: u64) -> u32 {
    match device_blocks < 40 * u64::from(SEGMENT) {
        true => default_segment(device_blocks),
        false => SEGMENT,
    }
}

/// Refuses sizes that a volume cannot have: it holds more than those of other logs.
pub(super) fn check_size(
    name: &str,
    device: u64,
    options: &FormatOptions,
) -> Result<(), LayoutError> {
    match layout::check_size::<Lfs>(name, device, options) {
        Err(LayoutError::TooSmall { .. }) => {
            match super::largest_volume(device, RESERVE, segment) < options.blocks {
                true => {
                    let needed = super::device_blocks(options.blocks, RESERVE, segment);
                    Err(LayoutError::TooSmall { device, needed })
                }
                false => Ok(()),
            }
        }
        other => other,
    }
}

/// A block of a segment that is kept in memory.
#[derive(Clone, Debug)]
struct Held {
    block: u32,
    place: u32,
    body: Body,
}

/// The segment that is being filled, in memory.
#[derive(Clone, Debug)]
pub(super) struct Lld {
    partial: Partial,
    segment: SegmentNr,
    /// Blocks of it that are written, all of them by this mount.
    end: u32,
    held: Vec<Held>,
    /// Blocks that were written again to a fresh segment.
    pub again: u64,
}

impl Lld {
    /// Nothing is in memory.
    pub fn new(partial: Partial) -> Lld {
        Lld { partial, segment: 0, end: 0, held: Vec::new(), again: 0 }
    }

    /// A block goes to a segment.
    fn hold(&mut self, segment: SegmentNr, block: u32, place: u32, body: Body) {
        if self.segment != segment {
            self.held.clear();
            self.segment = segment;
        }
        self.held.push(Held { block, place, body });
    }

    /// True if segments that are not full are kept in memory.
    pub fn keeps(&self) -> bool {
        self.partial == Partial::Fresh
    }
}

impl Lfs {
    /// A block goes to a place of the segment that is being filled.
    pub(super) fn hold(&mut self, block: u32, place: u32, body: Body) {
        let segment = self.segments.of(place);
        if let Some(lld) = self.policy.lld() {
            lld.hold(segment, block, place, body);
        }
    }

    /// Something was written out: a segment that it has filled is not kept.
    pub(super) fn keep_partial(&mut self) {
        let (head, size) = (self.log.heads[0], self.geometry.segment);
        if let Some(lld) = self.policy.lld() {
            lld.end = head.offset;
            if head.segment != lld.segment || head.offset * 4 >= size * 3 {
                lld.held.clear();
            }
        }
    }

    /// Something is to be written out: what the segment holds that was written in part goes with
    /// it, to a fresh one.
    pub(super) fn take_partial(&mut self, now: Time) {
        let affords = self.affords_fresh();
        let (head, size) = (self.log.heads[0], self.geometry.segment);
        let Some(lld) = self.policy.lld() else { return };
        let held = std::mem::take(&mut lld.held);
        let is_all = head.segment == lld.segment && head.offset == lld.end;
        if held.is_empty() || !is_all || !affords {
            return;
        }
        self.log.heads[0].offset = size;
        let mut again = 0;
        for Held { block, place, body } in held {
            let at = BlockNr::from(block);
            let entry = self.map.get(at);
            // What has changed since does not lie there.
            if entry.place() != place {
                continue;
            }
            let written = self.segments.get(head.segment).youngest;
            let from = self.supersede(entry);
            let place = self.pool.add(Slot { block, body, written, from }, now);
            self.map.replace(at, entry.moved(place));
            again += 1;
        }
        if let Some(lld) = self.policy.lld() {
            lld.again += again;
        }
        let is_empty = self.segments.get(head.segment).live == 0;
        if is_empty && planted(PlantedBug::PartialOverwritten) {
            self.log.heads[0].offset = 0;
        }
    }

    /// True if a segment that is not full can be left for a fresh one.
    fn affords_fresh(&self) -> bool {
        let spare = self.needed_for_checkpoint() + 2;
        !self.cleaner.is_pressed() && !self.starving && self.segments.free() > spare
    }

    /// Free segments at which nothing is left to be cleaned in idle time.
    pub(super) fn most_free(&self) -> u64 {
        let full = u64::from(self.geometry.segment - 1);
        let live = self.map.stored() + self.geometry.slices() + self.geometry.indices();
        self.geometry.segments().saturating_sub(live.div_ceil(full) + 2)
    }
}
