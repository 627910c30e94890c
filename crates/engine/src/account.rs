//! The account of a device: the number of commands for each purpose, and their time.
//!
//! A latency tells how long a client waited. The account tells which requests it waited for.

use crate::io::{Breakdown, Op, Purpose};
use crate::units::Time;

/// Kinds of commands that are counted separately: reads, writes, and flushes with trims.
const SORTS: usize = 3;

/// Commands of one kind for one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// How many were answered.
    pub commands: u64,
    /// Blocks that they read or wrote.
    pub blocks: u64,
    /// Where their time went. The queue time is their wait for one another; in the rest the device
    /// was busy.
    pub spent: Breakdown,
    /// Work after the answer.
    pub behind: Behind,
}

/// Writes to the platter that are already answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// How long the head took until it was there.
    pub positioning_ns: Time,
    /// How long it then wrote.
    pub transfer_ns: Time,
}

impl Behind {
    /// Adds a write to the platter from `from` to `end`; it passed the head from `start` on.
    pub fn new(from: Time, start: Time, end: Time) -> Behind {
        let start = start.clamp(from, end.max(from));
        Behind { positioning_ns: start - from, transfer_ns: end.max(start) - start }
    }

    fn add(&mut self, other: Behind) {
        self.positioning_ns += other.positioning_ns;
        self.transfer_ns += other.transfer_ns;
    }

    /// How long it took in all.
    pub fn total_ns(&self) -> Time {
        self.positioning_ns + self.transfer_ns
    }
}

impl Entry {
    /// How long the device was busy with them.
    pub fn busy_ns(&self) -> Time {
        self.spent.total_ns() - self.spent.queue_ns + self.behind.total_ns()
    }

    /// Positioning: everything except transfer and overhead.
    pub fn positioning_ns(&self) -> Time {
        let Breakdown { seek_ns, head_switch_ns, rotation_ns, .. } = self.spent;
        seek_ns + head_switch_ns + rotation_ns + self.behind.positioning_ns
    }

    fn since(&self, before: &Entry) -> Entry {
        Entry {
            commands: self.commands - before.commands,
            blocks: self.blocks - before.blocks,
            spent: self.spent.since(&before.spent),
            behind: Behind {
                positioning_ns: self.behind.positioning_ns - before.behind.positioning_ns,
                transfer_ns: self.behind.transfer_ns - before.behind.transfer_ns,
            },
        }
    }
}

/// The account of a device from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    entries: [[Entry; SORTS]; Purpose::ALL.len()],
    /// Writes out of a cache, whose purposes are unknown.
    pub written_back: Entry,
}

fn sort_of(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush | Op::Trim => 2,
    }
}

impl Account {
    /// Adds an answered command that moved so many blocks.
    #[inline]
    pub fn add(&mut self, purpose: Purpose, op: Op, blocks: u32, spent: &Breakdown) {
        let entry = &mut self.entries[purpose as usize][sort_of(op)];
        entry.commands += 1;
        entry.blocks += if op == Op::Trim { 0 } else { u64::from(blocks) };
        entry.spent.add(spent);
    }

    /// Adds the later write to the platter of an answered write.
    pub fn add_behind(&mut self, purpose: Purpose, behind: Behind) {
        self.entries[purpose as usize][sort_of(Op::Write)].behind.add(behind);
    }

    /// Adds blocks that were written out of a cache.
    pub fn add_written_back(&mut self, blocks: u32, behind: Behind) {
        self.written_back.commands += 1;
        self.written_back.blocks += u64::from(blocks);
        self.written_back.behind.add(behind);
    }

    /// The entries, in the order of [`Purpose::ALL`]; for each purpose reads, then writes, then the
    /// rest: `"data reads"`.
    pub fn entries(&self) -> impl Iterator<Item = (Purpose, &'static str, &Entry)> {
        let sorts = ["reads", "writes", "flushes"];
        Purpose::ALL.into_iter().zip(&self.entries).flat_map(move |(purpose, entries)| {
            sorts.into_iter().zip(entries).map(move |(sort, entry)| (purpose, sort, entry))
        })
    }

    /// How long the device was busy. Simultaneous work counts twice.
    pub fn busy_ns(&self) -> Time {
        self.entries.iter().flatten().map(Entry::busy_ns).sum::<Time>()
            + self.written_back.busy_ns()
    }

    /// The difference to `before`, an earlier state of the same account.
    pub fn since(&self, before: &Account) -> Account {
        let written_back = self.written_back.since(&before.written_back);
        let mut since = Account { written_back, ..*self };
        let pairs = since.entries.iter_mut().flatten().zip(before.entries.iter().flatten());
        for (entry, before) in pairs {
            *entry = entry.since(before);
        }
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(queue_ns: Time, seek_ns: Time, transfer_ns: Time) -> Breakdown {
        Breakdown { queue_ns, seek_ns, transfer_ns, ..Breakdown::default() }
    }

    #[test]
    fn waiting_is_not_being_busy_and_a_trim_moves_nothing() {
        let mut account = Account::default();
        account.add(Purpose::Data, Op::Write, 8, &spent(100, 20, 3));
        account.add(Purpose::Data, Op::Trim, 50, &spent(0, 0, 1));
        let before = account;
        account.add(Purpose::Cleaning, Op::Read, 2, &spent(7, 0, 5));
        account.add(Purpose::Data, Op::Write, 1, &spent(0, 0, 2));
        account.add_behind(Purpose::Data, Behind::new(10, 13, 19));
        account.add_written_back(4, Behind::new(20, 15, 27));
        assert_eq!((account.busy_ns(), before.busy_ns()), (23 + 1 + 5 + 2 + 9 + 7, 24));
        let since = account.since(&before);
        assert_eq!((since.busy_ns(), since.written_back.positioning_ns()), (23, 0));
        let positioning = since.entries().map(|(_, _, entry)| entry.positioning_ns());
        assert_eq!(positioning.sum::<Time>(), 3);
        let there = |(purpose, sort, entry): (Purpose, _, &Entry)| {
            (entry.commands > 0).then_some((purpose, sort, entry.commands, entry.blocks))
        };
        let since: Vec<_> = since.entries().filter_map(there).collect();
        let expected = [(Purpose::Data, "writes", 1, 1), (Purpose::Cleaning, "reads", 1, 2)];
        assert_eq!(since, expected);
        let all: Vec<_> = account.entries().filter_map(there).collect();
        assert_eq!(all[..2], [(Purpose::Data, "writes", 2, 9), (Purpose::Data, "flushes", 1, 0)]);
    }
}
