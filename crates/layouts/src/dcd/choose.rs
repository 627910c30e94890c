//! Which blocks of the log go home next (claim D12).

use super::Dcd;
use super::destage::Item;
use super::table::{Addr, BAD, DIRTY};
use seekless_engine::planted::{PlantedBug, planted};

/// Blocks of a batch at which no further segment is added: 1 MiB.
const BATCH_BLOCKS: usize = 256;
/// The same where the ring waits for it, on a disk with a head: 4 MiB.
const PRESSED_BLOCKS: usize = 1024;

impl Dcd {
    /// True if all records of a segment are durable.
    fn is_durable(&self, number: u64) -> bool {
        if planted(PlantedBug::DestageBeforeDurable) {
            return true;
        }
        let last = match number == self.log.head {
            true => self.log.next_seq() - 1,
            false => self.log.segments[self.log.place(number + 1)].first_seq - 1,
        };
        // Records in buffers have no segment yet.
        last.min(self.log.written) <= self.log.durable && !self.is_being_written(number)
    }

    fn is_being_written(&self, number: u64) -> bool {
        self.log.writing_place() == Some(self.log.place(number))
    }

    /// What must go home for the ring to go on. On a disk with a head a batch is as large as can
    /// be without making the ring wait for its end: the more blocks are sorted, the shorter the
    /// way from one to the next.
    pub(super) fn oldest(&self) -> Vec<Item> {
        if !self.headed {
            return self.by_segment(self.log.tail..=self.log.head, BATCH_BLOCKS);
        }
        let share = u64::from(self.areas.segments / 4).max(1);
        let last = (self.log.tail + share).min(self.log.head);
        let items = self.by_segment(self.log.tail..=last, PRESSED_BLOCKS);
        match items.is_empty() {
            true => self.by_segment(self.log.tail..=self.log.head, BATCH_BLOCKS),
            false => items,
        }
    }

    /// The youngest segments.
    pub(super) fn last_first(&self) -> Vec<Item> {
        self.by_segment((self.log.tail..=self.log.head).rev(), BATCH_BLOCKS)
    }

    /// The segments with the fewest blocks that are dirty.
    pub(super) fn least_valid(&self) -> Vec<Item> {
        let mut numbers: Vec<u64> = (self.log.tail..=self.log.head).collect();
        numbers.sort_by_key(|&number| self.log.segments[self.log.place(number)].dirty);
        self.by_segment(numbers.into_iter(), BATCH_BLOCKS)
    }

    /// Dirty blocks of durable segments in the order of the numbers, as many as make a batch.
    fn by_segment(&self, numbers: impl Iterator<Item = u64>, enough: usize) -> Vec<Item> {
        let mut items = Vec::new();
        for number in numbers {
            let dirty = self.log.segments[self.log.place(number)].dirty;
            if dirty == 0 || !self.is_durable(number) {
                continue;
            }
            let first = self.log.place(number) as u32 * self.areas.segment;
            let addrs = first..first + self.areas.segment;
            items.extend(addrs.filter_map(|addr| self.item(addr)));
            if items.len() >= enough {
                break;
            }
        }
        items
    }

    /// The next blocks along the origin, from wherever they are in the log.
    pub(super) fn by_location(&mut self) -> Vec<Item> {
        for fresh in [false, true] {
            if fresh {
                let mut all = Vec::new();
                for number in self.log.tail..=self.log.head {
                    if self.is_durable(number) {
                        let first = self.log.place(number) as u32 * self.areas.segment;
                        let addrs = first..first + self.areas.segment;
                        all.extend(addrs.filter_map(|addr| self.item(addr)));
                    }
                }
                let mut sweep: Vec<(u32, Addr)> =
                    all.into_iter().map(|item| (item.block, item.addr)).collect();
                sweep.sort_unstable_by(|a, b| b.cmp(a));
                self.destage.sweep = sweep;
            }
            let mut items = Vec::new();
            while items.len() < BATCH_BLOCKS
                && let Some((block, addr)) = self.destage.sweep.pop()
            {
                items.extend(self.item(addr).filter(|item| item.block == block));
            }
            // A slot that was filled anew since may belong to a record that is not durable.
            items.retain(|item| {
                self.number_at(item.addr).is_some_and(|number| self.is_durable(number))
            });
            if !items.is_empty() {
                return items;
            }
        }
        Vec::new()
    }

    /// The segment in use at the place of a slot.
    fn number_at(&self, addr: Addr) -> Option<u64> {
        let all = u64::from(self.areas.segments);
        let place = self.log.place_of(addr) as u64;
        let number = self.log.tail + (place + all - self.log.tail % all) % all;
        (number <= self.log.head).then_some(number)
    }

    /// A slot that has to go home and may.
    fn item(&self, addr: Addr) -> Option<Item> {
        let block = self.log.table.block(addr);
        let killed = self.log.killed.get(&block).is_some_and(|(addrs, _)| addrs.contains(&addr));
        let table = &self.log.table;
        let may = table.is(addr, DIRTY) && !table.is(addr, BAD) && !killed;
        let free = may && !self.directs.overlap(block.into(), 1);
        free.then_some(Item { block, addr, piece: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dcd;
    use crate::registry::Kind;
    use seekless_engine::data::{Body, Piece};
    use seekless_engine::device::medium::Cells;
    use seekless_engine::disk::MediumDisk;
    use seekless_engine::layout::{FormatOptions, MountOptions};

    fn piece(version: u64) -> Piece {
        Piece::block(Body::Stamp { key: 100, version })
    }

    /// A read of its home that is under way would find it.
    #[test]
    fn what_was_replaced_at_home_never_goes_there() {
        let (mut origin, mut log) = (Cells::new(500), Cells::new(300));
        let (mut origin, mut log) = (MediumDisk(&mut origin), MediumDisk(&mut log));
        let options = FormatOptions::new(Kind::DCD, 0, 1);
        dcd::attach(&mut origin, &mut log, &options).expect("both are new");
        let options = MountOptions { volatile: true, ..MountOptions::default() };
        let (mut dcd, ..) = dcd::mount(&mut origin, &mut log, &options).expect("they fit");

        let (sum, addr) = (dcd.areas.sums.of(&piece(1)), 5);
        dcd.log.dirty_slot(addr, 100, sum, 0);
        dcd.log.table.set(100, addr);
        assert!(dcd.item(addr).is_some());
        // A large write has gone straight home, and is not durable there.
        dcd.home_written(0);
        dcd.log.kill(100, addr, 1);
        assert!(dcd.item(addr).is_none());
        // Then a small one goes to the log.
        let index = dcd.log.open(1, 0);
        dcd.log.put(index, 100, piece(3));
        assert!(dcd.item(addr).is_none(), "it would undo the large write");
        // Another large one, another small one.
        let younger = dcd.log.table.get(100).expect("it is in a buffer");
        dcd.home_written(0);
        dcd.log.kill(100, younger, 2);
        dcd.log.put(index, 100, piece(5));
        assert!(dcd.item(addr).is_none());
        // Once home is durable it may be forgotten; what is in the buffer is the youngest.
        dcd.home_durable(0, 1);
        assert!(dcd.log.table.is(addr, DIRTY), "the second one is not durable yet");
        dcd.home_durable(0, 2);
        assert!(!dcd.log.table.is(addr, DIRTY) && dcd.log.killed.is_empty());
        assert!(dcd.log.graves.is_empty(), "a tombstone would bury what is in the buffer");
        assert_eq!(dcd.log.in_memory(dcd.log.table.get(100).expect("it")), Some(piece(5)));
    }
}
