//! What map blocks a device holds, and which commits hold: by the tree from the tail record, or by
//! reading the whole device. The same for each layout that keeps a virtual log; what its map blocks
//! say besides is a [`Form`].

use crate::eager::Mapped;
use crate::eager::freemap::FreeMap;
use crate::shared::PAST_UNREADABLE;
use crate::vlog::format::{
    Changed, Entry, Header, MAP_MAGIC, TAIL_BLOCK, Tail, decode_header, live_mark, looks_like_map,
    may_be_tail,
};
use crate::vlog::tree::SliceNr;
use bytes::Bytes;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Expected, IoError};
use seekless_engine::layout::{LayoutError, MountOptions, MountPath, RecoverySteps};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BLOCK_BYTES;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;

/// Blocks read at once by a scan.
const SCAN_BLOCKS: u64 = 256;

/// A map block found on the device.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub place: u32,
    pub header: Header,
}

/// Commits and sequence numbers stay below this: no volume lives to see it, and numbers counted up
/// from below it do not overflow. What says otherwise is forged.
const NUMBER_LIMIT: u64 = 1 << 62;

/// What a recovery has found out.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The newest whole version of each slice.
    pub live: Vec<Found>,
    /// The last commit that holds.
    pub last: u64,
    /// Numbers for what comes next.
    pub next_commit: u64,
    pub next_sequence: u64,
    pub(super) accepted: u64,
    pub(super) dropped: u64,
    /// The last commit is the marker of an earlier recovery. It says all that another one would;
    /// and another one would call it durable, and all numbers below it, that of the doomed too.
    pub(super) marked: bool,
    /// Map blocks of commits that do not hold: to be erased, lest they be taken for valid later.
    pub doomed: Vec<u32>,
    /// Blocks that another recovery, should this one be interrupted, might need; in order.
    pub keep: Vec<u32>,
    /// The map blocks that `keep` was made from.
    pub needed: Vec<Found>,
    /// After a scan: all map blocks of commits that hold, also superseded ones.
    pub holding: Vec<Found>,
}

/// What map blocks say: all that is not the same in the layouts that keep a virtual log.
pub(crate) struct Form {
    /// Slices of a volume of so many blocks.
    pub slices: fn(u64) -> u64,
    /// The first block of the pool.
    pub pool_start: fn(&Superblock) -> u64,
    /// Blocks that a map block says its commit has written.
    pub written: fn(&Header, &[u8]) -> Vec<Entry>,
    /// Adds the places that a map block of these bytes names, directly or through others.
    pub named: fn(&mut Recovery<'_>, &[u8], &mut Vec<u32>),
}

pub(crate) struct Recovery<'d> {
    pub disk: &'d mut dyn Disk,
    pub superblock: Superblock,
    pub steps: &'d mut RecoverySteps,
    form: &'static Form,
    /// Blocks that begin as a map block and are none: torn by a power cut. A later write to one of
    /// them that is torn as well could make it whole.
    pub torn: Vec<u32>,
    /// Blocks that the scan could not read.
    pub unreadable: Vec<u32>,
    /// The tail record is wrong and was computed: another block of its stripe is wrong as well.
    is_tail_wrong: bool,
}

pub(crate) fn damaged<T>(what: impl Into<String>) -> Result<T, LayoutError> {
    Err(LayoutError::Damaged(what.into()))
}

/// The header of a map block that makes sense, of a volume of so many slices.
pub(crate) fn header(volume: &Superblock, slices: u64, place: u32, block: &[u8]) -> Option<Header> {
    let header = decode_header(volume.identity(), place, block)?;
    let sound = u64::from(header.slice) < slices
        && header.index < header.members
        && header.previous < header.commit
        && header.durable < header.commit
        && header.commit < NUMBER_LIMIT
        && header.sequence < NUMBER_LIMIT;
    sound.then_some(header)
}

/// False if a block begins as a map block and is none.
fn is_no_torn_map(
    (volume, slices): (&Superblock, u64),
    start: u64,
    index: u32,
    block: &Piece,
) -> bool {
    if !block.begins_with(MAP_MAGIC) {
        return true;
    }
    let bytes = block.to_bytes();
    let place = start as u32 + index;
    let header = || header(volume, slices, place, &bytes);
    !looks_like_map(volume.identity(), &bytes) || header().is_some()
}

impl<'d> Recovery<'d> {
    pub fn new(
        disk: &'d mut dyn Disk,
        superblock: &Superblock,
        steps: &'d mut RecoverySteps,
        form: &'static Form,
    ) -> Recovery<'d> {
        let (torn, unreadable, superblock) = (Vec::new(), Vec::new(), *superblock);
        Recovery { disk, superblock, steps, form, torn, unreadable, is_tail_wrong: false }
    }
}

impl Recovery<'_> {
    pub(super) fn slices(&self) -> u64 {
        (self.form.slices)(self.superblock.blocks)
    }

    /// Where map blocks and data lie.
    pub fn pool(&self) -> Range<u64> {
        (self.form.pool_start)(&self.superblock)..self.superblock.device_blocks - 1
    }

    /// Finds the state of the volume, and how.
    ///
    /// # Errors
    /// What is damaged.
    pub fn find(&mut self) -> Result<(MountPath, Recovered), LayoutError> {
        let tail = self.read_tail();
        let by_tail = match &tail {
            Some(tail) => self.follow(tail)?,
            None => None,
        };
        let (path, found) = match by_tail {
            Some(found) => (MountPath::Tail, found),
            None => (MountPath::Scan, self.scan(tail.as_ref())?),
        };
        // What is torn belongs to a commit that does not hold, if not to one of those.
        let dropped = found.dropped.max(u64::from(!self.torn.is_empty()));
        self.steps.found(path, found.accepted, dropped);
        Ok((path, found))
    }

    fn read_block(&mut self, place: u32) -> Result<Data, IoError> {
        self.steps.read(1);
        self.disk.read(u64::from(place), 1)
    }

    /// An unreadable tail record counts as an absent one: a scan finds the same state, unless what
    /// is wrong with the record is wrong with a map block, too.
    pub(super) fn read_tail(&mut self) -> Option<Tail> {
        let id = self.superblock.identity();
        self.steps.begin("read tail record");
        self.steps.read(1);
        let is_whole = |_, block: &Piece| may_be_tail(id, block);
        let data = self.disk.read_whole(TAIL_BLOCK, 1, &is_whole).ok()?;
        let computed = self.disk.is_computed(TAIL_BLOCK);
        self.is_tail_wrong = computed && !may_be_tail(id, &data.block(0));
        Tail::decode(id, &data.to_bytes())
    }

    /// The whole map block at `place`, if there is one.
    pub fn read_map(&mut self, place: u32) -> Option<(Found, Data)> {
        if !self.pool().contains(&u64::from(place)) {
            return None;
        }
        self.steps.read(1);
        let (volume, slices) = (self.superblock, self.slices());
        let is_whole = |block: &Piece| header(&volume, slices, place, &block.to_bytes()).is_some();
        // Pointers may be dead: what lies there now need not be a map block.
        let data = self.disk.look_for_whole(u64::from(place), &is_whole).ok()?;
        let header = header(&volume, slices, place, &data.to_bytes())?;
        Some((Found { place, header }, data))
    }

    /// Follows the log tree from the tail record, youngest map block first. `None` if that does
    /// not lead to exactly the live set that the record describes.
    fn follow(&mut self, tail: &Tail) -> Result<Option<Recovered>, LayoutError> {
        self.steps.begin("walk the log tree");
        let mut todo = BinaryHeap::new();
        if tail.root.place != 0 {
            todo.push((tail.root.sequence, tail.root.place));
        }
        let mut seen_places = BTreeSet::new();
        let mut seen_slices = BTreeSet::new();
        let mut live = Vec::new();
        let mut digest = 0;
        while let Some((sequence, place)) = todo.pop() {
            if !seen_places.insert((place, sequence)) {
                continue;
            }
            let Some((found, _)) = self.read_map(place) else { continue };
            // The pointer is dead, or an older version.
            if !Edge::VlogPointerSequence.allows(found.header.sequence == sequence)
                || !Edge::VlogNewestFirst.allows(seen_slices.insert(found.header.slice))
            {
                continue;
            }
            digest ^= live_mark(found.header.slice, sequence);
            for pointer in &found.header.pointers {
                if pointer.sequence < sequence {
                    todo.push((pointer.sequence, pointer.place));
                }
            }
            live.push(found);
        }
        self.steps.count(live.len() as u64, "map blocks");
        // Numbers that were used already would be given out again.
        let fresh = tail.root.sequence < tail.next_sequence
            && tail.next_sequence < NUMBER_LIMIT
            && live.iter().all(|found: &Found| found.header.commit <= tail.commit)
            && tail.commit < NUMBER_LIMIT;
        let same = Edge::VlogTailLive.allows(live.len() as u32 == tail.live)
            && Edge::VlogTailDigest.allows(digest == tail.digest);
        if !same || !Edge::VlogTailFresh.allows(fresh) {
            return Ok(None);
        }
        Ok(Some(Recovered {
            live,
            last: tail.commit,
            next_commit: tail.commit + 1,
            next_sequence: tail.next_sequence,
            ..Recovered::default()
        }))
    }

    /// Finds every whole map block on the device.
    pub(super) fn find_all(&mut self) -> Result<Vec<Found>, LayoutError> {
        self.steps.begin("scan for map blocks");
        let Range { start: mut at, end } = self.pool();
        let mut all = Vec::new();
        while let Some(start) = self.disk.next_data(at).filter(|&start| start < end) {
            let count = SCAN_BLOCKS.min(end - start);
            let (volume, slices) = (self.superblock, self.slices());
            let is_whole =
                |index, block: &Piece| is_no_torn_map((&volume, slices), start, index, block);
            match self.disk.read_whole(start, count as u32, &is_whole) {
                Ok(data) => {
                    self.steps.read(count);
                    self.collect(start, &data, &mut all);
                }
                // One bad block must not hide its neighbours.
                Err(_) => {
                    for place in start..start + count {
                        match self.read_block(place as u32) {
                            Ok(data) => self.collect(place, &data, &mut all),
                            Err(IoError::PowerOff) => return Err(IoError::PowerOff.into()),
                            Err(_) => self.unreadable.push(place as u32),
                        }
                    }
                }
            }
            at = start + count;
        }
        self.steps.count(all.len() as u64, "map blocks");
        Ok(all)
    }

    fn collect(&mut self, start: u64, data: &Data, all: &mut Vec<Found>) {
        let (mut place, slices) = (start as u32, self.slices());
        for piece in data.pieces() {
            let bytes = match &piece.body {
                Body::Zeros | Body::Stamp { .. } => Bytes::new(),
                Body::Bytes(bytes) => bytes.clone(),
                Body::Sectors(_) | Body::Parity(_) if !piece.begins_with(MAP_MAGIC) => Bytes::new(),
                Body::Sectors(_) | Body::Lazy(_) | Body::Parity(_) => piece.to_bytes(),
            };
            for (block, place) in bytes.chunks_exact(BLOCK_BYTES).zip(place..) {
                match header(&self.superblock, slices, place, block) {
                    Some(header) => all.push(Found { place, header }),
                    None if Edge::VlogTornData
                        .blocks(looks_like_map(self.superblock.identity(), block)) =>
                    {
                        self.torn.push(place)
                    }
                    None => {}
                }
            }
            place += piece.blocks;
        }
    }

    /// Recovers from whatever map blocks the device holds.
    fn scan(&mut self, tail: Option<&Tail>) -> Result<Recovered, LayoutError> {
        let all = self.find_all()?;
        let durable = all.iter().map(|found| found.header.durable).max().unwrap_or(0);
        let mut recovered = self.judge(&all, durable);
        self.compare_digest(&all, &recovered, tail)?;
        let before = newest(all.iter().filter(|found| found.header.commit <= durable));
        let after = all.iter().filter(|found| found.header.commit > durable).cloned();
        self.steps.begin("list blocks still needed");
        recovered.needed = before.into_iter().chain(after).collect();
        recovered.keep = self.named(&recovered.needed);
        self.steps.count(recovered.keep.len() as u64, "blocks");
        Ok(recovered)
    }

    /// Which of the commits after `durable` hold, and what is live with the last of them.
    pub(super) fn judge(&mut self, all: &[Found], durable: u64) -> Recovered {
        self.steps.begin("verify young commits");
        let mut recovered = Recovered { last: durable, ..Recovered::default() };
        let mut later: BTreeMap<u64, Vec<&Found>> = BTreeMap::new();
        for found in all {
            if found.header.commit > durable {
                later.entry(found.header.commit).or_default().push(found);
            }
        }
        let mut accepted = BTreeSet::new();
        // Where a recovery was interrupted, two commits may follow the same one: the commit that
        // the recovery wrote has the higher number.
        let mut following: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (&commit, members) in later.iter().rev() {
            following.entry(members[0].header.previous).or_default().push(commit);
        }
        if !Edge::VlogOfTwoYounger.stands() {
            following.values_mut().for_each(|commits| commits.reverse());
        }
        while let Some(candidates) = following.get(&recovered.last)
            && let Some(&commit) = candidates.iter().find(|commit| self.holds(&later[commit]))
        {
            accepted.insert(commit);
            recovered.last = commit;
        }
        recovered.accepted = accepted.len() as u64;
        recovered.dropped = later.len() as u64 - recovered.accepted;
        self.steps.count(later.len() as u64, "commits");
        let holds = |found: &Found| {
            found.header.commit <= durable || accepted.contains(&found.header.commit)
        };
        let used = |found: &&Found| Edge::VlogNumbersOfDropped.stands() || holds(found);
        let used = || all.iter().filter(used);
        recovered.next_commit = used().map(|f| f.header.commit).max().unwrap_or(0) + 1;
        recovered.next_sequence = used().map(|f| f.header.sequence).max().unwrap_or(0) + 1;
        recovered.live = newest(all.iter().filter(|found| holds(found)));
        recovered.holding = all.iter().filter(|found| holds(found)).cloned().collect();
        recovered.doomed = all.iter().filter(|found| !holds(found)).map(|f| f.place).collect();
        let last = all.iter().find(|found| found.header.commit == recovered.last);
        recovered.marked = last.is_some_and(|Found { header, .. }| {
            header.changed == Changed::default() && header.durable == header.previous
        });
        recovered
    }

    /// True if a commit is whole: all its map blocks are there, and so is the data they name.
    pub(super) fn holds(&mut self, members: &[&Found]) -> bool {
        let first = &members[0].header;
        let mut indices = BTreeMap::new();
        for one in members {
            let header = &one.header;
            let same = header.members == first.members && header.previous == first.previous;
            // Of one that was refused there may be two copies: see `refused.rs`.
            let other = indices.insert(header.index, header.sequence);
            let differs = other.is_some_and(|other| other != header.sequence);
            if !Edge::VlogOneCommit.allows(same && !differs) {
                return false;
            }
        }
        (indices.len() as u32 == first.members || planted(PlantedBug::PartialTransaction))
            && members.iter().all(|one| self.data_holds(one))
    }

    fn data_holds(&mut self, found: &Found) -> bool {
        let Some((_, block)) = self.read_map(found.place) else { return false };
        let written = (self.form.written)(&found.header, &block.to_bytes());
        written.into_iter().all(|entry| !entry.is_mapped() || self.entry_holds(entry))
    }

    fn entry_holds(&mut self, entry: Entry) -> bool {
        if !self.pool().contains(&u64::from(entry.place())) {
            return false;
        }
        self.steps.read(1);
        let (sums, sum) = (self.superblock.sums, entry.checksum());
        match self.disk.read_expecting(u64::from(entry.place()), Expected::one(sums, sum)) {
            Ok(data) => Edge::VlogDataSum.allows(sums.has(&data.block(0), sum)),
            // A power cut leaves blocks torn, not unreadable: reading it is an error later.
            Err(_) => true,
        }
    }

    /// Where a scan cannot read a block that the map does not name, the last commits may have been:
    /// what they made durable must not be lost silently.
    pub fn look_past_unreadable(
        &mut self,
        free: &FreeMap,
        options: &MountOptions<'_>,
    ) -> Result<(), LayoutError> {
        if self.is_tail_wrong && !options.options.get(&PAST_UNREADABLE) {
            return damaged(
                "a member of the array has wrong bytes in the first stripe while another member \
                 is missing, and the youngest writes may have been there; serve \
                 --past-unreadable takes what can be read for all there is",
            );
        }
        self.unreadable.retain(|&place| free.is_free(u64::from(place)));
        let unreadable = self.unreadable.first().filter(|_| Edge::VlogUnreadable.stands());
        let Some(first) = unreadable else { return Ok(()) };
        if !options.options.get(&PAST_UNREADABLE) {
            let more = match self.unreadable.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return damaged(format!(
                "device block {first}{more} cannot be read, and the youngest writes before the \
                 crash may have been there; serve --past-unreadable takes what can be read for \
                 all there is"
            ));
        }
        self.torn.append(&mut self.unreadable);
        Ok(())
    }

    /// The last commit knows which map blocks are live with it. If others were found, one has
    /// become unreadable, and an older version of its slice must not be served in its place.
    fn compare_digest(
        &self,
        all: &[Found],
        recovered: &Recovered,
        tail: Option<&Tail>,
    ) -> Result<(), LayoutError> {
        let Some(expected) = expected_digest(all, recovered.last, tail) else {
            return damaged(format!(
                "no map block of the last durable commit {} is readable; `seekless salvage` \
                 copies what is certain",
                recovered.last
            ));
        };
        if digest(&recovered.live) != expected && !planted(PlantedBug::DigestIgnored) {
            return damaged(
                "a map block is unreadable, so some blocks cannot be found; `seekless salvage` \
                 copies all others",
            );
        }
        Ok(())
    }

    /// All blocks that the given map blocks occupy and name, in order.
    fn named(&mut self, found: &[Found]) -> Vec<u32> {
        let mut keep = Vec::new();
        for one in found {
            keep.push(one.place);
            if let Some((_, data)) = self.read_map(one.place) {
                (self.form.named)(self, &data.to_bytes(), &mut keep);
            }
        }
        keep.sort_unstable();
        keep.dedup();
        keep
    }
}

/// What the digest of the live set is, if anything on the device says so.
pub(super) fn expected_digest(all: &[Found], last: u64, tail: Option<&Tail>) -> Option<u64> {
    let member = all.iter().find(|found| found.header.commit == last);
    let digest = tail.map(|tail| tail.digest).or(member.map(|found| found.header.digest));
    digest.or((last == 0).then_some(0))
}

/// The digest of these map blocks.
pub(super) fn digest(live: &[Found]) -> u64 {
    live.iter().fold(0, |sum, found| sum ^ live_mark(found.header.slice, found.header.sequence))
}

/// The newest version of each slice.
pub(super) fn newest<'f>(found: impl Iterator<Item = &'f Found>) -> Vec<Found> {
    let mut newest: BTreeMap<SliceNr, &Found> = BTreeMap::new();
    for one in found {
        let best = newest.entry(one.header.slice).or_insert(one);
        let younger = one.header.sequence > best.header.sequence;
        if younger != planted(PlantedBug::StaleStampWins) {
            *best = one;
        }
    }
    newest.into_values().cloned().collect()
}
