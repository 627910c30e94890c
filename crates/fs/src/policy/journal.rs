//! Journals: each operation is one group of a log, and its blocks are written in place later.
//!
//! A change of metadata reaches its place after the group that holds it is durable. After a crash
//! the groups are applied again, in order and to the end, so the file system is what it was after
//! one of its operations. This is WAFS of paper 001, section 2.3, with a log of bytes that is only
//! redone, and groups in place of pairs of records (`docs/decisions`, "Log of a file system").
//!
//! - [`pins`]: sectors that are newer in the cache than in place.
//! - [`contents`]: content of files that goes before its group.
//! - [`open`]: space that is given up, and inodes without a name.
//! - [`start`]: where recovery begins, and how it moves.

pub(super) mod contents;
pub(super) mod open;
mod pins;
mod start;
#[cfg(test)]
mod tests;

use super::guard::Manifest;
use super::{Group, LogIo, Policy, PolicyKind, Rule, Settle};
use crate::core::page::{Mask, Page};
use crate::log::group::MOST_BYTES;
use crate::log::{GroupBuilder, LogWrite, Lsn, Record, Ring, Space};
use crate::tx::{BlockNo, Deferred};
use contents::Contents;
use open::{Open, space_of};
use pins::Pins;
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, SECONDS, Time};
use smallvec::SmallVec;
use start::Moving;
use std::collections::VecDeque;

/// A group goes out so long after its operation, if nothing asks for it before.
pub(super) const MOST_AGE: Time = SECONDS;

/// When content of files must be on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DataMode {
    /// Before the group of the operation that gave it its place.
    #[default]
    Ordered,
    /// At any time: after a crash a file may hold what its blocks held before.
    Writeback,
}

impl DataMode {
    /// All of them.
    pub const ALL: [DataMode; 2] = [DataMode::Ordered, DataMode::Writeback];

    /// The name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            DataMode::Ordered => "ordered",
            DataMode::Writeback => "writeback",
        }
    }
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// When content must be on the disk.
    pub data: DataMode,
    /// Calls that wait share a write of the log. Without it each call has one of its own.
    pub group_commit: bool,
    /// Sectors in use at which the start of the log moves; half of the ring if none is given.
    pub start_moves_at: Option<u64>,
}

impl Default for JournalOptions {
    fn default() -> JournalOptions {
        JournalOptions { data: DataMode::default(), group_commit: true, start_moves_at: None }
    }
}

/// A log in a new epoch, as recovery leaves it.
#[derive(Clone, Debug)]
pub struct OpenLog {
    /// Its writer.
    pub ring: Ring,
    /// The first block of its range on the volume.
    pub at: BlockNr,
    /// Space that operations gave up and that is not free in the maps. The first group of the
    /// epoch names it.
    pub intents: Vec<Space>,
    /// Inodes without a name, in the same way.
    pub orphans: Vec<u32>,
}

/// The end of a group that is not durable, and its start.
#[derive(Clone, Copy, Debug)]
struct Undurable {
    lsn: Lsn,
    end: Lsn,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Journal {
    kind: PolicyKind,
    options: JournalOptions,
    at: BlockNr,
    ring: Ring,
    pins: Pins,
    contents: Contents,
    open: Open,
    moving: Moving,
    /// Groups that are not durable, in order.
    undurable: VecDeque<Undurable>,
    /// Behind the last group.
    end: Lsn,
    /// The log is to be durable up to here.
    wanted: Lsn,
    /// Writes of sectors in flight.
    in_flight: usize,
    /// When the log is forced.
    due: Option<Time>,
    /// Blocks that are to be written in place for the start to move.
    hurried: Vec<BlockNo>,
    /// The log comes to its end.
    ends: bool,
    /// A group was too long, or found no room: nothing more can be logged.
    is_lost: bool,
    counts: Counts,
}

/// What the log has done.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    groups: u64,
    bytes: u64,
    forces: u64,
    moves: u64,
}

impl Journal {
    /// A policy of this kind over a log.
    ///
    /// # Panics
    /// If the policy keeps no log.
    pub fn new(kind: PolicyKind, options: JournalOptions, log: OpenLog) -> Journal {
        assert!(kind.is_logged(), "{} keeps no log", kind.name());
        let OpenLog { mut ring, at, intents, orphans } = log;
        if kind.counts_named_only() && !planted(PlantedBug::UnnamedCounts) {
            ring.count_named_only();
        }
        let end = ring.end();
        Journal {
            kind,
            options,
            at,
            pins: Pins::default(),
            contents: Contents::default(),
            open: Open::recovered(ring.start(), &intents, &orphans),
            moving: Moving::default(),
            undurable: VecDeque::new(),
            end,
            wanted: ring.durable(),
            in_flight: 0,
            due: None,
            hurried: Vec::new(),
            ends: false,
            is_lost: false,
            counts: Counts::default(),
            ring,
        }
    }

    /// Adds what the rules say to the records of a group.
    fn add_rules(&self, group: &mut GroupBuilder, rules: &[Rule]) -> bool {
        let mut fits = true;
        for rule in rules {
            let record = match *rule {
                Rule::Free { .. } if planted(PlantedBug::IntentForgotten) => continue,
                Rule::Orphan(_) if planted(PlantedBug::OrphanForgotten) => continue,
                Rule::Free { freed, .. } => {
                    let (what, first, count) = space_of(freed.what);
                    Record::Free { what, first, count }
                }
                Rule::Freed(piece) => {
                    let (what, first, count) = space_of(piece);
                    Record::Freed { what, first, count }
                }
                Rule::Orphan(ino) => Record::Orphan(ino),
                Rule::Adopted(ino) => Record::Adopted(ino),
                Rule::Guard { .. }
                | Rule::Forget(_)
                | Rule::AtOnce(_)
                | Rule::Content { .. }
                | Rule::Cut(_) => {
                    continue;
                }
            };
            fits &= group.push(record);
        }
        fits
    }

    /// Notes what the rules open and close, for a group that has its place.
    fn note_rules(&mut self, rules: &[Rule], lsn: Lsn, end: Lsn) {
        let mut given_up = Vec::new();
        for rule in rules {
            match *rule {
                Rule::Free { freed, .. } => given_up.push(freed.what),
                Rule::Freed(piece) => self.open.freed(piece, end),
                Rule::Orphan(ino) => self.open.orphan(ino, lsn),
                Rule::Adopted(ino) => self.open.adopt(ino, end),
                Rule::Forget(field) => {
                    let (at, length) = (usize::from(field.at), usize::from(field.length));
                    let sectors = crate::core::page::mask(at, length);
                    self.pins.forget(field.block, sectors);
                    self.contents.forget(field.block, sectors);
                }
                Rule::Guard { .. } | Rule::AtOnce(_) | Rule::Content { .. } | Rule::Cut(_) => {}
            }
        }
        self.open.give_up(given_up, lsn, end);
        // A recovery must find room for what is open.
        self.ring.carries(self.open.checkpoint_bytes());
    }

    fn append(&mut self, group: GroupBuilder, now: Time) -> Option<Undurable> {
        let length = group.len();
        let Ok(placed) = self.ring.append(group) else {
            self.is_lost = true;
            return None;
        };
        let one = Undurable { lsn: placed.lsn, end: placed.end };
        self.undurable.push_back(one);
        self.end = placed.end;
        self.due.get_or_insert(now + MOST_AGE);
        self.counts.groups += 1;
        self.counts.bytes += length as u64;
        Some(one)
    }

    /// Forgets the groups that are durable by now. Gives up to where the log is.
    fn log_is_durable(&mut self) -> Lsn {
        let durable = self.ring.durable();
        while self.undurable.front().is_some_and(|one| one.end <= durable) {
            self.undurable.pop_front();
        }
        durable
    }

    /// The next sectors of the log, if they are to go out.
    fn next_sectors(&mut self) -> Option<LogWrite> {
        let hold = self.contents.hold().filter(|_| Edge::LogDataFirst.stands());
        let waits = self.options.group_commit && self.in_flight > 0;
        if self.wanted > self.ring.on_disk() && !waits {
            // Sectors that cannot go out yet take more groups.
            let to = hold.map_or(self.end, |hold| Lsn::new(hold.number(), 0));
            self.ring.force(to);
        }
        let write = self.ring.next_write(hold)?;
        self.in_flight += 1;
        self.counts.forces += 1;
        Some(write)
    }
}

impl Policy for Journal {
    fn kind(&self) -> PolicyKind {
        self.kind
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn takes_groups(&self) -> bool {
        true
    }

    fn defers_frees(&self) -> bool {
        true
    }

    fn answers_late(&self) -> bool {
        self.kind.answers_when_durable()
    }

    fn group(&mut self, group: &Group<'_>, now: Time) -> Settle {
        let mut builder = GroupBuilder::new(0, 0, group.time);
        let mut fits = true;
        for (index, edit) in group.edits.iter().enumerate() {
            if planted(PlantedBug::GroupSplit) && index > 0 && index == group.edits.len() / 2 {
                let half = std::mem::replace(&mut builder, GroupBuilder::new(0, 0, group.time));
                let _ = self.append(half, now);
            }
            fits &= builder.push(edit.record());
        }
        fits &= self.add_rules(&mut builder, group.rules);
        if builder.is_empty() {
            return Settle::Now;
        }
        self.is_lost |= !fits;
        let Some(Undurable { lsn, end }) = self.append(builder, now) else { return Settle::Now };
        self.note_rules(group.rules, lsn, end);
        for &(block, sectors) in &group.sectors {
            self.pins.pin(block, sectors, lsn, end);
        }
        for &(block, sectors, always) in &group.contents {
            let always = always && !planted(PlantedBug::MovedTailLate);
            if always || self.options.data == DataMode::Ordered {
                self.contents.wait(lsn, block, sectors);
            }
        }
        let at_once = group.rules.iter().any(|rule| matches!(rule, Rule::AtOnce(_)));
        if at_once { Settle::Logged(end) } else { Settle::Now }
    }

    fn image(&mut self, block: BlockNo, sectors: Mask, _page: &mut Page) -> (Manifest, Mask) {
        let mut brings = SmallVec::new();
        brings.extend(self.pins.write(block, sectors).map(super::Brings::Home));
        for (lsn, count) in self.contents.write(block, sectors) {
            brings.push(super::Brings::Content(lsn, count));
        }
        (Manifest::of(brings), 0)
    }

    fn settled(&mut self, manifest: Manifest) {
        for one in manifest.brings {
            match one {
                super::Brings::Home(first) => self.pins.written(first),
                super::Brings::Content(lsn, sectors) => self.contents.written(lsn, sectors),
            }
        }
    }

    fn before(&self, block: BlockNo, sectors: Mask) -> Option<Lsn> {
        let end = self.pins.end_of(block, sectors)?;
        Edge::LogHomeAfter.blocks(end > self.ring.durable()).then_some(end)
    }

    fn held(&self, block: BlockNo) -> Mask {
        if Edge::LogHomeAfter.stands() { self.pins.behind(block, self.ring.durable()) } else { 0 }
    }

    fn force(&mut self, to: Lsn) {
        self.wanted = self.wanted.max(to);
    }

    fn take_held_up(&mut self) -> Vec<BlockNo> {
        match self.wanted > self.ring.durable() {
            true => self.contents.take_new(self.ring.write_end(self.wanted)),
            false => Vec::new(),
        }
    }

    fn log_end(&self) -> Lsn {
        self.end
    }

    fn log_due(&self) -> Option<Time> {
        self.due
    }

    fn log_durable(&self) -> Lsn {
        self.ring.durable()
    }

    fn use_parts(&mut self) {
        self.ring.use_parts();
    }

    fn log_write(&mut self, now: Time) -> Option<LogIo> {
        if self.is_lost {
            return None;
        }
        if self.due.is_some_and(|due| due <= now) {
            self.wanted = self.end;
            self.due = None;
        }
        if let Some(superblock) = self.next_superblock(now) {
            let at = self.at + superblock.block();
            return Some(LogIo::Superblock { at, bytes: superblock.encode() });
        }
        let write = self.next_sectors()?;
        if self.wanted >= self.end {
            self.due = None;
        }
        Some(LogIo::Sectors { at: self.at, write })
    }

    fn log_written(&mut self, number: u64) -> Lsn {
        self.in_flight -= 1;
        self.ring.written(number);
        self.log_is_durable()
    }

    fn superblock_written(&mut self) -> Lsn {
        self.superblock_is_durable();
        self.log_is_durable()
    }

    fn take_homeward(&mut self) -> Vec<BlockNo> {
        self.take_hurried()
    }

    fn waits_for_flush(&self) -> bool {
        let held = self.wanted > self.ring.durable() && self.contents.hold().is_some();
        held || self.wants_space()
    }

    fn lacks_room(&self) -> bool {
        Edge::LogReserve.blocks(!self.ring.has_room(MOST_BYTES + self.checkpoint_cost()))
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn end_log(&mut self) {
        self.ends = true;
        self.wanted = self.end;
    }

    fn has_ended(&self) -> bool {
        self.moving == Moving::Ended
    }

    fn take_free(&mut self) -> Option<Vec<Deferred>> {
        self.open.take_free(self.ring.durable())
    }

    fn frees(&self) -> usize {
        self.open.pieces()
    }

    fn load(&self) -> usize {
        self.open.pieces()
    }

    fn log_stats(&self) -> Vec<(&'static str, u64)> {
        let Counts { groups, bytes, forces, moves } = self.counts;
        vec![
            ("log sectors", self.ring.shape().sectors()),
            ("log sectors used", self.ring.used_sectors()),
            ("log groups", groups),
            ("log bytes", bytes),
            ("log writes", forces),
            ("log start moved", moves),
            ("sectors not in place", self.pins.len() as u64),
        ]
    }
}
