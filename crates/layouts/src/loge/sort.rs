//! Block sorting and cluster recognition (section 8.1 of the paper): while no client waits, blocks
//! that belong together are put back beside each other, near where they would lie if each block
//! had a fixed place.
//!
//! What belongs together is a *cluster* that was read in succession more than once, in the order
//! in which it was read, and else as many neighbouring blocks of the volume as a track has. A group
//! that lies scattered gets the emptiest track around its place: the blocks in use there are read
//! and written elsewhere, the group is read run by run and written in order. Each step is one read
//! or one commit of a few blocks, and a client that comes waits for one of them. A block that is
//! moved is a transaction of its own: nothing but its place changes.

use super::table::Entry;
use super::write::{Commands, Transaction};
use super::{Loge, SORT};
use crate::eager::Mapped;
use crate::eager::commit::Batch;
use crate::eager::read::verify;
use seekless_engine::arm::Track;
use seekless_engine::data::{Data, Piece};
use seekless_engine::io::{Done, Io, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::units::BlockNr;
use smallvec::smallvec;
use std::collections::{BTreeMap, BTreeSet};

/// Most blocks that are read at once, and that are moved out of the way in one commit.
const CHUNK_BLOCKS: usize = 16;
/// Groups looked at, and tracks, before the layout has another look for clients.
const LOOKS: u32 = 64;
/// Free blocks that sorting leaves alone.
const RESERVE: u64 = 32;
/// Blocks of which it is remembered what was read after them.
const MOST_STEPS: usize = 1 << 16;
/// So many times two blocks are read one after the other before they belong together.
const CONVINCED: u8 = 2;
/// Rounds through a volume without writes.
const MOST_ROUNDS: u32 = 2;
/// Most blocks of a cluster.
const MOST_OF_CLUSTER: usize = 64;

/// A block and where it lay when it was looked at.
#[derive(Clone, Copy, Debug)]
struct Move {
    at: BlockNr,
    entry: Entry,
}

/// A group that is being sorted.
#[derive(Clone, Debug)]
struct Job {
    /// What is still to be read of it.
    left: Vec<BlockNr>,
    track: Track,
    /// Free slots of the track that are kept for it, as blocks of the device, in order.
    kept: Vec<u32>,
    gathered: Vec<(Move, Piece)>,
    evicting: bool,
}

/// What is read after what.
#[derive(Clone, Debug, Default)]
struct Steps {
    enabled: bool,
    last: Option<BlockNr>,
    /// The block read next, and how often it was.
    next: BTreeMap<BlockNr, (BlockNr, u8)>,
    /// First blocks of pairs that have become convincing and have not been looked at.
    fresh: BTreeSet<BlockNr>,
}

/// State of the sorter.
#[derive(Clone, Debug, Default)]
pub(super) struct Sorter {
    sorts: bool,
    steps: Steps,
    job: Option<Job>,
    /// Blocks on their way to memory; a command is in flight.
    reading: Vec<Move>,
    in_flight: bool,
    arrived: Option<(Vec<Move>, Data)>,
    /// First block of the group that is looked at next.
    next: BlockNr,
    /// Tracks that were written in order.
    sorted: BTreeSet<Track>,
    /// Blocks that clients had written when this round through the volume began; a round in which
    /// they wrote nothing and nothing was found is the last one.
    round_at: u64,
    found: bool,
    rounds: u32,
    is_over: bool,
    pub blocks_sorted: u64,
    pub clusters: u64,
}

impl Sorter {
    /// One that has seen nothing of the volume.
    pub fn new(sorts: bool, recognises: bool) -> Sorter {
        let steps = Steps { enabled: recognises, ..Steps::default() };
        Sorter { sorts, steps, ..Sorter::default() }
    }

    /// True if it does anything at all.
    pub fn is_enabled(&self) -> bool {
        self.sorts || self.steps.enabled
    }

    /// True while a command of it is in flight.
    pub fn is_reading(&self) -> bool {
        self.in_flight
    }

    /// True if there may be something to sort after clients have written so many blocks.
    pub fn has_work(&self, written: u64) -> bool {
        let changed = self.round_at != written || !self.is_over;
        self.job.is_some() || !self.steps.fresh.is_empty() || (self.sorts && changed)
    }

    /// A client reads `count` blocks.
    pub fn read(&mut self, at: BlockNr, count: u32) {
        if self.steps.enabled {
            self.steps.read(at, count);
        }
    }
}

impl Steps {
    fn read(&mut self, at: BlockNr, count: u32) {
        if let Some(last) = self.last.filter(|&last| last + 1 != at && last != at) {
            let full = self.next.len() >= MOST_STEPS;
            if full && !self.next.contains_key(&last) {
                // A block that comes back proves it again.
                self.next.clear();
                self.fresh.clear();
            }
            let step = self.next.entry(last).or_insert((at, 0));
            if step.0 == at {
                step.1 = step.1.saturating_add(1);
                if step.1 == CONVINCED {
                    self.fresh.insert(last);
                }
            } else if step.1 == 0 {
                *step = (at, 1);
            } else {
                step.1 -= 1;
            }
        }
        self.last = Some(at + u64::from(count) - 1);
    }

    /// The blocks of a cluster around a convincing pair, in the order in which they are read.
    fn cluster(&mut self) -> Option<Vec<BlockNr>> {
        let targets: BTreeSet<BlockNr> =
            self.fresh.iter().filter_map(|at| Some(self.next.get(at)?.0)).collect();
        let begins = self.fresh.iter().find(|at| !targets.contains(at));
        let first = begins.or(self.fresh.first()).copied()?;
        self.fresh.remove(&first);
        let mut blocks = vec![first];
        let mut at = first;
        while blocks.len() < MOST_OF_CLUSTER
            && let Some(&(next, times)) = self.next.get(&at)
            && times >= CONVINCED
            && !blocks.contains(&next)
        {
            self.fresh.remove(&next);
            blocks.push(next);
            at = next;
        }
        Some(blocks)
    }
}

impl Loge {
    /// A client is back: what is kept for a group is given up.
    pub(super) fn abandon_sorting(&mut self) {
        self.sorter.reading.clear();
        self.sorter.arrived = None;
        if let Some(job) = self.sorter.job.take() {
            self.give_back(&job.kept);
        }
    }

    fn give_back(&mut self, kept: &[u32]) {
        for &place in kept {
            self.free.release(place);
        }
    }

    /// Takes one step. Nothing else is in flight, and no client waits.
    pub(super) fn advance_sorter(&mut self, cx: &mut Cx<'_>) {
        if let Some((moves, data)) = self.sorter.arrived.take() {
            self.take_arrived(&moves, &data, cx);
            return;
        }
        let Some(mut job) = self.sorter.job.take() else {
            if self.find_job() || self.sorter.has_work(self.counters.client_blocks) {
                self.look_again(cx);
            }
            return;
        };
        let at_track = u64::from(self.free.slots(job.track)) + RESERVE;
        if self.free.free() + job.kept.len() as u64 <= at_track {
            self.give_back(&job.kept);
            self.look_again(cx);
            return;
        }
        if job.evicting {
            self.keep_free_slots(&mut job);
            let first = self.occupants(job.track);
            job.evicting = !first.is_empty();
            if job.evicting {
                self.send_read(first, cx);
                self.sorter.job = Some(job);
                return;
            }
        }
        if let Some(run) = self.next_run(&mut job) {
            self.send_read(run, cx);
            self.sorter.job = Some(job);
        } else {
            self.write_group(job, cx);
        }
    }

    fn send_read(&mut self, moves: Vec<Move>, cx: &mut Cx<'_>) {
        let (first, last) = (moves[0].entry.place(), moves[moves.len() - 1].entry.place());
        self.sorter.reading = moves;
        self.sorter.in_flight = true;
        cx.send(
            0,
            Io::read(SORT, BlockNr::from(first), last - first + 1).for_purpose(Purpose::Ordering),
        );
    }

    /// Takes what has become free on the track.
    fn keep_free_slots(&mut self, job: &mut Job) {
        let mut slot = 0;
        while let Some(free) = self.free.next_free_ahead(job.track, slot) {
            self.free.take_slot(job.track, free);
            job.kept.push(self.free.block(job.track, free));
            slot = free + 1;
        }
        job.kept.sort_unstable();
    }

    /// The first blocks in use on a track, as far as it is known whose they are.
    fn occupants(&self, track: Track) -> Vec<Move> {
        let places = (0..self.free.slots(track)).map(|slot| self.free.block(track, slot));
        let owned = places.filter_map(|place| self.table.owner(place));
        owned.take(CHUNK_BLOCKS / 2).map(|at| Move { at, entry: self.table.get(at) }).collect()
    }

    /// The next blocks of the group that lie behind each other; `None` if all have been read.
    fn next_run(&self, job: &mut Job) -> Option<Vec<Move>> {
        let mut moves: Vec<Move> = Vec::new();
        while let Some(&at) = job.left.first() {
            let entry = self.table.get(at);
            let behind = moves.last().is_none_or(|last| last.entry.place() + 1 == entry.place());
            if entry.is_mapped() && (!behind || moves.len() == CHUNK_BLOCKS) {
                break;
            }
            job.left.remove(0);
            if entry.is_mapped() {
                moves.push(Move { at, entry });
            }
        }
        (!moves.is_empty()).then_some(moves)
    }

    /// Blocks have been read.
    pub(super) fn sorter_read(&mut self, done: Done) {
        self.sorter.in_flight = false;
        let moves = std::mem::take(&mut self.sorter.reading);
        match done.outcome {
            Ok(data) if !moves.is_empty() => self.sorter.arrived = Some((moves, data)),
            // What cannot be read stays where it is; a client that asks for it will be told.
            _ => self.abandon_sorting(),
        }
    }

    /// Moves blocks out of the way, or gathers them.
    fn take_arrived(&mut self, moves: &[Move], data: &Data, cx: &mut Cx<'_>) {
        let Some(mut job) = self.sorter.job.take() else { return };
        let first = moves[0];
        let piece = |one: &Move| data.block(one.entry.place() - first.entry.place());
        let read: Vec<_> = moves.iter().map(|one| (*one, piece(one))).collect();
        if job.evicting {
            self.sorter.job = Some(job);
            let mut batch = Batch::default();
            let mut commands = Commands::of(Purpose::Ordering);
            for (one, piece) in read {
                if self.is_as_it_was(&one, &piece) {
                    let place = self.place(one.at, 1, true, cx);
                    self.rehome(&one, piece, place, &mut batch, &mut commands, cx);
                }
            }
            self.commit_moves(batch, commands, cx);
        } else {
            job.gathered.extend(read);
            self.sorter.job = Some(job);
            self.look_again(cx);
        }
    }

    /// True if a block lies where it did, and is not damaged. Damage stays where it is.
    fn is_as_it_was(&self, one: &Move, piece: &Piece) -> bool {
        let same = self.table.get(one.at) == one.entry;
        same && verify(self.sums, &[one.entry], Data::block_of(piece.body.clone()), one.at).is_ok()
    }

    /// Writes a block to another place.
    fn rehome(
        &mut self,
        one: &Move,
        piece: Piece,
        place: u32,
        batch: &mut Batch<Entry>,
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) {
        let stamp = self.new_stamp();
        let mut transaction = Transaction::new(smallvec![(one.at, 1)], stamp);
        self.store_at(&mut transaction, one.at, piece, (0, 0), place, commands);
        self.install(&transaction, cx, &mut |at, old| batch.undo.push((at, old)));
    }

    fn commit_moves(&mut self, batch: Batch<Entry>, commands: Commands, cx: &mut Cx<'_>) {
        if self.commits.has_changes() {
            self.begin_commit(batch, commands, cx);
        } else {
            // Nothing could be moved: the track is no place for this group.
            self.abandon_sorting();
            self.look_again(cx);
        }
    }

    /// Writes what has been gathered to the track, in order.
    fn write_group(&mut self, job: Job, cx: &mut Cx<'_>) {
        let mut batch = Batch::default();
        let mut commands = Commands::of(Purpose::Ordering);
        let mut kept = job.kept.into_iter();
        for (one, piece) in job.gathered {
            if !self.is_as_it_was(&one, &piece) {
                continue;
            }
            let Some(place) = kept.next() else { break };
            self.rehome(&one, piece, place, &mut batch, &mut commands, cx);
            self.sorter.blocks_sorted += 1;
        }
        self.give_back(&kept.collect::<Vec<_>>());
        self.sorter.sorted.insert(job.track);
        self.commit_moves(batch, commands, cx);
    }

    /// Looks for a group that is worth sorting, and a track for it. False if none was found.
    fn find_job(&mut self) -> bool {
        if self.free.free() < RESERVE {
            return false;
        }
        while let Some(cluster) = self.sorter.steps.cluster() {
            let stored = |&at: &BlockNr| self.table.get(at).is_mapped();
            let blocks: Vec<BlockNr> = cluster.into_iter().filter(stored).collect();
            if self.is_scattered(&blocks) && self.begin_job(blocks) {
                self.sorter.clusters += 1;
                return true;
            }
        }
        let size = u64::from(self.free.slots(self.free.tracks() / 2).max(1));
        for _ in 0..LOOKS {
            if !self.sorter.sorts || !self.next_group_begins() {
                return false;
            }
            let first = self.sorter.next;
            let end = (first + size).min(self.areas.blocks);
            self.sorter.next = end;
            let stored = |at: &BlockNr| self.table.get(*at).is_mapped();
            let blocks: Vec<BlockNr> = (first..end).filter(stored).collect();
            if self.is_scattered(&blocks) && self.begin_job(blocks) {
                self.sorter.found = true;
                return true;
            }
        }
        false
    }

    /// Begins another round at the end of the volume, unless the last one found nothing.
    fn next_group_begins(&mut self) -> bool {
        let written = self.counters.client_blocks;
        let one = &mut self.sorter;
        if one.round_at != written {
            one.is_over = false;
        }
        if one.next >= self.areas.blocks {
            one.rounds = if one.round_at == written { one.rounds + 1 } else { 0 };
            // What is still scattered then cannot be helped: damage, or tracks that are not whole.
            one.is_over = one.round_at == written && (!one.found || one.rounds > MOST_ROUNDS);
            (one.next, one.found, one.round_at) = (0, false, written);
        }
        !one.is_over
    }

    /// True if more than an eighth of the blocks of a group do not lie behind the one before.
    fn is_scattered(&self, blocks: &[BlockNr]) -> bool {
        let mut end = None;
        let mut breaks = 0;
        for &at in blocks {
            let place = self.table.get(at).place();
            breaks += usize::from(end != Some(place));
            end = Some(place + 1);
        }
        breaks > 2 && 8 * (breaks - 2) > blocks.len()
    }

    /// Finds a track for a group; false if there is none around.
    fn begin_job(&mut self, blocks: Vec<BlockNr>) -> bool {
        let Some(&first) = blocks.first() else { return false };
        let tracks = self.free.tracks();
        let home = (u128::from(first) * u128::from(tracks) / u128::from(self.areas.blocks)) as u32;
        let from = home.saturating_sub(LOOKS / 2).min(tracks.saturating_sub(LOOKS));
        let around = from..(from + LOOKS).min(tracks);
        let best = around
            .filter(|&track| self.free.free_on(track) > 0 && !self.is_sorted(track))
            .max_by_key(|&track| (self.free.free_on(track), u32::MAX - track.abs_diff(home)));
        let Some(track) = best else { return false };
        self.sorter.sorted.remove(&track);
        let most = self.free.slots(track) as usize;
        let left = blocks.into_iter().take(most).collect();
        let (kept, gathered) = (Vec::new(), Vec::new());
        self.sorter.job = Some(Job { left, track, kept, gathered, evicting: true });
        true
    }

    /// True if a track was written in order and most of it is still in use.
    fn is_sorted(&self, track: Track) -> bool {
        let slots = self.free.slots(track);
        self.sorter.sorted.contains(&track) && 4 * self.free.free_on(track) < slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_in_succession_twice_is_a_cluster() {
        let mut steps = Steps { enabled: true, ..Steps::default() };
        let path = [70, 3, 900, 12];
        for round in 0..2 {
            for at in path {
                steps.read(at, 1);
            }
            steps.read(5000 + round, 1);
        }
        assert_eq!(steps.cluster(), Some(path.to_vec()));
        assert_eq!(steps.cluster(), None);
    }
}
