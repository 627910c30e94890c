//! The compactor: while no client waits it empties tracks, so that eager writing finds whole ones
//! to fill (section 4.2 of the paper).
//!
//! Its unit is the track, its means is hole-plugging: the blocks in use on the victim are read and
//! written eagerly into holes of tracks that are neither empty nor the victim. It works in chunks
//! of a few blocks, first one read and then one commit, and looks for clients in between: a request
//! waits for at most one of the two. A moved block is committed like any other write, with its old
//! place kept until the commit is known to be durable, so a power cut at any moment loses nothing.

use super::format::{Entry, POOL_START, SLICE_ENTRIES};
use super::options::Compaction;
use super::tree::SliceNr;
use super::write::Commands;
use super::{COMPACT, RESERVE, Vlog};
use crate::eager::Mapped;
use crate::eager::commit::Batch;
use crate::eager::place::Plan;
use crate::eager::read::verify;
use seekless_engine::arm::Track;
use seekless_engine::data::Data;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, Io, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, MILLIS, Time};

/// How long no client must have waited before compaction begins: longer than the pauses within a
/// stream of requests.
const REST: Time = 10 * MILLIS;
/// Most blocks moved in one chunk.
const CHUNK_BLOCKS: usize = 8;
/// Tracks among which the least used one is looked for, from the last victim on.
const TRACKS_COMPARED: Track = 4096;
/// Victims tried at random before a track with nothing to move is taken for the rule.
const TRIES: u32 = 16;

/// What may lie at a device block. Not taken back when a block is superseded: whether it is still
/// there, the map says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Data(BlockNr),
    Map(SliceNr),
}

/// Owners by device block, in pages that exist where something was ever written.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    pages: Vec<Option<Box<[u32; Owners::PAGE]>>>,
}

impl Owners {
    const PAGE: usize = 1024;
    const MAP: u32 = 1 << 31;

    fn set(&mut self, place: u32, owner: u32) {
        let page = place as usize / Owners::PAGE;
        if !matches!(self.pages.get(page), Some(Some(_))) {
            self.add(page);
        }
        if let Some(page) = &mut self.pages[page] {
            page[place as usize % Owners::PAGE] = owner;
        }
    }

    #[cold]
    fn add(&mut self, page: usize) {
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        self.pages[page] = Some(Box::new([u32::MAX; Owners::PAGE]));
    }

    fn get(&self, place: u32) -> Option<Owner> {
        let page = self.pages.get(place as usize / Owners::PAGE)?.as_ref()?;
        match page[place as usize % Owners::PAGE] {
            u32::MAX => None,
            owner if owner & Owners::MAP != 0 => Some(Owner::Map(owner & !Owners::MAP)),
            owner => Some(Owner::Data(u64::from(owner))),
        }
    }
}

/// A block on its way: which one, and where it lay when it was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub at: BlockNr,
    pub entry: Entry,
}

/// How far the present chunk has come.
#[derive(Clone, Debug, Default)]
enum Chunk {
    /// There is none.
    #[default]
    None,
    /// Its blocks are being read.
    Reading(Vec<Move>),
    /// They have been read; the first one lay at this place.
    Loaded(Vec<Move>, u32, Data),
}

/// State of the compactor.
#[derive(Clone, Debug)]
pub(super) struct Compactor {
    policy: Compaction,
    owners: Option<Owners>,
    victim: Option<Track>,
    last_victim: Track,
    /// Tracks with blocks that cannot be read: they stay as they are.
    spoilt: Vec<Track>,
    /// All of the victim has been moved, and a commit says so: it is empty next.
    moved_out: bool,
    chunk: Chunk,
    due: Option<Time>,
    pub blocks_moved: u64,
    pub tracks_emptied: u64,
}

impl Compactor {
    /// A compactor that keeps track of owners, unless the policy is to do nothing.
    pub fn new(policy: Compaction) -> Compactor {
        let owners = (policy != Compaction::Off).then(Owners::default);
        Compactor {
            policy,
            owners,
            victim: None,
            last_victim: 0,
            spoilt: Vec::new(),
            moved_out: false,
            chunk: Chunk::None,
            due: None,
            blocks_moved: 0,
            tracks_emptied: 0,
        }
    }

    /// True if it keeps track of who owns each block.
    pub fn knows_owners(&self) -> bool {
        self.owners.is_some()
    }

    /// Notes that a block of data has been written to a place.
    pub fn placed_data(&mut self, place: u32, at: BlockNr) {
        if let Some(owners) = &mut self.owners {
            owners.set(place, at as u32);
        }
    }

    /// Notes that a map block has been written to a place.
    pub fn placed_map(&mut self, place: u32, slice: SliceNr) {
        if let Some(owners) = &mut self.owners {
            owners.set(place, slice | Owners::MAP);
        }
    }

    /// When to look again though nothing happens.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Asks for no look: something is under way, and there will be one when that is done.
    pub fn rest(&mut self) {
        self.due = None;
    }

    /// Asks for another look at once, after something that took no time of the device.
    pub fn look_again(&mut self, now: Time) {
        self.due = Some(now);
    }

    /// True while a command of the compactor is in flight.
    pub fn is_reading(&self) -> bool {
        matches!(self.chunk, Chunk::Reading(_))
    }
}

impl Vlog {
    /// Learns who owns what from a map that has been mounted.
    pub(super) fn learn_owners(&mut self) {
        if !self.compactor.knows_owners() {
            return;
        }
        for slice in 0..self.tree.slices() {
            let place = self.tree.node(slice).place;
            if place == 0 {
                continue;
            }
            self.compactor.placed_map(place, slice);
            let first = u64::from(slice) * SLICE_ENTRIES as u64;
            for at in first..(first + SLICE_ENTRIES as u64).min(self.blocks) {
                let entry = self.map.get(at);
                if entry.is_mapped() {
                    self.compactor.placed_data(entry.place(), at);
                }
            }
        }
    }

    /// The block of the volume that is stored at a device block, if it is one.
    pub(super) fn data_at(&self, place: u32) -> Option<BlockNr> {
        match self.owner(place) {
            Some(Owner::Data(at)) => Some(at),
            _ => None,
        }
    }

    /// What is in use at a device block.
    fn owner(&self, place: u32) -> Option<Owner> {
        let owner = self.compactor.owners.as_ref()?.get(place)?;
        let there = match owner {
            Owner::Data(at) => self.map.get(at).place(),
            Owner::Map(slice) => self.tree.node(slice).place,
        };
        (there == place).then_some(owner)
    }

    /// Takes one step if no client waits and there is something to gain.
    pub(super) fn advance_compaction(&mut self, cx: &mut Cx<'_>) {
        self.compactor.due = None;
        let may = self.commits.is_serial()
            && !self.requests.is_read_only()
            && self.requests.failed().is_none();
        if self.compactor.owners.is_none() || !may || !self.requests.is_running() {
            return;
        }
        let reading = self.compactor.is_reading() || self.reorganiser.is_reading();
        let busy = self.commits.is_running() || !self.reads.is_empty() || reading;
        if busy || !self.requests.is_idle() {
            return;
        }
        let due = cx.idle_since.unwrap_or(cx.now) + REST;
        match std::mem::take(&mut self.compactor.chunk) {
            // What has been read may be out of date when its turn comes.
            _ if cx.now < due => self.compactor.due = Some(due),
            Chunk::Loaded(moves, first, data) => self.write_chunk(&moves, first, &data, cx),
            _ => self.begin_chunk(cx),
        }
    }

    /// The track to empty, the present one or another; `None` if there is nothing to gain.
    fn pick_victim(&mut self, cx: &mut Cx<'_>) -> Option<Track> {
        if self.compactor.victim.is_some_and(|victim| !self.can_empty(victim)) {
            self.compactor.victim = None;
        }
        if self.compactor.victim.is_none() {
            self.compactor.victim = self.next_victim(cx);
            self.compactor.moved_out = false;
            if let Some(victim) = self.compactor.victim {
                self.reorganiser.forget(victim);
            }
        }
        self.compactor.victim
    }

    /// True if a track has blocks in use, nothing that cannot be moved, and holes elsewhere have
    /// room for them.
    fn can_empty(&self, track: Track) -> bool {
        let (free, slots) = (self.free.free_on(track), self.free.slots(track));
        let first = u64::from(self.free.block(track, 0));
        let pool = POOL_START..self.device_blocks - 1;
        let movable = pool.contains(&first) && pool.contains(&(first + u64::from(slots) - 1));
        // Every block may take a map block along, and one commit more frees the last ones.
        let needed = 2 * u64::from(slots - free) + RESERVE;
        movable
            && !self.compactor.spoilt.contains(&track)
            && (1..slots).contains(&free)
            && self.placer.filling() != Some(track)
            && self.free.in_holes() >= needed + u64::from(free)
            && !self.is_sorted(track)
    }

    fn next_victim(&mut self, cx: &mut Cx<'_>) -> Option<Track> {
        let tracks = self.free.tracks();
        let from = match cx.head(0) {
            Some(head) if self.compactor.policy == Compaction::Nearest => head.track,
            _ => (self.compactor.last_victim + 1) % tracks,
        };
        let span = tracks.min(TRACKS_COMPARED);
        let ahead = |step: Track| (from + step) % tracks;
        let victim = match self.compactor.policy {
            Compaction::Off => None,
            Compaction::Random => (0..TRIES)
                .map(|_| cx.rng.below(u64::from(tracks)) as Track)
                .find(|&track| self.can_empty(track))
                .or_else(|| (0..span).map(ahead).find(|&track| self.can_empty(track))),
            Compaction::Nearest => (0..span).map(ahead).find(|&track| self.can_empty(track)),
            Compaction::LeastUsed => (0..span)
                .map(ahead)
                .filter(|&track| self.can_empty(track))
                .max_by_key(|&track| self.free.free_on(track)),
        };
        self.compactor.last_victim = victim.unwrap_or(self.compactor.last_victim);
        victim
    }

    /// Begins the next chunk of the victim: reads its blocks, or moves map blocks at once. Without
    /// a victim it is the turn of the reorganiser, which is left to finish what it has begun: the
    /// compactor would plug the track that it fills.
    #[inline(never)]
    fn begin_chunk(&mut self, cx: &mut Cx<'_>) {
        let unfinished = self.reorganiser.is_midway() && self.may_sort();
        let Some(victim) = (!unfinished).then(|| self.pick_victim(cx)).flatten() else {
            self.advance_reorganiser(cx);
            return;
        };
        let mut moves: Vec<Move> = Vec::new();
        let mut maps = 0;
        for slot in 0..self.free.slots(victim) {
            match self.owner(self.free.block(victim, slot)) {
                Some(Owner::Data(at)) if moves.len() < CHUNK_BLOCKS => {
                    moves.push(Move { at, entry: self.map.get(at) });
                }
                Some(Owner::Map(_)) => maps += 1,
                _ => {}
            }
        }
        let (Some(first), Some(last)) = (moves.first(), moves.last()) else {
            if maps > 0 {
                self.write_chunk(&[], 0, &Data::none(), cx);
            } else if self.compactor.moved_out {
                self.give_up_victim(cx);
            } else {
                // What is left is free once a commit says that those before it are durable.
                self.compactor.moved_out = true;
                self.compactor.tracks_emptied += 1;
                self.begin_commit(Batch::default(), Commands::default(), cx);
            }
            return;
        };
        let (first, end) = (first.entry.place(), last.entry.place() + 1);
        let io = Io::read(COMPACT, BlockNr::from(first), end - first);
        let io = io.for_purpose(Purpose::Cleaning);
        self.compactor.chunk = Chunk::Reading(moves);
        cx.send(0, io);
    }

    /// Leaves a track alone that cannot be emptied, and looks for another one.
    fn give_up_victim(&mut self, cx: &Cx<'_>) {
        self.compactor.spoilt.extend(self.compactor.victim.take());
        self.compactor.look_again(cx.now);
    }

    /// The blocks of a chunk have been read.
    pub(super) fn compaction_read(&mut self, done: Done) {
        let Chunk::Reading(moves) = std::mem::take(&mut self.compactor.chunk) else {
            panic!("answer to a compaction that is not under way");
        };
        let (Ok(data), Some(first)) = (done.outcome, moves.first()) else {
            // A client that asks for these blocks will be told; here the track is left alone.
            self.compactor.spoilt.extend(self.compactor.victim.take());
            return;
        };
        let first = first.entry.place();
        self.compactor.chunk = Chunk::Loaded(moves, first, data);
    }

    /// Writes the blocks of a chunk that are still where they were, and all map blocks of the
    /// victim, into holes.
    fn write_chunk(&mut self, moves: &[Move], first: u32, data: &Data, cx: &mut Cx<'_>) {
        let Some(victim) = self.compactor.victim.filter(|&victim| self.can_empty(victim)) else {
            return;
        };
        let mut batch = Batch::default();
        let mut commands = Commands::of(Purpose::Cleaning);
        let early = planted(PlantedBug::CompactorFreesEarly);
        self.avoid = (!early).then_some(victim);
        for &Move { at, entry } in moves {
            let block = data.slice(entry.place() - first, 1);
            let moved_since = Edge::VlogMovedSince.blocks(self.map.get(at) != entry);
            // Damage stays where it is and is reported to the client that reads it.
            if moved_since || verify(self.sums, &[entry], block.clone(), at).is_err() {
                continue;
            }
            let place = self.place(1, true, cx);
            let old = self.install(at, entry.moved(place), cx);
            batch.undo.push((at, old));
            commands.push(place, block.block(0), ());
            self.compactor.blocks_moved += 1;
            if early {
                self.commits.forget_last();
                self.free.release(old.place());
            }
        }
        for slot in 0..self.free.slots(victim) {
            if let Some(Owner::Map(slice)) = self.owner(self.free.block(victim, slot))
                && !self.dirty.contains(&slice)
            {
                self.dirty.push(slice);
            }
        }
        if self.dirty.is_empty() {
            // Damaged blocks are all that is left.
            self.give_up_victim(cx);
        } else {
            self.begin_commit(batch, commands, cx);
        }
        self.avoid = None;
    }

    /// The next place for a block that leaves the victim: in a hole, if there is one.
    #[inline(never)]
    pub(super) fn place_in_hole(&mut self, victim: Track, cx: &Cx<'_>) -> Option<u32> {
        match (cx.arm(0), cx.head(0)) {
            (Some(arm), Some(head)) if self.headed => {
                let plan = self.plan.get_or_insert_with(|| Plan::new(head));
                self.placer.choose_hole(&mut self.free, arm, plan, victim)
            }
            _ => self.placer.nominal.choose_hole(&mut self.free, victim),
        }
    }
}
