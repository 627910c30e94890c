//! All summaries on a device, whether the log still leads to them or not: what a salvage and a
//! repair know of blocks whose place the map does not tell.

use super::super::format::{Entry, Item, Mark, Summary};
use super::super::map::MetaBlock;
use super::{Found, Recovery};
use seekless_engine::units::BlockNr;
use std::collections::BTreeMap;

/// A version of a block of the volume or of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lfs) struct Version {
    /// Number of the part that names it.
    pub sequence: u64,
    pub entry: Entry,
}

/// The summaries that a scan of all segments has found.
#[derive(Debug, Default)]
pub(in crate::lfs) struct Parts {
    /// By number, then by mount.
    all: Vec<Found>,
}

impl Recovery<'_> {
    /// Reads all segments.
    pub(super) fn scan_parts(&mut self) -> Parts {
        let mut all = Vec::new();
        let (geometry, id) = (self.geometry, self.id);
        for segment in 0..geometry.segments() as u32 {
            let first = geometry.start_of(segment);
            let end = u64::from(first) + u64::from(geometry.segment);
            if self.disk.next_data(u64::from(first)).is_none_or(|at| at >= end) {
                continue;
            }
            let unknown = vec![None; geometry.segment as usize];
            let blocks = self.read_each(BlockNr::from(first), &unknown);
            for (place, block) in (first..).zip(blocks) {
                let found = block.and_then(|block| super::summary(id, place, &block, |_| true));
                let Some((summary, link)) = found else { continue };
                if self.is_sound(place, &summary) {
                    all.push(Found { place, summary, link });
                }
            }
        }
        all.sort_by_key(|found| (found.summary.sequence, found.summary.mount));
        Parts { all }
    }
}

impl Parts {
    /// The parts behind a number, in order.
    pub(super) fn behind(&self, sequence: u64) -> impl Iterator<Item = &Found> {
        self.all.iter().filter(move |found| found.summary.sequence > sequence)
    }

    /// The greatest number of a part.
    pub(super) fn last_sequence(&self) -> u64 {
        self.all.last().map_or(0, |found| found.summary.sequence)
    }

    /// The part with a number and a name.
    pub(super) fn named(&self, sequence: u64, link: u64) -> Option<&Found> {
        self.all.iter().find(|found| found.summary.sequence == sequence && found.link == link)
    }

    /// The number of the part that holds a block of the map at a place.
    pub(super) fn part_of(&self, meta: MetaBlock, place: u32) -> Option<u64> {
        let holds = |found: &&Found| {
            placed(found).any(|(at, item)| at == place && meta_of(&item) == Some(meta))
        };
        self.all.iter().rev().find(holds).map(|found| found.summary.sequence)
    }

    /// All versions of what a block of the map names, newest last, by number from the `first` of
    /// `count` on, up to a part.
    pub(in crate::lfs) fn versions(
        &self,
        meta: MetaBlock,
        first: u64,
        count: u64,
        last_part: u64,
    ) -> BTreeMap<u64, Vec<Version>> {
        let mut versions: BTreeMap<u64, Vec<Version>> = BTreeMap::new();
        let range = first..first + count;
        for found in self.all.iter().filter(|found| found.summary.sequence <= last_part) {
            let sequence = found.summary.sequence;
            let mut add = |number: u64, entry: Entry| {
                versions.entry(number).or_default().push(Version { sequence, entry });
            };
            for (place, item) in placed(found) {
                match (meta, item) {
                    (MetaBlock::Slice(_), Item::Zeros { block, count }) => {
                        let (from, to) = (u64::from(block), u64::from(block) + u64::from(count));
                        for block in from.max(range.start)..to.min(range.end) {
                            add(block, Entry::UNMAPPED);
                        }
                    }
                    (
                        MetaBlock::Slice(_),
                        Item::Data { block, mark, checksum }
                        | Item::Plug { block, mark, checksum, .. },
                    ) if range.contains(&u64::from(block)) => {
                        add(u64::from(block), Entry::new(place, mark, checksum));
                    }
                    (MetaBlock::Index(_), Item::Map { slice, checksum })
                        if range.contains(&u64::from(slice)) =>
                    {
                        add(u64::from(slice), Entry::new(place, Mark::default(), checksum));
                    }
                    _ => {}
                }
            }
        }
        versions
    }
}

/// The items of a part, with the device blocks that they name.
pub(super) fn placed(found: &Found) -> impl Iterator<Item = (u32, Item)> {
    let mut next = found.place + 1;
    let Summary { items, .. } = &found.summary;
    items.iter().map(move |&item| {
        let own = next;
        next += u32::from(item.in_part().is_some());
        match item {
            Item::Plug { place, .. } => (place, item),
            _ => (own, item),
        }
    })
}

fn meta_of(item: &Item) -> Option<MetaBlock> {
    match *item {
        Item::Map { slice, .. } => Some(MetaBlock::Slice(slice)),
        Item::Index { index, .. } => Some(MetaBlock::Index(index)),
        _ => None,
    }
}
