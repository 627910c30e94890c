//! Making and mounting a volume: the last checkpoint, then the log behind it.
//!
//! The log is followed from part to part: each says where the next one may begin, and the next one
//! names the part before it. Parts that a later part says were durable are taken as they are; of
//! the others every block is compared with its checksum, and the first that is not whole ends the
//! log. What holds is all commits before it.

mod beyond;
mod parts;
mod rebuild;
pub(in crate::lfs) mod repair;
pub(in crate::lfs) mod salvage;

use super::format::{
    ALIGNED, Claims, Entry, Geometry, Item, Link, MAP_ENTRIES, PLUGGABLE, Position, RESERVE,
    Record, SEGMENT_BLOCKS, Summary, WAYS, default_segment,
};
use super::log::Head;
use super::map::MetaBlock;
use super::policy::Policy;
use super::pool::is_buffered;
use super::segments::Owner;
use super::{Lfs, lld};
use crate::shared::SEGMENT;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Expected, IoError};
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions, MountPath, RecoverySteps};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::superblock::{LayoutNumber, Superblock};
use seekless_engine::units::BlockNr;

/// Writes an empty volume.
pub(super) fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
    let device_blocks = disk.blocks();
    let (reserve, usual) = room_of(options.layout);
    let segment = options.options.get(&SEGMENT).unwrap_or_else(|| usual(device_blocks));
    if !segment.is_power_of_two() || !SEGMENT_BLOCKS.contains(&segment) {
        let (least, most) = (SEGMENT_BLOCKS.start(), SEGMENT_BLOCKS.end());
        return Err(LayoutError::BadSize(format!(
            "segments of {segment} blocks of 4 KiB: must be a power of two from {least} to {most}"
        )));
    }
    let plain =
        Geometry { blocks: options.blocks, device_blocks, segment, aligned: false, reserve };
    let aligned = Geometry { aligned: true, ..plain };
    // Whole stripes, where that pays and a segment less leaves enough room.
    let stripe = disk.stripe();
    let pays = stripe > 1 && u64::from(segment).is_multiple_of(stripe);
    let geometry = if pays && aligned.fits_newly() { aligned } else { plain };
    if !geometry.fits_newly() {
        let most = geometry.capacity().saturating_sub(u64::from(segment));
        return Err(LayoutError::BadSize(format!(
            "with segments of {segment} blocks the device holds {most} blocks, not {}; \
             use smaller segments or a smaller volume",
            options.blocks
        )));
    }
    let superblock = Superblock {
        layout: options.layout,
        version: Superblock::version_for(Sums::NEWEST, if geometry.aligned { 3 } else { 2 }),
        id: options.id,
        blocks: options.blocks,
        device_blocks,
        options: segment.ilog2() | PLUGGABLE | if geometry.aligned { ALIGNED } else { 0 },
        sums: Sums::NEWEST,
    };
    let mut ways = [0; WAYS];
    for (pair, segment) in ways.chunks_exact_mut(2).zip(0..) {
        pair[1] = geometry.start_of(segment);
    }
    let start = Position { sequence: 0, link: 0, ways };
    let record = Record {
        number: 0,
        mounts: 0,
        clean: true,
        start,
        judged: Some(start.into()),
        roots: vec![Entry::UNMAPPED; geometry.indices() as usize],
    };
    write_record(disk, &geometry, options.identity(), &record)?;
    superblock.write(disk)?;
    disk.flush_for(Edge::LfsFormatFlush)?;
    Ok(())
}

fn write_record(
    disk: &mut dyn Disk,
    geometry: &Geometry,
    id: Identity,
    record: &Record,
) -> Result<(), IoError> {
    let data = Data::bytes(record.encode(id));
    disk.write(geometry.record_at(record.number, 0), data.clone())?;
    disk.write(geometry.record_at(record.number, 1), data)
}

fn damaged<T>(what: impl Into<String>) -> Result<T, LayoutError> {
    Err(LayoutError::Damaged(what.into()))
}

/// A part of the log, and where its summary lies.
#[derive(Clone, Debug)]
struct Found {
    place: u32,
    summary: Summary,
    link: u64,
}

/// What the log behind the checkpoint came to.
#[derive(Debug, Default)]
struct Followed {
    /// Parts that hold, in order.
    parts: Vec<Found>,
    accepted: u64,
    dropped: u64,
}

struct Recovery<'d> {
    disk: &'d mut dyn Disk,
    id: Identity,
    sums: Sums,
    geometry: Geometry,
    steps: &'d mut RecoverySteps,
    /// Where the part that was looked for last may lie and cannot be read.
    lost: Option<u32>,
}

/// Recovers the state of a volume.
pub(super) fn mount(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<Lfs, LayoutError> {
    let geometry = geometry_of(superblock)?;
    let (id, sums) = (superblock.identity(), superblock.sums);
    let mut recovery = Recovery { disk, id, sums, geometry, steps, lost: None };
    let record = recovery.newest_record()?;
    let mut volume = Lfs::empty(superblock, geometry, options);
    recovery.load(&mut volume, &record)?;
    let followed = recovery.follow(&record)?;
    let path = if record.clean { MountPath::Tail } else { MountPath::Scan };
    recovery.steps.found(path, followed.accepted, followed.dropped);
    recovery.steps.begin("roll forward");
    recovery.steps.count(followed.parts.len() as u64, "parts");
    apply(&mut volume, &followed);
    recovery.count(&mut volume, &record)?;
    if let Policy::Hylog(hylog) = &mut volume.policy {
        hylog.restore(&volume.map);
    }
    recovery.go_on(&mut volume, &record, &followed, options)?;
    volume.look_for_stale(recovery.disk);
    Ok(volume)
}

/// Segments that a full volume of a layout leaves free, and the segment size that a device of so
/// many blocks gets.
fn room_of(layout: LayoutNumber) -> (u64, fn(u64) -> u32) {
    match layout.0 == super::LLD.number {
        true => (lld::RESERVE, lld::segment),
        false => (RESERVE, default_segment),
    }
}

/// How a volume divides its device.
fn geometry_of(superblock: &Superblock) -> Result<Geometry, LayoutError> {
    let segment = 1_u32.checked_shl(superblock.options & 0xff).unwrap_or(0);
    let (blocks, device_blocks) = (superblock.blocks, superblock.device_blocks);
    let aligned = superblock.options & ALIGNED != 0;
    let (reserve, _) = room_of(superblock.layout);
    let geometry = Geometry { blocks, device_blocks, segment: segment.max(1), aligned, reserve };
    if !SEGMENT_BLOCKS.contains(&segment) || !geometry.fits() {
        return damaged("the superblock names sizes that no volume has");
    }
    Ok(geometry)
}

/// The summary in a block that lies at `place`, with its link, if what it says of itself is of any
/// interest: most are summaries of long ago, whose checksums need not be compared.
fn summary(
    id: Identity,
    place: u32,
    block: &Piece,
    interests: impl Fn(&Claims) -> bool,
) -> Option<(Summary, Link)> {
    if matches!(block.body, Body::Zeros | Body::Stamp { .. }) {
        // A stamp begins with the number of a block, which no summary does.
        return None;
    }
    let bytes = block.to_bytes();
    let interests = interests(&Summary::claims(&bytes));
    if interests { Summary::decode(id, place, &bytes) } else { None }
}

impl Recovery<'_> {
    /// The newest of the records.
    fn newest_record(&mut self) -> Result<Record, LayoutError> {
        self.steps.begin("read checkpoint record");
        let (blocks, roots) = (self.geometry.record_blocks(), self.geometry.indices() as usize);
        let mut newest: Option<Record> = None;
        for slot in 0..2 {
            let mut unreadable = 0;
            for copy in 0..2 {
                let id = self.id;
                let is_whole = |index: u32, block: &Piece| {
                    Record::is_block(id, index as usize, &block.to_bytes())
                };
                let at = self.geometry.record_at(slot, copy);
                self.steps.read(blocks);
                let Ok(data) = self.disk.read_whole(at, blocks as u32, &is_whole) else {
                    unreadable += 1;
                    continue;
                };
                let record = Record::decode(self.id, &data.to_bytes(), roots);
                let record = record.filter(|record| record.number % 2 == slot);
                let newer = |one: &Record| {
                    let newer = newest.as_ref().is_none_or(|old| old.number < one.number);
                    Edge::LfsRecordNewer.allows(newer)
                };
                newest = record.filter(newer).or(newest);
            }
            if unreadable == 2 {
                return damaged("both copies of a checkpoint record are unreadable");
            }
        }
        match newest {
            Some(record) => Ok(record),
            None => damaged("no checkpoint record is readable"),
        }
    }

    /// The entries of a block of the map.
    fn read_meta(&mut self, entry: Entry) -> Result<Vec<Entry>, LayoutError> {
        if !self.geometry.holds(entry.place(), 1) {
            return damaged("the checkpoint names a block outside the segments");
        }
        let lost = |_| {
            let place = entry.place();
            LayoutError::Damaged(format!(
                "the block of the map at device block {place} is unreadable, so some blocks \
                 cannot be found"
            ))
        };
        self.steps.read(1);
        let (at, expected) = (BlockNr::from(entry.place()), entry.expected(self.sums));
        let block = self.disk.read_expecting(at, expected).map_err(lost)?.block(0);
        if !Edge::LfsMapSum.allows(self.sums.has(&block, entry.checksum())) {
            return Err(lost(IoError::Checksum { block: BlockNr::from(entry.place()) }));
        }
        Ok(block.to_bytes().chunks_exact(8).map(Entry::decode).collect())
    }

    /// Reads the map as the checkpoint has it.
    fn load(&mut self, volume: &mut Lfs, record: &Record) -> Result<(), LayoutError> {
        self.steps.begin("load checkpoint");
        volume.map.restore_roots(&record.roots);
        for (root, index) in record.roots.iter().zip(0..).filter(|(root, _)| root.is_mapped()) {
            let places = self.read_meta(*root)?;
            volume.map.restore(MetaBlock::Index(index), &places);
        }
        for slice in 0..self.geometry.slices() as u32 {
            let entry = volume.map.place_of(MetaBlock::Slice(slice));
            if !entry.is_mapped() {
                continue;
            }
            let entries = self.read_meta(entry)?;
            let at = u64::from(slice) * MAP_ENTRIES as u64;
            for (block, entry) in (at..).zip(&entries).filter(|(_, entry)| entry.is_mapped()) {
                if block >= self.geometry.blocks || !self.geometry.holds(entry.place(), 1) {
                    return damaged(format!("the map has a senseless place for block {block}"));
                }
            }
            volume.map.restore(MetaBlock::Slice(slice), &entries);
        }
        Ok(())
    }

    /// The part that follows a position, of that mount or a later one.
    fn next_part(&mut self, position: &Position, mount: u32, record: &Record) -> Option<Found> {
        let judged = record.judged.filter(|_| !planted(PlantedBug::DroppedTakenLater));
        // What is found behind what was judged must be of the mount that this is the record of.
        let judged = judged.is_some_and(|one| position.sequence >= one.sequence);
        let mount = if judged { record.mounts } else { mount };
        let mut next: Option<Found> = None;
        self.lost = None;
        for place in position.ways {
            if !self.geometry.holds(place, 1) {
                continue;
            }
            let follows = |claims: &Claims| {
                claims.sequence == position.sequence + 1
                    && Edge::LfsPartFollows.allows(claims.link == position.link)
                    && Edge::LfsPartMount.allows((mount..=record.mounts).contains(&claims.mount))
            };
            let id = self.id;
            let is_whole = |_, block: &Piece| summary(id, place, block, follows).is_some();
            self.steps.read(1);
            let Ok(block) = self.disk.read_whole(BlockNr::from(place), 1, &is_whole) else {
                self.lost = Some(place);
                continue;
            };
            let found = summary(id, place, &block.block(0), follows);
            let Some((summary, link)) = found else { continue };
            // Where a crash was followed by another, what was not taken after the first one may
            // lie beside what was written since.
            let younger = next.as_ref().is_none_or(|one| one.summary.mount < summary.mount);
            let counts = Edge::LfsLaterMount.allows(younger);
            if counts && Edge::LfsSoundPart.allows(self.is_sound(place, &summary)) {
                next = Some(Found { place, summary, link });
            }
        }
        next
    }

    /// True if all that a summary names exists.
    fn is_sound(&self, place: u32, summary: &Summary) -> bool {
        let blocks = self.geometry.blocks;
        let item = |item: &Item| match *item {
            Item::Data { block, .. } => u64::from(block) < blocks,
            Item::Zeros { block, count } => u64::from(block) + u64::from(count) <= blocks,
            Item::Map { slice, .. } => u64::from(slice) < self.geometry.slices(),
            Item::Index { index, .. } => u64::from(index) < self.geometry.indices(),
            Item::Plug { block, place, .. } => {
                u64::from(block) < blocks && self.geometry.holds(place, 1)
            }
        };
        self.geometry.holds(place, 1 + summary.blocks()) && summary.items.iter().all(item)
    }

    /// Follows the log from where the checkpoint says.
    fn follow(&mut self, record: &Record) -> Result<Followed, LayoutError> {
        self.steps.begin("walk the log");
        let mut position = record.start;
        let mut mount = (position.link >> 32) as u32;
        let mut parts: Vec<Found> = Vec::new();
        let judged = record.judged.unwrap_or(record.start.into());
        let mut durable = judged.sequence;
        while let Some(found) = self.next_part(&position, mount, record) {
            let Found { summary, link, .. } = &found;
            if summary.checkpoint > record.number {
                return damaged("the last checkpoint is unreadable");
            }
            durable = durable.max(summary.durable);
            position = Position { sequence: summary.sequence, link: *link, ways: summary.ways };
            mount = summary.mount;
            let other = position.sequence == judged.sequence && *link != judged.link;
            if Edge::LfsJudgedLink.blocks(other) {
                break;
            }
            parts.push(found);
        }
        let followed = parts.last().map_or(record.start.sequence, |one| one.summary.sequence);
        if Edge::LfsJudgedFound.blocks(followed < judged.sequence) {
            return damaged(format!(
                "part {} of the log is unreadable, though a mount has found it",
                followed + 1
            ));
        }
        self.steps.count(parts.len() as u64, "parts");
        let mut has_rest = false;
        if !record.clean {
            self.steps.begin("look behind the end of the log");
            has_rest = self.look_beyond(&position, mount)?;
        }
        self.steps.begin("verify young parts");
        let young = parts.iter().filter(|found| found.summary.sequence > durable);
        self.steps.count(young.count() as u64, "parts");
        let mut followed = Followed::default();
        let mut holds = 0;
        for (index, found) in parts.iter().enumerate() {
            let known = found.summary.sequence <= durable;
            if !known && !self.is_whole(found) {
                break;
            }
            if found.summary.ends || planted(PlantedBug::PartialTransaction) {
                holds = index + 1;
                followed.accepted += u64::from(!known);
            }
        }
        followed.dropped = u64::from(holds < parts.len() || has_rest);
        parts.truncate(holds);
        followed.parts = parts;
        Ok(followed)
    }

    /// True if every block that a part names has its checksum. One that cannot be read says
    /// nothing: a power cut leaves blocks torn, not unreadable, and reading it is an error later.
    fn is_whole(&mut self, found: &Found) -> bool {
        let sums = found.summary.items.iter().filter_map(|item| item.in_part());
        let expected: Vec<Option<u32>> = sums.clone().map(Some).collect();
        debug_assert_eq!(expected.len() as u32, found.summary.blocks(), "a sum for each block");
        let blocks = self.read_each(BlockNr::from(found.place) + 1, &expected);
        let has = |(block, sum): (Option<Piece>, u32)| {
            block.is_none_or(|block| Edge::LfsPartData.allows(self.sums.has(&block, sum)))
        };
        blocks.into_iter().zip(sums).all(has) && self.has_plugs(&found.summary)
    }

    /// True if every hole that a part names holds what it says.
    fn has_plugs(&mut self, summary: &Summary) -> bool {
        summary.items.iter().all(|item| {
            let Item::Plug { checksum, place, .. } = *item else { return true };
            let found = self.read_each(BlockNr::from(place), &[Some(checksum)]);
            let has = |block| Edge::LfsPlugData.allows(self.sums.has(block, checksum));
            found.iter().flatten().all(has)
        })
    }

    /// Blocks one by one, `None` for those that cannot be read; a device with copies looks for
    /// those that are as expected.
    fn read_each(&mut self, at: BlockNr, each: &[Option<u32>]) -> Vec<Option<Piece>> {
        if each.is_empty() {
            return Vec::new();
        }
        let sums = self.sums;
        let expected =
            |each: &[Option<u32>]| Expected { sums, each: each.iter().copied().collect() };
        self.steps.read(each.len() as u64);
        match self.disk.read_expecting(at, expected(each)) {
            Ok(data) => data.each().map(Some).collect(),
            Err(_) => {
                let one = |(at, sum): (BlockNr, &Option<u32>)| {
                    let found = self.disk.read_expecting(at, expected(std::slice::from_ref(sum)));
                    found.ok().map(|data| data.block(0))
                };
                (at..).zip(each).map(one).collect()
            }
        }
    }

    /// Fills the usage table.
    fn count(&mut self, volume: &mut Lfs, record: &Record) -> Result<(), LayoutError> {
        self.steps.begin("count live blocks");
        let slices = volume.map.slices().iter().zip(0..);
        let roots = volume.map.roots().iter().zip(0..);
        let blocks = volume.map.all().map(|(block, entry)| (entry, Owner::Data(block as u32)));
        let slices = slices.map(|(&entry, slice)| (entry, Owner::Slice(slice)));
        let roots = roots.map(|(&entry, index)| (entry, Owner::Index(index)));
        let all = blocks.chain(slices).chain(roots);
        for (entry, owner) in all.filter(|(entry, _)| entry.is_mapped()) {
            if volume.segments.is_live(entry.place()) {
                return damaged(format!("the map has two blocks at {}", entry.place()));
            }
            volume.segments.occupy(entry.place(), owner);
        }
        volume.segments.restore(record.start.sequence);
        separate(volume);
        Ok(())
    }

    /// Makes the volume ready to be written: the log goes on in a fresh segment, and a record says
    /// that from now on another mount writes it.
    fn go_on(
        &mut self,
        volume: &mut Lfs,
        record: &Record,
        followed: &Followed,
        options: &MountOptions<'_>,
    ) -> Result<(), LayoutError> {
        let position = match followed.parts.last() {
            None => record.start,
            Some(Found { summary, link, .. }) => {
                Position { sequence: summary.sequence, link: *link, ways: summary.ways }
            }
        };
        let number = record.number + u64::from(!options.read_only);
        let mounts = record.mounts + u32::from(!options.read_only);
        volume.log.restore(position, mounts);
        volume.checkpoint.restore(number, record.start.sequence);
        if options.read_only {
            return Ok(());
        }
        self.steps.begin("write checkpoint record");
        // One head is enough to begin with; cold blocks get theirs when there are any.
        let way = position.ways[1];
        let free = self.geometry.holds(way, self.geometry.segment);
        let segment = if free { self.geometry.segment_of(way) } else { 0 };
        if !free || !volume.segments.take(segment) {
            return damaged("the log goes on in a segment that is in use");
        }
        let Some(next) = volume.segments.allocate() else {
            return damaged("there is no free segment");
        };
        volume.log.heads.push(Head { segment, offset: 0, next });
        if !planted(PlantedBug::StaleTailAccepted) {
            // What the record says must be true before it is there: what was found, the last record
            // included, may be in a cache that only a process has lost.
            self.disk.flush_for(Edge::LfsMountFlush)?;
            let judged = Some(position.into());
            let record = Record { number, mounts, clean: false, judged, ..record.clone() };
            write_record(self.disk, &self.geometry, self.id, &record)?;
        }
        self.disk.flush_for(Edge::LfsMountEnd)?;
        Ok(())
    }
}

/// Notes which segments hold cold blocks above all.
pub(super) fn separate(volume: &mut Lfs) {
    let mut cold = vec![0_u32; volume.geometry.segments() as usize];
    let entries = volume.map.all().map(|(_, entry)| entry);
    for entry in entries.filter(|one| !is_buffered(one.place())) {
        let segment = volume.segments.of(entry.place());
        cold[segment as usize] += u32::from(entry.mark().unchecked);
    }
    for (segment, cold) in (0..).zip(cold) {
        let one = volume.segments.get(segment);
        let is_cold = 2 * cold > one.live;
        // A segment that was never used takes no memory.
        if one.cold != is_cold {
            volume.segments.get_mut(segment).cold = is_cold;
        }
    }
}

/// Applies what the log says to the map.
fn apply(volume: &mut Lfs, followed: &Followed) {
    for Found { place, summary, .. } in &followed.parts {
        let segment = volume.segments.of(*place);
        let one = volume.segments.get_mut(segment);
        (one.written, one.checked) = (summary.sequence, summary.sequence);
        volume.log.since_checkpoint += u64::from(summary.blocks());
        let mut next = *place + 1;
        for item in &summary.items {
            match *item {
                Item::Data { block, mark, checksum } => {
                    volume.map.replace(BlockNr::from(block), Entry::new(next, mark, checksum));
                }
                Item::Zeros { block, count } => {
                    let (mut at, end) = (BlockNr::from(block), BlockNr::from(block + count));
                    while let Some(block) = volume.map.next_stored(at, end) {
                        volume.map.replace(block, Entry::UNMAPPED);
                        at = block + 1;
                    }
                }
                Item::Plug { block, mark, checksum, place } => {
                    volume.map.replace(BlockNr::from(block), Entry::new(place, mark, checksum));
                    let one = volume.segments.get_mut(volume.segments.of(place));
                    (one.written, one.checked) = (summary.sequence, summary.sequence);
                }
                Item::Map { .. } | Item::Index { .. } => {}
            }
            next += u32::from(item.in_part().is_some());
        }
    }
}

#[cfg(test)]
mod tests;
