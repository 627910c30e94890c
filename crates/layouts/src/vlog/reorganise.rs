//! The reorganiser: while no client waits, and when the compactor has nothing left to do, it puts
//! neighbouring blocks of the volume back beside each other, so that what was written at random
//! can be read in sequence.
//!
//! It goes through the volume in *groups* of as many blocks as a track has. A group that lies
//! scattered is read, a run at a time, and written in order to an empty track, in commits of a few
//! blocks; the next group goes on behind it, or on the next empty track. That leaves holes behind,
//! which the compactor turns into an empty track again; it spares the sorted ones as long as they
//! are in order. A client waits for one read or one commit at most, and a move is as safe as any
//! other write.

use super::compact::Move;
use super::write::Commands;
use super::{COMPACT, RESERVE, Vlog};
use crate::eager::Mapped;
use crate::eager::commit::Batch;
use crate::eager::read::verify;
use seekless_engine::arm::Track;
use seekless_engine::data::{Data, Piece};
use seekless_engine::io::{Done, Io, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BlockNr;
use std::collections::BTreeSet;
use std::ops::Range;

/// Most blocks read at once, and moved in one commit.
const CHUNK_BLOCKS: usize = 16;
/// Groups looked at before the layout has another look for clients.
const GROUPS_AT_ONCE: u32 = 64;
/// Empty tracks that are left to clients.
const TRACKS_LEFT: u32 = 2;

/// State of the reorganiser.
#[derive(Clone, Debug)]
pub(super) struct Reorganiser {
    enabled: bool,
    /// First block of the group that is looked at next.
    next: BlockNr,
    /// What has not been read of the group that is being sorted.
    group: Range<BlockNr>,
    /// Blocks on their way to the device's memory, and those that wait to be written.
    reading: Vec<Move>,
    gathered: Vec<(Move, Piece)>,
    /// The track that is written to, and the slot behind the last block.
    to: Option<(Track, u32)>,
    /// Tracks that were written in order.
    sorted: BTreeSet<Track>,
    /// Blocks that clients had written when the present round through the volume began. A round
    /// during which they wrote nothing is the last one.
    round_at: u64,
    is_over: bool,
    pub blocks_sorted: u64,
}

impl Reorganiser {
    /// One that has seen nothing of the volume.
    pub fn new(enabled: bool) -> Reorganiser {
        Reorganiser {
            enabled,
            next: 0,
            group: 0..0,
            reading: Vec::new(),
            gathered: Vec::new(),
            to: None,
            sorted: BTreeSet::new(),
            round_at: 0,
            is_over: false,
            blocks_sorted: 0,
        }
    }

    /// True while a command of the reorganiser is in flight.
    pub fn is_reading(&self) -> bool {
        !self.reading.is_empty()
    }

    /// True if part of a group has been sorted.
    pub fn is_midway(&self) -> bool {
        !self.group.is_empty() || !self.gathered.is_empty()
    }

    /// A track is about to be emptied.
    pub fn forget(&mut self, track: Track) {
        self.sorted.remove(&track);
    }
}

impl Vlog {
    /// True if a track was written in order and most of it still is.
    pub(super) fn is_sorted(&self, track: Track) -> bool {
        if !self.reorganiser.sorted.contains(&track) {
            return false;
        }
        let mut in_order = 0;
        let mut before = None;
        for slot in 0..self.free.slots(track) {
            let data = self.data_at(self.free.block(track, slot));
            in_order += u32::from(data.is_some() && data == before);
            before = data.map(|at| at + 1);
        }
        let used = self.free.slots(track) - self.free.free_on(track);
        4 * (in_order + 1) >= 3 * used
    }

    /// Takes one step. Nothing else is in flight, and no client waits.
    pub(super) fn advance_reorganiser(&mut self, cx: &mut Cx<'_>) {
        let one = &mut self.reorganiser;
        if one.is_over && one.round_at != self.counters.client_blocks {
            one.is_over = false;
            one.next = 0;
            one.round_at = self.counters.client_blocks;
        }
        if one.is_over || !self.may_sort() {
            return;
        }
        let one = &self.reorganiser;
        if one.gathered.len() >= CHUNK_BLOCKS {
            self.write_gathered(cx);
        } else if !one.group.is_empty() || one.gathered.is_empty() && self.find_group(cx) {
            self.read_next(cx);
        } else if !self.reorganiser.gathered.is_empty() {
            self.write_gathered(cx);
        }
    }

    /// True if there is a track to write to, and room for the map blocks of a commit.
    pub(super) fn may_sort(&self) -> bool {
        let here = self.reorganiser.to;
        let slot = here.and_then(|(track, slot)| self.free.next_free_ahead(track, slot));
        let needed = 2 * CHUNK_BLOCKS as u64 + RESERVE;
        self.reorganiser.enabled
            && (slot.is_some() || self.free.empty_tracks() > TRACKS_LEFT)
            && self.free.free() >= needed
    }

    /// Looks for the next group that is worth sorting. False if none has been found so far.
    fn find_group(&mut self, cx: &Cx<'_>) -> bool {
        let blocks = u64::from(self.free.slots(0).max(1));
        for _ in 0..GROUPS_AT_ONCE {
            let first = self.reorganiser.next;
            if first >= self.blocks {
                let one = &mut self.reorganiser;
                one.is_over = one.round_at == self.counters.client_blocks;
                one.next = 0;
                one.round_at = self.counters.client_blocks;
                if one.is_over {
                    return false;
                }
                continue;
            }
            let group = first..(first + blocks).min(self.blocks);
            self.reorganiser.next = group.end;
            if self.is_scattered(&group) {
                self.reorganiser.group = group;
                return true;
            }
        }
        self.compactor.look_again(cx.now);
        false
    }

    /// True if more than an eighth of the stored blocks of a group do not lie behind the one
    /// before.
    fn is_scattered(&self, group: &Range<BlockNr>) -> bool {
        let (mut stored, mut breaks) = (0_u32, 0_u32);
        let mut end = None;
        let entries = self.map.range(group.start, group.end - group.start);
        for entry in entries.filter(|entry| entry.is_mapped()) {
            stored += 1;
            breaks += u32::from(end != Some(entry.place()));
            end = Some(entry.place() + 1);
        }
        // A group in order has one break, at its beginning, and one more where a track ends.
        breaks > 2 && 8 * (breaks - 2) > stored
    }

    /// Reads the next blocks of the group that lie behind each other.
    fn read_next(&mut self, cx: &mut Cx<'_>) {
        let Range { start, end } = self.reorganiser.group;
        let room = CHUNK_BLOCKS - self.reorganiser.gathered.len();
        let mut moves: Vec<Move> = Vec::new();
        let mut at = start;
        while at < end && moves.len() < room {
            let entry = self.map.get(at);
            if entry.is_mapped() {
                let follows = |first: &Move| first.entry.place() + moves.len() as u32;
                if moves.first().is_some_and(|first| entry.place() != follows(first)) {
                    break;
                }
                moves.push(Move { at, entry });
            }
            at += 1;
        }
        self.reorganiser.group = at..end;
        let Some(first) = moves.first() else {
            self.compactor.look_again(cx.now);
            return;
        };
        let (place, count) = (first.entry.place(), moves.len() as u32);
        let io = Io::read(COMPACT | 1, BlockNr::from(place), count);
        let io = io.for_purpose(Purpose::Ordering);
        self.reorganiser.reading = moves;
        cx.send(0, io);
    }

    /// Blocks of the group have been read.
    pub(super) fn reorganiser_read(&mut self, done: Done) {
        let moves = std::mem::take(&mut self.reorganiser.reading);
        // What cannot be read stays where it is; a client that asks for it will be told.
        let Ok(data) = done.outcome else { return };
        self.reorganiser.gathered.extend(moves.into_iter().zip(data.each()));
    }

    /// Writes what has been gathered and is still where it was, in order.
    fn write_gathered(&mut self, cx: &mut Cx<'_>) {
        let mut batch = Batch::default();
        let mut commands = Commands::of(Purpose::Ordering);
        for (Move { at, entry }, block) in std::mem::take(&mut self.reorganiser.gathered) {
            let stale = planted(PlantedBug::ReorganiserWritesStale);
            let moved_since = self.map.get(at) != entry && !stale;
            // Damage stays where it is and is reported to the client that reads it.
            if moved_since
                || verify(self.sums, &[entry], Data::block_of(block.body.clone()), at).is_err()
            {
                continue;
            }
            let Some(place) = self.next_in_order(cx) else { break };
            let old = self.install(at, entry.moved(place), cx);
            batch.undo.push((at, old));
            commands.push(place, block, ());
            self.reorganiser.blocks_sorted += 1;
        }
        if self.dirty.is_empty() {
            self.compactor.look_again(cx.now);
            return;
        }
        // Map blocks would break up what is in order.
        self.avoid = self.reorganiser.to.map(|(track, _)| track);
        self.begin_commit(batch, commands, cx);
        self.avoid = None;
    }

    /// Takes the next slot of the track that is written to, or the first one of another.
    fn next_in_order(&mut self, cx: &Cx<'_>) -> Option<u32> {
        let here = self.reorganiser.to;
        let next = here.and_then(|(track, slot)| {
            self.free.next_free_ahead(track, slot).map(|slot| (track, slot))
        });
        let (track, slot) = match next {
            Some(next) => next,
            None => (self.next_track_to_sort_to(here, cx)?, 0),
        };
        self.reorganiser.sorted.insert(track);
        self.reorganiser.to = Some((track, slot + 1));
        self.free.take_slot(track, slot);
        Some(self.free.block(track, slot))
    }

    /// The nearest empty track behind `here` or the head that clients do not write to.
    fn next_track_to_sort_to(&self, here: Option<(Track, u32)>, cx: &Cx<'_>) -> Option<Track> {
        if self.free.empty_tracks() <= TRACKS_LEFT {
            return None;
        }
        let from = here.map(|(track, _)| track + 1).or(cx.head(0).map(|head| head.track));
        let ahead = |from: Track| self.free.next_empty_track(from % self.free.tracks());
        let filling = self.placer.filling();
        ahead(from.unwrap_or(0)).and_then(|track| match Some(track) == filling {
            true => ahead(track + 1).filter(|&other| other != track),
            false => Some(track),
        })
    }
}
