//! Reports the time of the disks: the purposes they were busy for, and how long they were idle.
//!
//! A latency tells how long a client waited. This report tells which requests it waited for.

use seekless_engine::account::{Account, Entry};
use seekless_engine::io::Purpose;
use seekless_engine::units::{BLOCK_BYTES, SECONDS, Time};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Time of a disk for one kind of commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Purpose and direction: `"cleaning reads"`.
    pub what: String,
    /// How many commands.
    pub commands: u64,
    /// What they moved, in MiB.
    pub mebibytes: f64,
    /// How long the disk was busy with them.
    pub seconds: f64,
    /// Of that, moving the arm and waiting for the platter.
    pub positioning_seconds: f64,
    /// Of that, after the answer.
    pub later_seconds: f64,
}

/// Where the time of one disk went in the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskTime {
    /// The kinds of commands that occurred.
    pub spent: Vec<Spent>,
    /// The rest, in which the disk was idle or read ahead. Zero if simultaneous work adds up to
    /// more than the time.
    pub idle_seconds: f64,
}

/// Writes out of a cache that does not record purposes.
const WRITTEN_BACK: &str = "written back";

fn seconds(ns: Time) -> f64 {
    ns as f64 / SECONDS as f64
}

fn spent(what: String, entry: &Entry) -> Option<Spent> {
    (entry.commands > 0).then(|| Spent {
        what,
        commands: entry.commands,
        mebibytes: entry.blocks as f64 * BLOCK_BYTES as f64 / f64::from(1 << 20),
        seconds: seconds(entry.busy_ns()),
        positioning_seconds: seconds(entry.positioning_ns()),
        later_seconds: seconds(entry.behind.total_ns()),
    })
}

impl DiskTime {
    /// Splits the time of a disk by its account.
    pub fn new(account: &Account, elapsed: Time) -> DiskTime {
        let entries = account.entries();
        let own = entries.filter_map(|(purpose, sort, entry)| {
            spent(format!("{} {sort}", purpose.name()), entry)
        });
        let all = own.chain(spent(WRITTEN_BACK.to_owned(), &account.written_back)).collect();
        DiskTime { spent: all, idle_seconds: seconds(elapsed.saturating_sub(account.busy_ns())) }
    }

    /// How long it was busy.
    pub fn busy_seconds(&self) -> f64 {
        // The sum of no numbers is -0.
        self.spent.iter().fold(0.0, |sum, one| sum + one.seconds)
    }

    /// All of its time.
    fn whole_seconds(&self) -> f64 {
        (self.busy_seconds() + self.idle_seconds).max(f64::MIN_POSITIVE)
    }
}

/// The time of several disks taken together, in the order of the purposes.
fn together(disks: &[DiskTime]) -> DiskTime {
    let mut all: Vec<Spent> = Vec::new();
    for one in disks.iter().flat_map(|disk| &disk.spent) {
        match all.iter_mut().find(|sum| sum.what == one.what) {
            None => all.push(one.clone()),
            Some(sum) => {
                sum.commands += one.commands;
                sum.mebibytes += one.mebibytes;
                sum.seconds += one.seconds;
                sum.positioning_seconds += one.positioning_seconds;
                sum.later_seconds += one.later_seconds;
            }
        }
    }
    let rank = |one: &Spent| Purpose::ALL.iter().position(|of| one.what.starts_with(of.name()));
    all.sort_by_key(|one| rank(one).unwrap_or(Purpose::ALL.len()));
    let idle_seconds = disks.iter().map(|disk| disk.idle_seconds).sum();
    DiskTime { spent: all, idle_seconds }
}

/// The time of all these disks as a table of fixed width. For each kind of command: busy time, the
/// share of positioning, and the share after the answer.
pub fn table(disks: &[DiskTime]) -> String {
    let all = together(disks);
    let title = if disks.len() > 1 { "time of the disks" } else { "time of the disk" };
    let mut out = format!(
        "{title:<20}{:>10}{:>11}{:>11}{:>8}{:>13}{:>8}\n",
        "commands", "MiB", "seconds", "share", "positioning", "later"
    );
    let whole = all.whole_seconds();
    for one in &all.spent {
        let Spent { what, commands, mebibytes, seconds, .. } = one;
        let of_it = |part: f64| part / seconds.max(f64::MIN_POSITIVE) * 100.0;
        let (positioning, later) = (of_it(one.positioning_seconds), of_it(one.later_seconds));
        let share = seconds / whole * 100.0;
        writeln!(
            out,
            "{what:<20}{commands:>10}{mebibytes:>11.1}{seconds:>11.2}{share:>7.1}%\
             {positioning:>12.1}%{later:>7.1}%"
        )
        .expect("a string takes all that is written to it");
    }
    let share = all.idle_seconds / whole * 100.0;
    writeln!(out, "{:<20}{:>32.2}{share:>7.1}%", "idle", all.idle_seconds)
        .expect("a string takes all that is written to it");
    if disks.len() > 1 {
        let share = |disk: &DiskTime| disk.busy_seconds() / disk.whole_seconds() * 100.0;
        let shares: Vec<_> = disks.iter().map(|disk| format!("{:.1} %", share(disk))).collect();
        writeln!(out, "{:<20}{}", "busy, each", shares.join("  "))
            .expect("a string takes all that is written to it");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::account::Behind;
    use seekless_engine::io::{Breakdown, Op};

    fn disk(seek_ns: Time, elapsed: Time) -> DiskTime {
        let mut account = Account::default();
        let spent = Breakdown { queue_ns: SECONDS, seek_ns, ..Breakdown::default() };
        account.add(Purpose::Cleaning, Op::Write, 512, &spent);
        account.add_behind(Purpose::Cleaning, Behind::new(0, 0, SECONDS));
        DiskTime::new(&account, elapsed)
    }

    #[test]
    fn what_a_disk_is_not_busy_with_is_idleness() {
        let one = disk(3 * SECONDS, 10 * SECONDS);
        assert_eq!((one.busy_seconds(), one.idle_seconds), (4.0, 6.0));
        let [Spent { what, commands: 1, mebibytes, .. }] = &one.spent[..] else {
            panic!("one sort of commands: {one:?}");
        };
        assert_eq!((what.as_str(), *mebibytes), ("cleaning writes", 2.0));
        // Simultaneous work: more busy time than time.
        assert_eq!(disk(SECONDS, SECONDS).idle_seconds, 0.0);
        let unused = DiskTime::new(&Account::default(), SECONDS);
        assert!(unused.busy_seconds().is_sign_positive(), "not printed as -0");
    }

    #[test]
    fn disks_are_added_up_and_each_is_told_of() {
        let table = table(&[disk(3 * SECONDS, 10 * SECONDS), disk(0, 10 * SECONDS)]);
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        let busy = ["cleaning", "writes", "2", "4.0", "5.00", "25.0%", "60.0%", "40.0%"];
        assert_eq!(lines[1], busy);
        assert_eq!(lines[2], ["idle", "15.00", "75.0%"]);
        assert_eq!(lines[3][2..], ["40.0", "%", "10.0", "%"]);
    }
}
