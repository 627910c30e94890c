//! Making a volume with a damaged map or log mountable again: what is certain becomes the map of a
//! new checkpoint, written to segments in which nothing lies.
//!
//! A block that is lost gets an entry with a checksum that its place does not have, so reading it
//! is an error until a client writes it. The old checkpoint stays until the new record is durable.

use super::super::format::{
    Entry, Item, Judged, MAP_ENTRIES, Mark, Position, Record, Summary, WAYS,
};
use super::salvage::Salvage;
use super::{Recovery, damaged, geometry_of, write_record};
use crate::salvage::{Repaired, lost_blocks, not_marked, nothing_certain};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::layout::{LayoutError, RecoverySteps};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use std::collections::VecDeque;

/// Repairs a volume.
///
/// # Errors
/// If nothing is certain, there is no room, or what the medium reports.
pub(in crate::lfs) fn repair(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    give_up: bool,
) -> Result<Repaired, LayoutError> {
    let geometry = geometry_of(superblock)?;
    let (id, sums) = (superblock.identity(), superblock.sums);
    let steps = &mut RecoverySteps::new(None);
    let mut recovery = Recovery { disk, id, sums, geometry, steps, lost: None };
    let (mut salvage, record) = recovery.salvage();
    let lost = lost_blocks(&salvage, geometry.blocks);
    if lost.len() as u64 == geometry.blocks {
        return nothing_certain();
    }
    let Some(record) = record else { return nothing_certain() };
    for &block in &lost {
        salvage.entries[block as usize] = Entry::UNMAPPED;
    }
    let mut writer = Writer::new(&mut recovery, &salvage, record);
    if !give_up {
        writer.mark(&mut salvage, &lost)?;
    }
    writer.write_map(&salvage)?;
    Ok(Repaired { lost, marked: !give_up })
}

/// Writes the map and a record behind everything that is on the device.
struct Writer<'r, 'd> {
    recovery: &'r mut Recovery<'d>,
    record: Record,
    /// Segments in which nothing certain lies.
    free: VecDeque<u32>,
    position: Position,
}

impl<'r, 'd> Writer<'r, 'd> {
    fn new(recovery: &'r mut Recovery<'d>, salvage: &Salvage, record: Record) -> Self {
        let geometry = recovery.geometry;
        let mut used = vec![false; geometry.segments() as usize];
        for entry in salvage.entries.iter().filter(|entry| entry.is_mapped()) {
            used[geometry.segment_of(entry.place()) as usize] = true;
        }
        // The old map stays, for a repair that is interrupted.
        let old: Vec<Entry> =
            record.roots.iter().filter(|root| root.is_mapped()).copied().collect();
        for root in old {
            let slices = recovery.read_meta(root).unwrap_or_default();
            for place in slices.iter().chain([&root]).map(|entry| entry.place()) {
                if geometry.holds(place, 1) {
                    used[geometry.segment_of(place) as usize] = true;
                }
            }
        }
        let free = (0..geometry.segments() as u32).filter(|&one| !used[one as usize]).collect();
        let last = recovery.scan_parts().last_sequence().max(record.start.sequence);
        let position = Position { sequence: last, link: 0, ways: [0; WAYS] };
        Writer { recovery, record, free, position }
    }

    fn take(&mut self) -> Result<u32, LayoutError> {
        match self.free.pop_front() {
            Some(segment) => Ok(self.recovery.geometry.start_of(segment)),
            None => damaged("no segment is free for a new map; `seekless salvage` copies the rest"),
        }
    }

    /// Gives lost blocks entries that no content fulfils.
    fn mark(&mut self, salvage: &mut Salvage, lost: &[BlockNr]) -> Result<(), LayoutError> {
        let geometry = self.recovery.geometry;
        let segment = geometry.segment as usize;
        let meta = (geometry.slices() + geometry.indices()).div_ceil(segment as u64 - 1) as usize;
        if lost.len().div_ceil(segment) + meta + 4 > self.free.len() {
            return not_marked(lost.len(), "there is no room to mark them");
        }
        for chunk in lost.chunks(segment) {
            let first = self.take()?;
            for (&block, place) in chunk.iter().zip(first..) {
                let found = self.recovery.disk.read(BlockNr::from(place), 1);
                let sum = found.map_or(0, |data| self.recovery.sums.of(&data.block(0)));
                salvage.entries[block as usize] = Entry::new(place, Mark::default(), !sum);
            }
        }
        Ok(())
    }

    /// Writes all of the map, and the record that names it.
    fn write_map(&mut self, salvage: &Salvage) -> Result<(), LayoutError> {
        let slice = |slice| move |checksum| Item::Map { slice, checksum };
        let index = |index| move |checksum| Item::Index { index, checksum };
        let slices = self.write_blocks(&salvage.entries, slice)?;
        let roots = self.write_blocks(&slices, index)?;
        let geometry = self.recovery.geometry;
        let next = self.take()?;
        self.position.ways = [0, next, 0, 0];
        self.recovery.disk.flush_for(Edge::LfsRepairFlush)?;
        let Position { sequence, link, .. } = self.position;
        let record = Record {
            number: self.record.number + 1,
            mounts: self.record.mounts + 1,
            clean: true,
            start: self.position,
            judged: Some(Judged { sequence, link }),
            roots,
        };
        write_record(self.recovery.disk, &geometry, self.recovery.id, &record)?;
        self.recovery.disk.flush_for(Edge::LfsRepairEnd)?;
        Ok(())
    }

    /// Writes the blocks that keep these entries, each as a part of the log with others; returns
    /// where they lie. Blocks without entries are not written.
    fn write_blocks<I: FnOnce(u32) -> Item>(
        &mut self,
        entries: &[Entry],
        item: impl Fn(u32) -> I,
    ) -> Result<Vec<Entry>, LayoutError> {
        let mut named = vec![Entry::UNMAPPED; entries.len().div_ceil(MAP_ENTRIES)];
        let is_needed = |chunk: &[Entry]| chunk.iter().any(|entry| entry.is_mapped());
        let needed: Vec<usize> = (0..)
            .zip(entries.chunks(MAP_ENTRIES))
            .filter(|(_, c)| is_needed(c))
            .map(|(n, _)| n)
            .collect();
        let most = (self.recovery.geometry.segment as usize - 1).min(256);
        for numbers in needed.chunks(most) {
            let place = self.take()?;
            let (mut items, mut data) = (Vec::new(), Data::none());
            for (&number, place) in numbers.iter().zip(place + 1..) {
                let from = number * MAP_ENTRIES;
                let chunk = &entries[from..(from + MAP_ENTRIES).min(entries.len())];
                let mut bytes: Vec<u8> = chunk.iter().flat_map(|entry| entry.encode()).collect();
                bytes.resize(BLOCK_BYTES, 0);
                let piece = Piece::block(Body::Bytes(bytes.into()));
                let sum = self.recovery.sums.of(&piece);
                items.push(item(number as u32)(sum));
                named[number] = Entry::new(place, Mark::default(), sum);
                data.push(piece);
            }
            self.write_part(place, items, data)?;
        }
        Ok(named)
    }

    fn write_part(&mut self, place: u32, items: Vec<Item>, data: Data) -> Result<(), LayoutError> {
        let sequence = self.position.sequence + 1;
        let summary = Summary {
            sequence,
            link: self.position.link,
            durable: self.position.sequence,
            mount: self.record.mounts + 1,
            ends: true,
            checkpoint: self.record.number,
            ways: [0; WAYS],
            items,
            before: None,
        };
        let (body, link) = summary.encode(self.recovery.id, place);
        let mut part = Data::block_of(body);
        part.append(data);
        self.recovery.disk.write(BlockNr::from(place), part)?;
        self.position = Position { sequence, link, ways: [0; WAYS] };
        Ok(())
    }
}
