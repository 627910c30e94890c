//! Making and mounting a volume: every label is read, and of several versions of a block the
//! youngest one that holds counts.

mod rebuild;
pub(in crate::loge) mod repair;
pub(in crate::loge) mod salvage;

use super::descriptor;
use super::format::{
    Areas, DESCRIPTOR, GROUP, Label, RECORDS, Record, Rot, SCATTERED, SECTOR_TOMBS, STAMP_LIMIT,
    TRIMS_START, Tomb, trims_are_whole,
};
use super::options::{HEURISTIC, SPARSE as ADDRESSES, TABLE};
use super::parity::LabelParity;
use super::table::Entry;
use super::{Loge, TableForm};
use crate::eager::Mapped;
use crate::eager::runs::{Run, runs};
use bytes::Bytes;
use seekless_engine::arm::Arm;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::data::{Body, Data, Piece, SectorBytes};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Expected, Label as LabelBytes};
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions, MountPath, RecoverySteps};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::{BLOCK_SECTORS, SECTOR_BYTES};
use std::collections::BTreeMap;

/// Blocks whose labels are read at once where the device has sector headers, and blocks of the
/// trim map.
const SCAN_BLOCKS: u64 = 256;
/// Time stamps that are left out after a crash: more than a life can have in use without making
/// them durable. Were they used again, the descriptor of a transaction that was lost could be taken
/// for that of a younger one at the same place, where checksums are CRCs: each ends with its own,
/// and all have the same one as a whole.
const LIFE_STAMPS: u64 = 1 << 32;
/// Set in the options of the superblock if labels are in sector headers; the heuristic follows
/// from bit 8 on.
const HEADERS: u32 = 1;
/// Set if there are more addresses than blocks can be stored.
pub(super) const SPARSE: u32 = 1 << 17;
/// Set if there may be transactions with descriptors, which makes it a volume of version 2.
pub(super) const GROUPS: u32 = 1 << 16;

fn damaged<T>(what: impl Into<String>) -> Result<T, LayoutError> {
    Err(LayoutError::Damaged(what.into()))
}

/// Writes an empty volume. Whatever lies where labels and tombstones will is erased: it could not
/// be told from damage.
pub(super) fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
    let device = disk.blocks();
    let headers = disk.has_labels();
    let chosen = &options.options;
    let (addresses, table) = (chosen.get(&ADDRESSES), chosen.get(&TABLE));
    if addresses.is_some() && table != TableForm::Plain {
        let reason = "a volume with more addresses than room has a plain table: there is no home \
                      for each address; leave one of the two out";
        return Err(LayoutError::BadSize(reason.into()));
    }
    let blocks = addresses.unwrap_or(options.blocks);
    let areas = Areas { blocks, device_blocks: device, headers };
    let mut at = TRIMS_START;
    while let Some(found) = disk.next_data(at).filter(|&found| found < areas.start()) {
        disk.write(found, Data::zeros(1))?;
        at = found + 1;
    }
    if headers {
        for at in areas.start()..areas.end() {
            if disk.labels(at, 1)?[0] != LabelBytes::default() {
                disk.write_labelled(at, Data::zeros(1), &[LabelBytes::default()])?;
            }
        }
    } else {
        let mut group = areas.groups().start;
        while let Some(found) = next_labels(disk, &areas, group) {
            disk.write(areas.label_block(found), Data::zeros(1))?;
            group = found + 1;
        }
    }
    for at in RECORDS {
        disk.write(at, Data::zeros(1))?;
    }
    let record = Record { clean: true, at_rest: true, ..Record::default() };
    disk.write(RECORDS[0], Data::bytes(record.encode(options.identity())))?;
    let superblock = Superblock {
        layout: options.layout,
        // There may be transactions with descriptors.
        version: Superblock::version_for(Sums::NEWEST, 2),
        id: options.id,
        blocks,
        device_blocks: device,
        options: if headers { HEADERS } else { 0 }
            | (chosen.get(&HEURISTIC).encode() << 8)
            | GROUPS
            | table.options()
            | if addresses.is_some() { SPARSE } else { 0 },
        sums: Sums::NEWEST,
    };
    superblock.write(disk)?;
    disk.flush_for(Edge::LogeFormatFlush)?;
    Ok(())
}

/// The first group from `group` on whose label block is not part of a hole. A hole is passed over
/// at once: a medium may go through all of it to tell where it ends.
fn next_labels(disk: &mut dyn Disk, areas: &Areas, group: u64) -> Option<u64> {
    let mut group = group;
    while group < areas.groups().end {
        let at = areas.label_block(group);
        let next = disk.next_data(at)?;
        if next == at {
            return Some(group);
        }
        group = (next / GROUP).max(group + 1);
    }
    None
}

/// A transaction of which something was found, and that is not known to be durable.
#[derive(Debug, Default)]
struct Found {
    /// Its blocks, as its members or its descriptor say; none if that is not known.
    blocks: Vec<Run>,
    /// What was found of it, by block.
    members: BTreeMap<u64, Member>,
    forged: bool,
}

#[derive(Clone, Copy, Debug)]
enum Member {
    Stored { place: u64, sum: u32 },
    Buried,
}

/// A label block that is damaged.
#[derive(Debug)]
struct LostLabels {
    group: u64,
    /// The first place of which the label is damaged.
    place: u64,
}

/// What a scan has found.
struct Scan<'d> {
    disk: &'d mut dyn Disk,
    superblock: Superblock,
    areas: Areas,
    volume: Loge,
    steps: &'d mut RecoverySteps,
    record: Record,
    /// What the record has of the label blocks; then what is left of it without those that were
    /// read.
    parity: Option<LabelParity>,
    /// A label block that is damaged.
    lost: Option<LostLabels>,
    /// Sectors of the trim map that are damaged.
    damaged_trims: Vec<u64>,
    /// The state is that of the record, which has a digest of it.
    knows_digest: bool,
    /// Up to here every transaction is durable, going by what was read so far.
    durable: u64,
    greatest: u64,
    /// Stamp of the newest version of each block that holds; 0 if there is none.
    newest: Vec<u64>,
    /// Labels younger than the record.
    young: Vec<(u64, Label)>,
    dropped: Vec<Found>,
    accepted: u64,
}

/// Recovers the state of a volume.
pub(super) fn mount(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<Loge, LayoutError> {
    let headers = superblock.options & HEADERS != 0;
    if headers && !disk.has_labels() {
        return damaged("its labels are in sector headers, which this device does not have");
    }
    let mut scan = Scan::new(disk, superblock, options, steps);
    scan.read_record()?;
    scan.read_labels()?;
    scan.read_trims();
    scan.find_rest();
    scan.rebuild_lost()?;
    scan.settle_young()?;
    scan.prove()?;
    scan.take_places(options.arm);
    let path = if scan.record.clean { MountPath::Tail } else { MountPath::Scan };
    scan.steps.found(path, scan.accepted, scan.dropped.len() as u64);
    if !options.read_only {
        scan.write_back()?;
    }
    let Scan { disk, mut volume, .. } = scan;
    volume.punching.look(disk, &volume.free);
    Ok(volume)
}

/// The labels of a label block.
fn label_bytes(block: &[u8]) -> &[LabelBytes] {
    block.as_chunks::<{ size_of::<LabelBytes>() }>().0
}

/// True if no label of a block of labels has wrong bytes; the first one is of block `first`.
fn labels_are_whole(id: Identity, blocks: u64, first: u64, block: &Piece) -> bool {
    let bytes = block.to_bytes();
    let labels = bytes.as_chunks::<{ size_of::<LabelBytes>() }>().0;
    (first..).zip(labels).all(|(place, label)| Label::decode(id, place, label, blocks).is_ok())
}

impl<'d> Scan<'d> {
    fn new(
        disk: &'d mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
        steps: &'d mut RecoverySteps,
    ) -> Scan<'d> {
        let headers = superblock.options & HEADERS != 0;
        let Superblock { blocks, device_blocks, .. } = *superblock;
        let areas = Areas { blocks, device_blocks, headers };
        Scan {
            disk,
            superblock: *superblock,
            areas,
            volume: Loge::empty(superblock, areas, options),
            steps,
            record: Record::default(),
            parity: None,
            lost: None,
            damaged_trims: Vec::new(),
            knows_digest: false,
            durable: 0,
            greatest: 0,
            newest: vec![0; blocks as usize],
            young: Vec::new(),
            dropped: Vec::new(),
            accepted: 0,
        }
    }
}

impl Scan<'_> {
    /// The younger of the two records. A crash may have torn one of them, but not both.
    fn read_record(&mut self) -> Result<(), LayoutError> {
        self.steps.begin("read records of the last mount");
        let mut found: Option<Record> = None;
        for at in RECORDS {
            self.steps.read(1);
            // An unreadable record counts as a torn one.
            let id = self.superblock.identity();
            let is_whole = |_, block: &Piece| Record::decode(id, &block.to_bytes()).is_some();
            let Ok(data) = self.disk.read_whole(at, 1, &is_whole) else { continue };
            let record = Record::decode(id, &data.to_bytes());
            let newer = |record: &Record| {
                let younger = found.is_none_or(|best| record.number > best.number);
                Edge::LogeRecordYounger.allows(younger)
            };
            if let Some(record) = record.filter(newer) {
                found = Some(record);
                let rests = record.clean || record.at_rest;
                self.parity = LabelParity::decode(&data.to_bytes()).filter(|_| rests);
            }
        }
        let Some(record) = found else {
            return damaged("both records of the last mount are unreadable");
        };
        self.record = record;
        self.volume.record = record.number;
        self.durable = if record.clean { STAMP_LIMIT } else { record.durable };
        self.greatest = record.durable;
        Ok(())
    }

    fn rot<T>(&self, place: u64) -> Result<T, LayoutError> {
        damaged(format!("the label of block {place} is unreadable"))
    }

    fn read_labels(&mut self) -> Result<(), LayoutError> {
        self.steps.begin("read labels");
        if self.areas.headers { self.read_headers() } else { self.read_label_blocks() }
    }

    fn read_headers(&mut self) -> Result<(), LayoutError> {
        let (mut at, end) = (self.areas.start(), self.areas.end());
        while at < end {
            let count = SCAN_BLOCKS.min(end - at);
            self.steps.read(count);
            for (place, label) in (at..).zip(self.disk.labels(at, count as u32)?) {
                self.label(place, &label)?;
            }
            at += count;
        }
        Ok(())
    }

    fn read_label_blocks(&mut self) -> Result<(), LayoutError> {
        let mut next = self.areas.groups().start;
        // Holes have no labels.
        while let Some(group) = next_labels(self.disk, &self.areas, next) {
            next = group + 1;
            let at = self.areas.label_block(group);
            self.steps.read(1);
            let (id, blocks) = (self.superblock.identity(), self.areas.blocks);
            let first = group * GROUP;
            let is_whole = |_, block: &Piece| labels_are_whole(id, blocks, first, block);
            let (bytes, wrong) = match self.disk.read_whole(at, 1, &is_whole) {
                Ok(data) => self.mend_labels(group, data.to_bytes()),
                Err(_) => (Bytes::new(), Some(at)),
            };
            match (wrong, &mut self.parity) {
                (None, parity) => {
                    parity.iter_mut().for_each(|parity| parity.add(&bytes));
                    self.take_labels(group, &bytes)?;
                }
                (Some(place), Some(_)) if self.lost.is_none() => {
                    self.lost = Some(LostLabels { group, place });
                }
                (Some(place), _) => return self.rot(place),
            }
        }
        Ok(())
    }

    fn take_labels(&mut self, group: u64, bytes: &[u8]) -> Result<(), LayoutError> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        for (place, label) in (group * GROUP..).zip(label_bytes(bytes)) {
            self.label(place, label)?;
        }
        if let Some(area) = &mut self.volume.labels {
            area.load(group, bytes);
        }
        Ok(())
    }

    fn label(&mut self, place: u64, bytes: &LabelBytes) -> Result<(), LayoutError> {
        let label = Label::decode(self.superblock.identity(), place, bytes, self.areas.blocks);
        let label = match label {
            Ok(None) => return Ok(()),
            Ok(Some(label)) if self.areas.is_pool(place) => label,
            Ok(Some(_)) | Err(Rot) => return self.rot(place),
        };
        self.greatest = self.greatest.max(label.stamp);
        self.durable = self.durable.max(label.durable);
        if label.stamp <= self.record.durable && label.block == DESCRIPTOR {
            // No recovery has to verify its transaction.
        } else if label.stamp <= self.record.durable {
            self.version(u64::from(label.block), label.stamp, Entry::new(place as u32, label.sum));
        } else {
            self.young.push((place, label));
        }
        Ok(())
    }

    /// A version of a block holds; it counts if it is the newest one so far.
    fn version(&mut self, block: u64, stamp: u64, entry: Entry) {
        let newest = &mut self.newest[block as usize];
        if stamp > *newest || planted(PlantedBug::StaleStampWins) {
            *newest = stamp;
            self.volume.table.replace(block, entry);
        }
    }

    fn read_trims(&mut self) {
        self.steps.begin("read trim map");
        let mut damaged = Vec::new();
        let mut at = TRIMS_START;
        while let Some(start) = self.disk.next_data(at).filter(|&at| at < self.areas.start()) {
            let count = SCAN_BLOCKS.min(self.areas.start() - start);
            self.steps.read(count);
            if !self.read_trim_blocks(start, count as u32, &mut damaged) {
                for at in start..start + count {
                    if !self.read_trim_blocks(at, 1, &mut damaged) {
                        let first = (at - TRIMS_START) * BLOCK_SECTORS;
                        self.damaged_trims.extend(first..first + BLOCK_SECTORS);
                    }
                }
            }
            at = start + count;
        }
        for (number, sector) in damaged {
            self.mend_trims(number, &sector);
        }
    }

    /// Reads blocks of the trim map; sectors that are not whole are handed back. False if there is
    /// one that cannot be read.
    fn read_trim_blocks(
        &mut self,
        start: u64,
        count: u32,
        damaged: &mut Vec<(u64, SectorBytes)>,
    ) -> bool {
        let id = self.superblock.identity();
        let first = (start - TRIMS_START) * BLOCK_SECTORS;
        let is_whole = |index: u32, block: &Piece| {
            let first = first + u64::from(index) * BLOCK_SECTORS;
            let bytes = block.to_bytes();
            let mut sectors = (first..).zip(bytes.as_chunks::<SECTOR_BYTES>().0);
            sectors.all(|(number, sector)| trims_are_whole(id, number, sector))
        };
        let Ok(data) = self.disk.read_whole(start, count, &is_whole) else { return false };
        let bytes = data.to_bytes();
        for (number, sector) in (first..).zip(bytes.as_chunks::<SECTOR_BYTES>().0) {
            match trims_are_whole(id, number, sector) {
                true => self.volume.trims.load(number as usize, sector),
                false => damaged.push((number, *sector)),
            }
        }
        true
    }

    /// All tombstones, with their blocks.
    fn tombs(&self) -> Result<Vec<(u64, Tomb)>, LayoutError> {
        let mut out = Vec::new();
        for sector in self.volume.trims.written() {
            let first = (sector * SECTOR_TOMBS) as u64;
            for block in first..(first + SECTOR_TOMBS as u64).min(self.areas.blocks) {
                let tomb = self.volume.trims.get(block);
                if !tomb.is_sound(block, self.areas.blocks) {
                    return damaged(format!("the tombstone of block {block} makes no sense"));
                }
                if tomb.stamp > 0 {
                    out.push((block, tomb));
                }
            }
        }
        Ok(out)
    }

    /// Decides which of the transactions that are not known to be durable hold: those of which
    /// each member is there, or has been superseded by one that holds.
    fn settle_young(&mut self) -> Result<(), LayoutError> {
        self.steps.begin("verify young transactions");
        let mut young: BTreeMap<u64, Found> = BTreeMap::new();
        for (place, label) in std::mem::take(&mut self.young) {
            let Label { block, sum, stamp, index, last, .. } = label;
            if block == DESCRIPTOR {
                if stamp > self.durable {
                    self.descriptor(place, sum, stamp, &mut young);
                }
            } else if stamp <= self.durable {
                self.version(u64::from(block), stamp, Entry::new(place as u32, sum));
            } else {
                let member = Member::Stored { place, sum };
                young.entry(stamp).or_default().add(u64::from(block), index, last, member);
            }
        }
        for (block, tomb) in self.tombs()? {
            let Tomb { stamp, before, index, last } = tomb;
            self.greatest = self.greatest.max(stamp);
            // An earlier recovery leaves both stamps alike, and no index: it knew that it holds.
            if stamp <= self.durable || stamp == before {
                self.version(block, stamp, Entry::UNMAPPED);
            } else {
                self.version(block, before, Entry::UNMAPPED);
                young.entry(stamp).or_default().add(block, index, last, Member::Buried);
            }
        }
        self.steps.count(young.len() as u64, "transactions");
        for (stamp, found) in young.into_iter().rev() {
            if !self.holds(stamp, &found) {
                self.dropped.push(found);
                continue;
            }
            self.accepted += 1;
            for (&block, &member) in &found.members {
                let entry = match member {
                    Member::Stored { place, sum } => Entry::new(place as u32, sum),
                    Member::Buried => Entry::UNMAPPED,
                };
                self.version(block, stamp, entry);
            }
        }
        Ok(())
    }

    fn holds(&mut self, stamp: u64, found: &Found) -> bool {
        let scattered = found.blocks.len() != 1;
        if planted(PlantedBug::PartialTransaction)
            || (scattered && planted(PlantedBug::PartialGroup))
        {
            return true;
        }
        let mut blocks = found.blocks.iter().flat_map(|&(at, count)| at..at + u64::from(count));
        !Edge::LogeForged.blocks(found.forged)
            && !found.blocks.is_empty()
            && blocks.all(|block| {
                self.newest[block as usize] > stamp
                    || self.volume.trims.get(block).before == stamp
                    || match found.members.get(&block) {
                        Some(Member::Stored { place, sum }) => self.data_holds(*place, *sum),
                        Some(Member::Buried) => true,
                        None => false,
                    }
            })
    }

    /// Reads the descriptor of a transaction that is not known to be durable.
    fn descriptor(&mut self, place: u64, sum: u32, stamp: u64, young: &mut BTreeMap<u64, Found>) {
        self.steps.read(1);
        let sums = self.superblock.sums;
        let Ok(data) = self.disk.read_expecting(place, Expected::one(sums, sum)) else { return };
        if !Edge::LogeDescriptorSum.allows(sums.has(&data.block(0), sum)) {
            return;
        }
        let blocks = self.areas.blocks;
        let listed =
            descriptor::decode(self.superblock.identity(), stamp, &data.to_bytes(), blocks);
        if let Some(listed) = listed {
            young.entry(stamp).or_default().blocks = runs(listed);
        }
    }

    fn data_holds(&mut self, place: u64, sum: u32) -> bool {
        self.steps.read(1);
        let sums = self.superblock.sums;
        match self.disk.read_expecting(place, Expected::one(sums, sum)) {
            Ok(data) => Edge::LogeDataSum.allows(sums.is_of(&data.block(0), sum)),
            Err(_) => false,
        }
    }

    /// Fills the free map.
    fn take_places(&mut self, arm: Option<&dyn Arm>) {
        self.steps.begin("build block table");
        // Until here any version of a block could have been anywhere.
        self.volume.shape_table(TableForm::of(&self.superblock), arm);
        let volume = &mut self.volume;
        for places in self.areas.pool_runs() {
            volume.free.release_all(places);
        }
        volume.table.each_stored(|_, entry| {
            volume.free.take(entry.place());
            volume.stored += 1;
        });
        self.steps.count(volume.stored, "blocks stored");
        if volume.sorter.is_enabled() {
            volume.table.learn_owners(self.areas.device_blocks);
        }
        // What did not survive may have used the stamps that follow.
        let crashed = Edge::LogeStampGap.blocks(!self.record.clean);
        let gap = if crashed { LIFE_STAMPS } else { 0 };
        volume.next_stamp = self.greatest + 1 + gap;
        volume.commits.restore(0, 1, self.greatest);
    }

    /// Makes the recovered state the one that any later recovery starts from: what does not hold
    /// is erased before a record says that everything is durable.
    fn write_back(&mut self) -> Result<(), LayoutError> {
        self.steps.begin("flush device");
        self.disk.flush_for(Edge::LogeMountFlush)?;
        if planted(PlantedBug::StaleTailAccepted) {
            return Ok(());
        }
        self.steps.begin("erase dropped transactions");
        self.steps.count(self.dropped.len() as u64, "transactions");
        let keep = planted(PlantedBug::DroppedNotErased);
        for found in std::mem::take(&mut self.dropped).into_iter().filter(|_| !keep) {
            self.erase(&found)?;
        }
        if let Some(area) = &mut self.volume.labels {
            for (at, sectors) in area.take_dirty() {
                self.disk.write(at, Data::block_of(Body::Sectors(sectors)))?;
            }
        }
        for (block, sectors) in self.volume.trims.take_dirty() {
            self.disk.write(TRIMS_START + block, Data::block_of(Body::Sectors(sectors)))?;
        }
        self.disk.flush_for(Edge::LogeErasedFlush)?;
        self.steps.begin("write record of this mount");
        let record = self.volume.record_at_rest();
        self.volume.at_rest = self.volume.may_rest();
        let record = Record { at_rest: self.volume.at_rest, ..record };
        let (at, record) = self.volume.next_record(record);
        self.disk.write(at, Data::bytes(record))?;
        self.disk.flush_for(Edge::LogeRecordFlush)?;
        Ok(())
    }

    /// Takes away what is there of a transaction that does not hold.
    fn erase(&mut self, found: &Found) -> Result<(), LayoutError> {
        let none = LabelBytes::default();
        for (&block, &member) in &found.members {
            match (member, &mut self.volume.labels) {
                (Member::Stored { place, .. }, Some(area)) => area.set(place, &none),
                (Member::Stored { place, .. }, None) => {
                    self.disk.write_labelled(place, Data::zeros(1), &[none])?;
                }
                (Member::Buried, _) => {
                    let Tomb { before, .. } = self.volume.trims.get(block);
                    let tomb = Tomb { stamp: before, before, index: 0, last: 0 };
                    self.volume.trims.set(block, tomb);
                }
            }
        }
        Ok(())
    }
}

impl Found {
    fn add(&mut self, block: u64, index: u16, last: u16, member: Member) {
        if (index, last) != SCATTERED {
            let run = (block - u64::from(index), u32::from(last) + 1);
            if self.blocks.is_empty() {
                self.blocks.push(run);
            }
            self.forged |= self.blocks != [run];
        }
        // The members of a forged one need not agree; it is dropped as far as they do.
        self.forged |= self.members.insert(block, member).is_some();
    }
}

#[cfg(test)]
mod tests;
