//! Bringing misplaced blocks home: out of the table of exceptions, in volumes whose table has one.
//!
//! It is done a chunk at a time, while no client waits or when there is no room for more exceptions
//! and a write would need some. The blocks of a chunk are read where they are and written home,
//! each time in the order in which the head gets there, each as a transaction of its own. Only when
//! all are there does the table say so, and their old places wait as those of any superseded block
//! do. Until then no operation changes the table: writes wait, reads do not.
//!
//! Blocks are moved only when everything that clients have written is durable: a block of a
//! transaction that is not might survive a crash in its new place, and the transaction not.

use super::route::arrange;
use super::table::Entry;
use super::write::{Commands, Transaction, labelled};
use super::{FETCH, Loge, RETURN};
use crate::eager::Mapped;
use crate::eager::commit::Batch;
use crate::eager::read::verify;
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io, IoError, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, Time};
use smallvec::smallvec;
use std::collections::BTreeSet;

/// Most blocks of a chunk while no client waits, and when one does.
const CHUNK_BLOCKS: usize = 8;
const URGENT_BLOCKS: usize = 32;
/// Entries of the table that a chunk is chosen from.
const LOOKS: usize = 512;

/// A block on its way home.
#[derive(Clone, Debug)]
struct Return {
    at: BlockNr,
    entry: Entry,
    home: u32,
    data: Option<Data>,
}

/// State of what brings blocks home.
#[derive(Clone, Debug, Default)]
pub(super) struct Relocation {
    chunk: Vec<Return>,
    /// Commands of the chunk that have not been answered; first those that read, then those that
    /// write.
    reads_left: usize,
    writes_left: u32,
    failed: Option<IoError>,
    transactions: Vec<Transaction>,
    /// A client waits for room.
    urgent: bool,
    /// Where to look next in the table of exceptions.
    cursor: usize,
    /// What things were like when there was nothing to bring home.
    in_vain: Option<(u64, u64)>,
    /// Blocks that cannot be read: they stay where they are.
    stuck: BTreeSet<BlockNr>,
    due: Option<Time>,
    /// The last commit that has something in it that clients changed.
    changed_in: u64,
    /// Blocks brought home.
    pub blocks: u64,
}

impl Relocation {
    /// True while a chunk is on its way.
    pub fn is_active(&self) -> bool {
        !self.chunk.is_empty()
    }

    /// When to have another look.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Clients have changed something, which commit `number` makes last.
    pub fn changed(&mut self, number: u64) {
        self.changed_in = number;
    }

    /// True if all that clients have changed is durable when commit `durable` is.
    pub fn may_move(&self, durable: u64) -> bool {
        self.changed_in <= durable || planted(PlantedBug::HomedEarly)
    }

    /// A client waits for room in the table.
    pub fn urge(&mut self) {
        self.urgent = true;
    }

    /// True if there was nothing to bring home when things were like that.
    pub fn is_in_vain(&self, state: (u64, u64)) -> bool {
        self.in_vain == Some(state)
    }
}

impl Loge {
    /// Begins a chunk if it is time for one, or has the one under way written. True if a client
    /// waits for room and there is nothing to bring home.
    pub(super) fn advance_relocation(&mut self, cx: &mut Cx<'_>) -> bool {
        self.relocation.due = None;
        if self.relocation.is_active() {
            if self.relocation.reads_left == 0 && self.relocation.writes_left == 0 {
                self.write_home(cx);
            }
            return false;
        }
        let urgent = std::mem::take(&mut self.relocation.urgent);
        let exceptions = self.table.as_compact().map_or(0, |compact| compact.exceptions().len());
        let refused = self.requests.failed().is_some() || self.requests.is_read_only();
        let busy = !self.writes.is_empty() || (self.commits.is_serial() && self.commits.is_busy());
        let durable = self.commits.durable();
        if exceptions == 0 || refused || busy || !self.relocation.may_move(durable) {
            return false;
        }
        let state = (self.next_stamp, durable);
        if urgent {
            let begun = self.begin_chunk(URGENT_BLOCKS, cx);
            if !begun {
                self.relocation.in_vain = Some(state);
            }
            return !begun;
        }
        let idle = self.requests.is_idle() && self.requests.is_running();
        if idle && !self.relocation.is_in_vain(state) {
            let due = cx.idle_since.unwrap_or(cx.now) + super::idle::REST;
            if cx.now < due {
                self.relocation.due = Some(due);
            } else if !self.begin_chunk(CHUNK_BLOCKS, cx) {
                self.relocation.in_vain = Some(state);
            }
        }
        false
    }

    /// Takes homes for some blocks and reads them. False if there is none that can go home.
    fn begin_chunk(&mut self, most: usize, cx: &mut Cx<'_>) -> bool {
        let Some(compact) = self.table.as_compact() else { return false };
        let mut found = compact.exceptions().some(&mut self.relocation.cursor, LOOKS);
        found.retain(|(at, _)| !self.relocation.stuck.contains(at));
        // Homes of neighbouring blocks are neighbours: the tightest group takes the shortest way.
        found.sort_unstable();
        let size = most.min(found.len());
        let spread = |first: &usize| found[first + size - 1].0 - found[*first].0;
        let tightest = (0..=found.len() - size).filter(|_| size > 0).min_by_key(spread);
        let from = tightest.unwrap_or(0);
        // Those whose homes are not free yet are made up for by the ones behind.
        found.rotate_left(from);
        for (at, _) in found {
            if self.relocation.chunk.len() == most {
                break;
            }
            let entry = self.table.get(at);
            if let Some(home) = self.take_regular(at) {
                self.relocation.chunk.push(Return { at, entry, home, data: None });
            }
        }
        let chunk = &self.relocation.chunk;
        let mut order: Vec<usize> = (0..chunk.len()).collect();
        arrange(&mut order, |&index| chunk[index].entry.place(), cx);
        self.relocation.reads_left = order.len();
        for index in order {
            let place = BlockNr::from(self.relocation.chunk[index].entry.place());
            cx.send(0, Io::read(FETCH | index as u64, place, 1).for_purpose(Purpose::Ordering));
        }
        self.relocation.is_active()
    }

    /// A block of the chunk has been read.
    pub(super) fn fetched(&mut self, index: usize, done: Done) {
        self.relocation.reads_left -= 1;
        let (sums, one) = (self.sums, &mut self.relocation.chunk[index]);
        let whole = done.outcome.and_then(|data| verify(sums, &[one.entry], data, one.at));
        match whole {
            Ok(data) => one.data = Some(data),
            // A client that asks for it will be told.
            Err(_) => {
                self.relocation.stuck.insert(one.at);
            }
        }
    }

    /// All of the chunk has been read: writes it home.
    fn write_home(&mut self, cx: &mut Cx<'_>) {
        let mut commands = Commands::of(Purpose::Ordering);
        let mut chunk = std::mem::take(&mut self.relocation.chunk);
        arrange(&mut chunk, |one| one.home, cx);
        for one in &chunk {
            let Some(data) = &one.data else {
                self.free.release(one.home);
                continue;
            };
            let mut transaction = Transaction::new(smallvec![(one.at, 1)], self.new_stamp());
            self.in_flight.insert(transaction.stamp);
            let piece = data.block(0);
            self.store_at(&mut transaction, one.at, piece, (0, 0), one.home, &mut commands);
            self.relocation.transactions.push(transaction);
        }
        self.relocation.writes_left = commands.send(RETURN, cx, labelled(self.areas.headers));
        if self.relocation.writes_left > 0 {
            self.relocation.chunk = chunk;
        } else {
            // None of them could be read: there may be others.
            self.relocation.due = Some(cx.now);
        }
    }

    /// A write of the chunk has been answered.
    pub(super) fn returned(&mut self, done: Done, cx: &mut Cx<'_>) {
        self.relocation.writes_left -= 1;
        if let Err(error) = done.outcome {
            self.relocation.failed.get_or_insert(error);
        }
        if self.relocation.writes_left > 0 {
            return;
        }
        self.relocation.chunk.clear();
        if let Some(error) = self.relocation.failed.take() {
            for transaction in std::mem::take(&mut self.relocation.transactions) {
                self.in_flight.remove(&transaction.stamp);
            }
            self.requests.fail_volume(error, cx);
            return;
        }
        self.install_chunk(cx);
        if self.commits.is_serial() && self.commits.has_changes() {
            self.begin_commit(Batch::default(), Commands::of(Purpose::Ordering), cx);
        }
    }

    /// The blocks of the chunk are at home from now on.
    fn install_chunk(&mut self, cx: &Cx<'_>) {
        let changed_in = self.relocation.changed_in;
        for transaction in std::mem::take(&mut self.relocation.transactions) {
            self.in_flight.remove(&transaction.stamp);
            self.install(&transaction, cx, &mut |_, _| {});
            self.relocation.blocks += 1;
        }
        self.relocation.changed_in = changed_in;
    }
}
