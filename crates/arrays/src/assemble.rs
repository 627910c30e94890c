//! Making an array, finding it again, giving it a new member. These run alone, in blocking style.
//!
//! Assembling repairs what a crash has left: records of the logs are written once more, marked
//! regions are brought into step. Only then does a new superblock say who belongs to the array, and
//! only after that are logs and marks declared done, so that a second crash finds them again.

use super::array::Parts;
use super::bitmap::{self, Bitmap, Marks};
use super::geometry::Geometry;
use super::log::{self, Log, Run};
use super::member::{BITMAP_BLOCK, LOG_BLOCK, MemberState, MemberSuperblock};
use super::{Array, Level, MOST_CHUNK_BLOCKS, MOST_MEMBERS, VolumeError, least_log_blocks};
use seekless_engine::data::{Cuts, Data, Piece, cancel};
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BLOCK_BYTES;
use std::collections::BTreeMap;

/// Blocks of a log if the member is large enough not to miss them (4 MiB with what is before it).
pub(super) const USUAL_LOG_BLOCKS: u32 = 1020;
/// From this size on, chunks begin at a mebibyte of the member (64 MiB).
const LARGE_BLOCKS: u64 = 64 * 256;
const MEBIBYTE: u64 = (1 << 20) / BLOCK_BYTES as u64;
/// Blocks of each member that a resync reads at a time (1 MiB).
const RESYNC_BLOCKS: u64 = 256;

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct CreateArray {
    /// The level.
    pub level: Level,
    /// Blocks in a chunk.
    pub chunk: u32,
    /// Tells arrays apart.
    pub id: u128,
    /// All blocks of all members are zeros. Otherwise the first assembly brings them into step.
    pub blank: bool,
}

/// The sizes of an array whose smallest member has `device` blocks: geometry and blocks of a log.
///
/// # Errors
/// Numbers that make no array.
pub fn shape(
    level: Level,
    members: usize,
    chunk: u32,
    device: u64,
) -> Result<(Geometry, u32), VolumeError> {
    let bad = |reason: String| Err(VolumeError::BadShape(reason));
    if !(level.least_members()..=MOST_MEMBERS).contains(&members) {
        let least = level.least_members();
        return bad(format!(
            "{level} has {least} to {MOST_MEMBERS} members, not {members}; name an image for each"
        ));
    }
    if !(1..=MOST_CHUNK_BLOCKS).contains(&chunk) {
        return bad(format!(
            "a chunk has 1 to {MOST_CHUNK_BLOCKS} blocks of 4 KiB, not {chunk}; choose a --chunk \
             of 4k to 1M"
        ));
    }
    let large = device >= LARGE_BLOCKS;
    let log_blocks = match level {
        Level::Raid5 if large => USUAL_LOG_BLOCKS.max(least_log_blocks(members, chunk)),
        Level::Raid5 => least_log_blocks(members, chunk),
        _ => 0,
    };
    let first = LOG_BLOCK + u64::from(log_blocks);
    let first = if large { first.next_multiple_of(MEBIBYTE) } else { first };
    let stripes = device.saturating_sub(first) / u64::from(chunk);
    if stripes == 0 {
        return bad(format!(
            "a member of {device} blocks of 4 KiB is too small: {level} with chunks of {chunk} \
             needs at least {}; choose larger devices, or smaller chunks",
            first + u64::from(chunk)
        ));
    }
    Ok((Geometry { level, members, chunk, first, stripes }, log_blocks))
}

/// Blocks that each member of an array needs to offer `blocks` blocks in all.
///
/// # Errors
/// Numbers that make no array.
pub fn member_blocks(
    level: Level,
    members: usize,
    chunk: u32,
    blocks: u64,
) -> Result<u64, VolumeError> {
    // What precedes the chunks depends on the size, so both are tried.
    let (small, _) = shape(level, members, chunk, LARGE_BLOCKS - 1)?;
    let stripes = blocks.div_ceil(small.stripe_blocks());
    let needed = small.block(stripes, 0);
    if needed < LARGE_BLOCKS {
        return Ok(needed);
    }
    let (large, _) = shape(level, members, chunk, LARGE_BLOCKS)?;
    Ok(large.block(stripes, 0).max(LARGE_BLOCKS))
}

/// Names the member in an error of its medium.
fn on<T>(member: usize, result: Result<T, IoError>) -> Result<T, VolumeError> {
    result.map_err(|error| VolumeError::Io { member, error })
}

/// Makes an array of these members, in their order, and returns what they now say.
///
/// # Errors
/// Numbers that make no array, and what the media report.
pub fn create(
    disks: &mut [&mut dyn Disk],
    options: &CreateArray,
) -> Result<MemberSuperblock, VolumeError> {
    let &CreateArray { level, chunk, id, blank } = options;
    let device = disks.iter().map(|disk| disk.blocks()).min().unwrap_or(0);
    let (geometry, log_blocks) = shape(level, disks.len(), chunk, device)?;
    let mut superblock = MemberSuperblock {
        id,
        geometry,
        log_blocks,
        index: 0,
        events: 1,
        clean: blank,
        states: vec![MemberState::Active; disks.len()],
        rebuilt: 0,
    };
    for (member, disk) in disks.iter_mut().enumerate() {
        on(member, prepare(*disk, &superblock, !blank))?;
        on(member, write_both(*disk, &mut superblock, member))?;
    }
    Ok(superblock)
}

/// An empty log, and no marks or all.
fn prepare(
    disk: &mut dyn Disk,
    superblock: &MemberSuperblock,
    marked: bool,
) -> Result<(), IoError> {
    let regions = if marked { bitmap::MOST_REGIONS as usize } else { 0 };
    disk.write(BITMAP_BLOCK, Data::bytes(bitmap::encode(0..regions)))?;
    let end = LOG_BLOCK + u64::from(superblock.log_blocks);
    let mut at = LOG_BLOCK;
    while at < end {
        let count = (end - at).min(RESYNC_BLOCKS);
        disk.write(at, Data::zeros(count as u32))?;
        at += count;
    }
    Ok(())
}

/// Both copies of the superblock, the younger one last.
fn write_both(
    disk: &mut dyn Disk,
    superblock: &mut MemberSuperblock,
    member: usize,
) -> Result<(), IoError> {
    superblock.events -= 1;
    superblock.write(disk, member)?;
    superblock.events += 1;
    superblock.write(disk, member)?;
    disk.flush()
}

/// How to assemble.
#[derive(Clone, Copy, Debug, Default)]
pub struct AssembleOptions {
    /// Members may lose completed writes until they are flushed.
    pub volatile: bool,
    /// Write nothing.
    pub read_only: bool,
    /// Go on without members that should be there, as far as the level can.
    pub degraded: bool,
}

/// An array found, and what was done to it.
#[derive(Debug)]
pub struct Assembled {
    /// The array.
    pub array: Array,
    /// Members that are not part of it now.
    pub missing: Vec<usize>,
    /// It had been ended in order.
    pub clean: bool,
    /// Blocks written once more from logs.
    pub replayed: u64,
    /// Stripes read to bring marked regions into step.
    pub resynced: u64,
    /// Blocks read.
    pub blocks_read: u64,
}

/// Which of some devices is which member: for each member the position of its device among
/// `found`, if one claims to be it.
///
/// # Errors
/// Members of different arrays, or two that claim the same place.
pub fn arrange(found: &[Option<MemberSuperblock>]) -> Result<Vec<Option<usize>>, VolumeError> {
    // Of several arrays the one with the most members here is meant, or else the first.
    let fellows =
        |one: &&MemberSuperblock| found.iter().flatten().filter(|other| one.id == other.id).count();
    let first = found.iter().flatten().rev().max_by_key(fellows).ok_or(VolumeError::NoMember)?;
    let mut places = vec![None; first.geometry.members];
    for (device, superblock) in found.iter().enumerate() {
        let Some(superblock) = superblock else { continue };
        if superblock.id != first.id || superblock.geometry != first.geometry {
            let (found, expected) = (superblock.id, first.id);
            return Err(VolumeError::Foreign { device: device + 1, found, expected });
        }
        let member = superblock.index;
        if let Some(other) = places[member].replace(device) {
            return Err(VolumeError::Twice { first: other + 1, second: device + 1, member });
        }
    }
    Ok(places)
}

/// Members in words.
pub(super) fn names(members: &[usize]) -> String {
    members.iter().map(|member| format!("member {member}")).collect::<Vec<_>>().join(", ")
}

/// Two members that each say of the other that it is out were in use without each other since: who
/// of them is right is not for us to say. What only the younger copy of a superblock says was cut
/// off by a crash before anything was acknowledged. Of more than two members one may say so that
/// was put out before the other was replaced.
fn diverged(
    found: &[Option<MemberSuperblock>],
    older: &[Option<MemberSuperblock>],
    newest: &MemberSuperblock,
) -> Result<(), VolumeError> {
    if found.len() > 2 {
        return Ok(());
    }
    let second = newest.index;
    for (one, before) in found.iter().zip(older) {
        let (Some(one), Some(before)) = (one, before) else { continue };
        let first = one.index;
        let out = |of: &MemberSuperblock, who: usize| of.states[who] == MemberState::Out;
        let sure = out(one, second) && out(before, second);
        if out(newest, first) && sure && !out(one, first) {
            return Err(VolumeError::Diverged { first, second });
        }
    }
    Ok(())
}

/// The superblock with the youngest word, and which members may be used according to it.
fn judge(
    found: &[Option<MemberSuperblock>],
    older: &[Option<MemberSuperblock>],
    degraded: bool,
) -> Result<(MemberSuperblock, Vec<bool>), VolumeError> {
    let newest =
        found.iter().flatten().max_by_key(|one| one.events).ok_or(VolumeError::NoMember)?;
    // Changes reach the members one by one, so a crash leaves some of them one behind, no more; and
    // each start, end and replacement is two changes, so who is one behind has missed no data.
    let recent = |one: &MemberSuperblock| {
        one.events + 1 >= newest.events || planted(PlantedBug::StaleMember)
    };
    diverged(found, older, newest)?;
    let wanted = |member: usize| {
        newest.states[member] != MemberState::Out || planted(PlantedBug::StaleMember)
    };
    let usable: Vec<bool> = (0..found.len())
        .map(|member| wanted(member) && found[member].as_ref().is_some_and(recent))
        .collect();
    let active = |member: &usize| newest.states[*member] == MemberState::Active;
    let gone: Vec<usize> = (0..found.len()).filter(|&member| !usable[member]).collect();
    let short: Vec<usize> = (0..found.len())
        .filter(|member| !usable[*member] || newest.states[*member] == MemberState::Rebuilding)
        .collect();
    let (level, members) = (newest.geometry.level, found.len());
    if short.len() > level.spare(members) {
        let (missing, who) = (short.len(), names(&short));
        return Err(VolumeError::TooFew { missing, members, who, level });
    }
    let news: Vec<usize> = gone.iter().copied().filter(active).collect();
    if !news.is_empty() && !degraded {
        let (missing, who) = (news.len(), names(&news));
        return Err(VolumeError::Degraded { missing, members, who });
    }
    Ok((newest.clone(), usable))
}

/// Finds an array on its members, which are in their places; `None` for one that is missing.
///
/// # Errors
/// Members that do not belong together, too few of them, logs that cannot be trusted, and what the
/// media report.
pub fn assemble(
    disks: &mut [Option<&mut dyn Disk>],
    options: &AssembleOptions,
) -> Result<Assembled, VolumeError> {
    let (mut found, mut older) = (Vec::new(), Vec::new());
    for disk in disks.iter_mut() {
        let both = match disk.as_mut().map(|disk| MemberSuperblock::read_both(*disk)) {
            None => None,
            Some(Ok(both)) => Some(both),
            Some(Err(_)) if options.degraded => None,
            Some(Err(error)) => return Err(error),
        };
        let (superblock, before) = both.unzip();
        found.push(superblock);
        older.push(before.flatten());
    }
    let places = arrange(&found)?;
    let ordered = places.len() == disks.len()
        && places.iter().enumerate().all(|(member, place)| place.is_none_or(|at| at == member));
    assert!(ordered, "members are handed in at their places");
    let (superblock, usable) = judge(&found, &older, options.degraded)?;
    let behind = |one: &Option<MemberSuperblock>| {
        one.as_ref().is_some_and(|one| one.events < superblock.events)
    };
    let behind = found.iter().map(behind).collect();
    let (read, replayed) = (2 * found.len() as u64, 0);
    let mut recovery = Recovery { disks, superblock, usable, behind, options, read, replayed };
    recovery.run()
}

struct Recovery<'r, 'd> {
    disks: &'r mut [Option<&'d mut dyn Disk>],
    superblock: MemberSuperblock,
    usable: Vec<bool>,
    /// Members that have not heard the last word.
    behind: Vec<bool>,
    options: &'r AssembleOptions,
    read: u64,
    replayed: u64,
}

impl Recovery<'_, '_> {
    fn disk(&mut self, member: usize) -> &mut dyn Disk {
        self.disks[member].as_deref_mut().expect("a usable member is there")
    }

    fn members(&self) -> Vec<usize> {
        (0..self.usable.len()).filter(|&member| self.usable[member]).collect()
    }

    /// True if a member has what it should have of a stripe.
    fn present(&self, member: usize, stripe: u64) -> bool {
        let rebuilt = stripe < self.superblock.rebuilt;
        self.usable[member]
            && match self.superblock.states[member] {
                MemberState::Rebuilding => rebuilt,
                MemberState::Active | MemberState::Out => true,
            }
    }

    fn run(&mut self) -> Result<Assembled, VolumeError> {
        let clean = self.superblock.clean;
        let read_only = self.options.read_only;
        let mut damaged = Vec::new();
        let mut logs = Vec::new();
        let mut overlay = Vec::new();
        for member in 0..self.usable.len() {
            let contents = self.scan(member)?;
            if contents.damaged && !clean {
                damaged.push(member);
            } else if !clean {
                overlay.extend(contents.runs);
            }
            let (id, log_blocks) = (self.superblock.id, self.superblock.log_blocks);
            if log_blocks > 0 {
                logs.push(Log::new(id, member, log_blocks, contents.last, contents.head));
            }
        }
        let states = &self.superblock.states;
        let short = self.usable.contains(&false) || states.contains(&MemberState::Rebuilding);
        if let Some(&member) = damaged.first().filter(|_| short) {
            return Err(VolumeError::LogDamaged { member });
        }
        overlay.retain(|run| self.usable.get(run.member) == Some(&true));
        if !read_only {
            self.inform()?;
            self.replay(std::mem::take(&mut overlay))?;
        }
        let marked = if clean { Vec::new() } else { self.marked(!damaged.is_empty())? };
        let (mut resynced, mut distrusted) = (0, Vec::new());
        if read_only {
            distrusted = marked;
            self.count_out();
        } else {
            let marked = if planted(PlantedBug::NoResync) { Vec::new() } else { marked };
            for stripes in marked {
                resynced += stripes.end - stripes.start;
                self.resync(stripes)?;
            }
            self.sign(&mut logs)?;
        }
        let missing = (0..self.usable.len()).filter(|&member| !self.usable[member]).collect();
        let parts = Parts {
            superblock: self.superblock.clone(),
            volatile: self.options.volatile,
            read_only,
            distrusted,
            overlay,
            logs,
        };
        let (replayed, blocks_read) = (self.replayed, self.read);
        let array = Array::new(parts);
        Ok(Assembled { array, missing, clean, replayed, resynced, blocks_read })
    }

    fn scan(&mut self, member: usize) -> Result<log::Contents, VolumeError> {
        let (id, blocks) = (self.superblock.id, self.superblock.log_blocks);
        if !self.usable[member] || blocks == 0 {
            return Ok(log::Contents::default());
        }
        self.read += u64::from(blocks);
        let chunks = self.superblock.geometry.first..self.superblock.device_blocks();
        let bounds = log::Bounds { members: self.usable.len(), blocks: chunks };
        match self.disk(member).read(LOG_BLOCK, blocks) {
            Ok(ring) => Ok(log::scan(&ring, id, member, &bounds)),
            Err(IoError::Media { .. } | IoError::Checksum { .. }) => {
                Ok(log::Contents { damaged: true, ..log::Contents::default() })
            }
            Err(error) => Err(VolumeError::Io { member, error }),
        }
    }

    /// Writes once more what the logs hold, of each block the youngest content only. It may be in
    /// its place and durable; if an older one went there first, and this is cut off and the member
    /// with the log lost, it would be gone.
    fn replay(&mut self, runs: Vec<Run>) -> Result<(), VolumeError> {
        let mut youngest = BTreeMap::new();
        for Run { member, at, data } in runs {
            if planted(PlantedBug::ReplayedInTurn) {
                on(member, self.disk(member).write(at, data.clone()))?;
            }
            youngest.extend((at..).zip(data.each()).map(|(at, piece)| ((member, at), piece)));
        }
        while let Some(((member, at), first)) = youngest.pop_first() {
            let mut data = Data::none();
            data.push(first);
            while let Some(next) = youngest.remove(&(member, at + u64::from(data.blocks()))) {
                data.push(next);
            }
            self.replayed += u64::from(data.blocks());
            on(member, self.disk(member).write(at, data))?;
        }
        Ok(())
    }

    /// Stripes that may not be in step: those of marked regions, or all of them.
    fn marked(&mut self, all: bool) -> Result<Vec<std::ops::Range<u64>>, VolumeError> {
        let geometry = self.superblock.geometry;
        if geometry.level == Level::Raid0 {
            return Ok(Vec::new());
        }
        let bitmap = Bitmap::new(&geometry);
        let mut blocks = Vec::new();
        for member in self.members() {
            self.read += 1;
            // What cannot be read counts as marked.
            let block = self.disk(member).read(BITMAP_BLOCK, 1);
            let block = block.map_or_else(|_| vec![0; BLOCK_BYTES].into(), |one| one.to_bytes());
            blocks.push(Marks::new(block));
        }
        let marked = |region| all || blocks.iter().any(|block| block.is_set(region));
        let regions = (0..bitmap.regions()).filter(|&region| marked(region));
        Ok(regions.map(|region| bitmap.stripes(region, &geometry)).collect())
    }

    /// Brings stripes into step: copies are made equal, parity is computed anew. Where a member is
    /// missing there is nothing to be in step with.
    fn resync(&mut self, stripes: std::ops::Range<u64>) -> Result<(), VolumeError> {
        let geometry = self.superblock.geometry;
        let each = (RESYNC_BLOCKS / u64::from(geometry.chunk)).max(1);
        let mut first = stripes.start;
        while first < stripes.end {
            // A rebuild has been through all of them or through none.
            let border = self.superblock.rebuilt;
            let end = (first + each).min(stripes.end);
            let end = if first < border { end.min(border) } else { end };
            let here: Vec<usize> =
                self.members().into_iter().filter(|&one| self.present(one, first)).collect();
            match geometry.level {
                Level::Raid1 => self.copy(first, end, &here)?,
                Level::Raid5 if here.len() == geometry.members => self.add_up(first, end)?,
                _ => {}
            }
            first = end;
        }
        Ok(())
    }

    fn read_stripes(&mut self, member: usize, first: u64, end: u64) -> Result<Data, VolumeError> {
        let geometry = self.superblock.geometry;
        let count = ((end - first) * u64::from(geometry.chunk)) as u32;
        self.read += u64::from(count);
        on(member, self.disk(member).read(geometry.block(first, 0), count))
    }

    fn copy(&mut self, first: u64, end: u64, here: &[usize]) -> Result<(), VolumeError> {
        let Some((&source, others)) = here.split_first() else { return Ok(()) };
        let data = self.read_stripes(source, first, end)?;
        for &member in others {
            // Copies are mostly equal as they are kept; only where they are not need bytes tell.
            let found = self.read_stripes(member, first, end)?;
            let same = |(a, b): (Piece, Piece)| a == b || a.to_bytes() == b.to_bytes();
            if found != data && !found.each().zip(data.each()).all(same) {
                let at = self.superblock.geometry.block(first, 0);
                on(member, self.disk(member).write(at, data.clone()))?;
            }
        }
        Ok(())
    }

    fn add_up(&mut self, first: u64, end: u64) -> Result<(), VolumeError> {
        let geometry = self.superblock.geometry;
        let mut contents = Vec::with_capacity(geometry.members);
        for member in 0..geometry.members {
            contents.push(self.read_stripes(member, first, end)?);
        }
        let mut cuts: Vec<Cuts<'_>> = contents.iter().map(Data::cuts).collect();
        for stripe in first..end {
            let chunks: Vec<Data> = cuts.iter_mut().map(|cut| cut.take(geometry.chunk)).collect();
            let parity = geometry.parity(stripe).expect("RAID-5 has parity");
            if cancel(&chunks.iter().collect::<Vec<_>>()) {
                continue;
            }
            let (one, others) = chunks.split_first().expect("an array has members");
            let sum = others.iter().fold(one.clone(), |sum, data| sum.xor(data));
            // What all of them sum to is by how much the parity is off.
            let right = sum.xor(&chunks[parity]);
            on(parity, self.disk(parity).write(geometry.block(stripe, 0), right))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), VolumeError> {
        for member in self.members() {
            on(member, self.disk(member).flush())?;
        }
        Ok(())
    }

    /// Who is missing is out.
    fn count_out(&mut self) {
        for member in 0..self.usable.len() {
            let state = &mut self.superblock.states[member];
            match (self.usable[member], *state) {
                (false, _) => *state = MemberState::Out,
                (true, MemberState::Out) => *state = MemberState::Active,
                (true, _) => {}
            }
        }
    }

    /// Tells the last word to who has not heard it, before anything is changed. Nobody may fall two
    /// behind: the next record takes the place of the one before the last. And the last word may be
    /// that an array which had been ended in order was opened; if repairs were cut off then, and
    /// the members that knew it left out of the next assembly, that one would repair nothing.
    fn inform(&mut self) -> Result<(), VolumeError> {
        let mut behind = self.members();
        behind.retain(|&member| self.behind[member]);
        for member in behind {
            let superblock = self.superblock.clone();
            on(member, superblock.write(self.disk(member), member))?;
        }
        self.flush()
    }

    /// Writes down who belongs to the array, then that nothing is left to repair.
    fn sign(&mut self, logs: &mut [Log]) -> Result<(), VolumeError> {
        self.flush()?;
        self.superblock.clean = false;
        self.count_out();
        // Twice: a member that has missed this start is two behind then, and is not taken for one
        // that a crash has left behind. And who is missing stands in both copies: were the only one
        // that knows it unreadable later, the member would be taken back.
        let times = if planted(PlantedBug::StaleMember) { 1 } else { 2 };
        for _ in 0..times {
            self.superblock.events += 1;
            for member in self.members() {
                let superblock = self.superblock.clone();
                on(member, superblock.write(self.disk(member), member))?;
            }
            self.flush()?;
        }
        // The logs go first: a record that is replayed again brings back the parity that it was
        // logged with, and where that has been brought into step since, only the mark tells.
        for member in self.members() {
            if let Some(log) = logs.get_mut(member) {
                let (at, header) = log.open(self.superblock.events);
                on(member, self.disk(member).write(at, header))?;
            }
        }
        if !logs.is_empty() {
            self.flush()?;
        }
        let empty = bitmap::encode(std::iter::empty());
        for member in self.members() {
            on(member, self.disk(member).write(BITMAP_BLOCK, Data::bytes(empty.clone())))?;
        }
        self.flush()
    }
}

/// Writes the superblock to all usable members but one.
fn tell_others(
    disks: &mut [Option<&mut dyn Disk>],
    usable: &[bool],
    except: usize,
    superblock: &MemberSuperblock,
) -> Result<(), VolumeError> {
    for (place, disk) in disks.iter_mut().enumerate() {
        if let Some(disk) = disk.as_mut().filter(|_| usable[place] && place != except) {
            on(place, superblock.write(*disk, place))?;
            on(place, disk.flush())?;
        }
    }
    Ok(())
}

/// Puts a new device in the place of a member: the next assembly begins to fill it. The other
/// members are in their places; `None` for those that are missing.
///
/// # Errors
/// A level without redundancy, a device that is too small, too few other members, and what the
/// media report.
pub fn replace(
    disks: &mut [Option<&mut dyn Disk>],
    member: usize,
    new: &mut dyn Disk,
) -> Result<MemberSuperblock, VolumeError> {
    let mut found = Vec::with_capacity(disks.len());
    for (place, disk) in disks.iter_mut().enumerate() {
        let disk = disk.as_mut().filter(|_| place != member);
        found.push(match disk {
            None => None,
            Some(disk) => Some(MemberSuperblock::read(*disk)?),
        });
    }
    let (mut superblock, usable) = judge(&found, &[], true)?;
    let needed = superblock.device_blocks();
    if new.blocks() < needed {
        return Err(VolumeError::Truncated { needed, found: new.blocks() });
    }
    for (place, disk) in disks.iter_mut().enumerate() {
        let late = found[place].as_ref().is_some_and(|one| one.events < superblock.events);
        if let Some(disk) = disk.as_mut().filter(|_| usable[place] && late) {
            on(place, superblock.write(*disk, place))?;
            on(place, disk.flush())?;
        }
    }
    superblock.events += 1;
    superblock.rebuilt = 0;
    for (place, state) in superblock.states.iter_mut().enumerate() {
        match *state {
            _ if place == member => *state = MemberState::Rebuilding,
            // One at a time: what was being filled begins anew later.
            MemberState::Rebuilding => *state = MemberState::Out,
            _ => {}
        }
    }
    on(member, prepare(new, &superblock, false))?;
    on(member, write_both(new, &mut superblock, member))?;
    tell_others(disks, &usable, member, &superblock)?;
    // Once more, so that the device that was replaced is two behind.
    superblock.events += 1;
    on(member, superblock.write(new, member))?;
    on(member, new.flush())?;
    tell_others(disks, &usable, member, &superblock)?;
    Ok(superblock)
}
