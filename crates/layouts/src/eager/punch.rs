//! Giving free blocks back to the host of a device, unit by unit; see [`crate::punch`].

use super::Mapped;
use super::commit::Commits;
use super::freemap::FreeMap;
use crate::punch::Puncher;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, Io, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, Time};
use std::ops::Range;

/// Blocks of a unit: half a mebibyte. Small devices have smaller units.
const UNIT: u64 = 128;
/// Units of a step, 32 MiB, and which part of the free blocks they are at most: they cannot be
/// written meanwhile.
const STEP: u64 = 64;
const SHARE: u64 = 4;
/// Blocks that wait to be free, at least, for a commit that only frees them.
const LEAST_WAITING: u64 = 16;

/// How the blocks that places are chosen from are cut into units.
#[derive(Clone, Copy, Debug)]
struct Units {
    /// Blocks of a unit.
    size: u32,
    first: u32,
    end: u32,
    /// The first block of so many holds no data.
    group: Option<u32>,
}

impl Units {
    fn count(self) -> u32 {
        self.end.div_ceil(self.size)
    }

    /// The blocks of a unit that may hold data.
    fn blocks(self, unit: u32) -> Range<u32> {
        let first = (unit * self.size).max(self.first);
        let labels =
            self.group.is_some_and(|group| first == self.first || first.is_multiple_of(group));
        first + u32::from(labels)..(unit * self.size).saturating_add(self.size).min(self.end)
    }

    fn all_free(self, unit: u32, free: &FreeMap) -> bool {
        let mut blocks = self.blocks(unit);
        let is_free = |at| free.is_free(BlockNr::from(at)) || free.is_free_by_name(at);
        // Cut, it looks at the first block only.
        blocks.next().is_some_and(is_free) && Edge::PunchedUnitFree.allows(blocks.all(is_free))
    }
}

/// What of a device is given back, and what is on its way.
#[derive(Clone, Debug)]
pub struct Punching {
    puncher: Puncher,
    units: Units,
    /// Taken from the free map until the device has answered.
    held: Vec<Range<u32>>,
    /// What went too early, where that is planted.
    early: Option<u32>,
    tag: Tag,
}

impl Punching {
    /// For a device of which places are chosen from these blocks; where there are groups, the
    /// first block of each of them is no place. Requests are sent with `tag`.
    pub fn new(blocks: Range<u64>, group: Option<u32>, wanted: bool, tag: Tag) -> Punching {
        let size = (blocks.end / 256).clamp(1, UNIT);
        let size = if size.is_power_of_two() { size } else { size.next_power_of_two() / 2 };
        let (first, end) = (blocks.start as u32, blocks.end as u32);
        let units = Units { size: size as u32, first, end, group };
        let puncher = Puncher::new(units.count(), wanted);
        Punching { puncher, units, held: Vec::new(), early: None, tag }
    }

    /// A block has been freed for good.
    #[inline]
    pub fn freed(&mut self, place: u32) {
        self.puncher.freed(place / self.units.size);
    }

    /// When to look again though nothing happens.
    pub fn due(&self) -> Option<Time> {
        self.puncher.due()
    }

    /// True while blocks are on their way: they are free again soon.
    pub fn is_busy(&self) -> bool {
        self.puncher.is_busy()
    }

    /// After a mount: what is free and may still take space below goes when it is time.
    pub fn look(&mut self, disk: &mut dyn Disk, free: &FreeMap) {
        let units = self.units;
        let blocks = |unit| {
            let Range { start, end } = units.blocks(unit);
            (unit, BlockNr::from(start)..BlockNr::from(end))
        };
        let all = (0..units.count()).map(blocks);
        self.puncher.look(disk, all, |unit| units.all_free(unit, free));
    }

    /// Nothing is to be given back for now.
    pub fn rest(&mut self) {
        self.puncher.rest();
    }

    /// True if a commit and a flush are worth it only to free what waits for them.
    pub fn hastens<E: Mapped>(&mut self, commits: &Commits<E>, cx: &Cx<'_>) -> bool {
        let enough = commits.waiting() >= u64::from(2 * self.units.size).max(LEAST_WAITING);
        let volatile = !commits.is_serial();
        self.puncher.hastens(volatile && enough, cx.idle_since, cx.now) && !commits.is_busy()
    }

    /// Sends what is to be given back now.
    pub fn advance<E: Mapped>(
        &mut self,
        commits: &Commits<E>,
        free: &mut FreeMap,
        cx: &mut Cx<'_>,
    ) {
        let early = planted(PlantedBug::PunchedEarly) && !self.is_busy() && cx.punches(0);
        if early && commits.last_waiting() != self.early {
            self.early = commits.last_waiting();
            return self.early.into_iter().for_each(|place| self.send(place..place + 1, cx));
        }
        let most = (free.free() / SHARE / u64::from(self.units.size)).min(STEP) as u32;
        let (units, can) = (self.units, cx.punches(0));
        let chosen = self.puncher.take(can, cx.now, most, |unit| units.all_free(unit, free));
        let mut runs: Vec<Range<u32>> = Vec::new();
        for blocks in chosen.into_iter().map(|unit| units.blocks(unit)) {
            match runs.last_mut() {
                Some(last) if last.end == blocks.start => last.end = blocks.end,
                _ => runs.push(blocks),
            }
        }
        for run in runs {
            if Edge::HeldWhilePunched.stands() {
                run.clone().for_each(|place| free.take(place));
            }
            self.send(run.clone(), cx);
            if Edge::HeldWhilePunched.stands() {
                self.held.push(run);
            }
        }
    }

    fn send(&mut self, blocks: Range<u32>, cx: &mut Cx<'_>) {
        let count = blocks.end - blocks.start;
        self.puncher.sent();
        let trim = Io::trim(self.tag, BlockNr::from(blocks.start), count);
        cx.send(0, trim.for_purpose(Purpose::Cleaning));
    }

    /// The device has answered.
    pub fn done(&mut self, done: &Done, free: &mut FreeMap, cx: &Cx<'_>) {
        let (worked, idle) = (done.outcome.is_ok(), cx.idle_since.is_some());
        if self.puncher.answered(worked, idle, STEP as u32, cx.now) {
            for run in self.held.drain(..) {
                free.release_all(run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::data::Data;
    use seekless_engine::device::medium::{Cells, Medium as _};
    use seekless_engine::disk::MediumDisk;

    #[test]
    fn units_leave_out_the_blocks_of_labels() {
        let punching = |group| Punching::new(300..100_000, group, true, 0).units;
        let plain = punching(None);
        assert_eq!((plain.blocks(2), plain.blocks(3)), (300..384, 384..512));
        assert_eq!(plain.blocks(781), 99_968..100_000);
        let labelled = punching(Some(128));
        assert_eq!((labelled.blocks(2), labelled.blocks(3)), (301..384, 385..512));
        assert!(punching(None).blocks(0).is_empty());
    }

    #[test]
    fn a_mount_finds_free_units_that_take_space() {
        let mut cells = Cells::new(100_000);
        let mut free = FreeMap::new(100_000, None);
        free.release_all(300..100_000);
        for at in [50, 700, 701, 50_000, 60_000, 99_999] {
            cells.write(at, &Data::bytes(vec![7; 4096].into())).expect("a block");
        }
        free.take(60_000);
        let mut punching = Punching::new(300..99_999, None, true, 0);
        punching.look(&mut MediumDisk(&mut cells), &free);
        // The medium tells holes by groups of blocks, so a neighbour may count as well.
        assert!((2..=4).contains(&punching.puncher.stale()), "{}", punching.puncher.stale());
    }
}
