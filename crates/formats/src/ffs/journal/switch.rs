//! Another policy for a file system that is not mounted, with a log if the policy wants one that is
//! not there.
//!
//! A log on the same volume lies at its end if the volume reaches behind the file system, or else
//! in a file. The file takes free space in one piece; one that an earlier switch has left is used
//! again.
//!
//! Until all of it is durable, the file system says that it was left by soft updates: it may leak,
//! and has no other damage. So a switch that is cut off anywhere leaves the old file system or the
//! new one, which `soft` mounts at once and a repair marks as clean.

use super::abandon::copies;
use super::file::{LogFile, most_bytes};
use super::held;
use super::place::{self, LEAST, default_bytes, log_id};
use crate::error::FsError;
use crate::ffs::offline::check::finding::Finding;
use crate::ffs::offline::check::state::{Brief, Known};
use crate::ffs::offline::check::{Examined, examine, read_inode, write_group};
use crate::ffs::offline::store::Store;
use crate::ffs::offline::superblocks::{self, load};
use crate::ffs::ondisk::format::{
    LOG_INODE, LogPlace, PolicyAdvice, Recovery, SUPERBLOCK_AT, SUPERBLOCK_BLOCK, State, Superblock,
};
use crate::ffs::ondisk::geometry::{Fragment, Geometry};
use crate::options::{MkfsOptions, SwitchOptions};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::size::Size;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_fs::call::FileKind;
use seekless_fs::policy::PolicyKind;
use std::fmt;

/// What a switch has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// The policy that a mount took before if the user named none.
    pub from: PolicyKind,
    /// The one that it takes now.
    pub to: PolicyKind,
    /// The log that was made, and its bytes.
    pub made: Option<(LogPlace, u64)>,
}

impl fmt::Display for Switched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}, before {}", self.to.name(), self.from.name())?;
        let Some((log, bytes)) = self.made else { return Ok(()) };
        let place = match log.kind {
            LogPlace::AT_END => "at the end of the volume",
            LogPlace::ELSEWHERE => "on its own device",
            _ => "in a file",
        };
        write!(f, ", a new log of {} {place}", Size::from_blocks(bytes / BLOCK_BYTES as u64))
    }
}

/// Gives a file system another policy.
///
/// # Errors
/// A file system that was not unmounted or needs a repair ([`FsError::NotClean`],
/// [`FsError::MetDamage`], [`FsError::LostSuperblock`], [`FsError::NotSound`]);
/// [`FsError::NoLogRoom`]; a log that is not there, or that is not possible; errors of the volume.
pub fn switch(disk: &mut dyn Disk, options: &SwitchOptions) -> Result<Switched, FsError> {
    let policy = options.policy;
    let superblock = clean(disk)?;
    let from = superblock.policy.kind();
    if !policy.is_logged() || superblock.log.serves(policy) {
        if policy.is_logged() {
            // The log is there, and is that of this file system.
            held::read(disk, &superblock, false)?;
        }
        let changed = Superblock { policy: policy.into(), written: options.now, ..superblock };
        write(disk, &changed, Edge::SwitchEnd)?;
        return Ok(Switched { from, to: policy, made: None });
    }
    let joined = options.journal_blocks.unwrap_or(0);
    let known = sound(&mut Front { blocks: disk.blocks().saturating_sub(joined), disk })?;
    let log = find_place(disk, &superblock, &known, options)?;
    let changed =
        Superblock { log, policy: policy.into(), written: options.now, ..superblock.clone() };
    make(disk, &superblock, &changed, known, options.journal_unit)?;
    let bytes = u64::from(log.fragments) * u64::from(superblock.sizes.fragment_bytes);
    Ok(Switched { from, to: policy, made: Some((log, bytes)) })
}

/// The superblock of a file system that was unmounted.
fn clean(disk: &mut dyn Disk) -> Result<Superblock, FsError> {
    let found = load(disk)?;
    let superblock = found.superblock;
    if found.at != SUPERBLOCK_AT {
        return Err(FsError::LostSuperblock { at: found.at });
    }
    match (superblock.read_only, superblock.state) {
        (0, State::Clean) => Ok(superblock),
        (0, State::InUse) => Err(FsError::NotClean),
        (0, State::Error) => Err(FsError::MetDamage),
        (features, _) => Err(FsError::ReadOnlyFeatures(features)),
    }
}

/// What a check knows of a file system in which it finds nothing. A volume that has grown may lack
/// the spare copy behind the file system, which a switch writes.
fn sound(disk: &mut dyn Disk) -> Result<Known, FsError> {
    let Examined { findings, known, .. } = examine(disk)?;
    let bad = findings.list.iter().filter(|finding| !matches!(finding, Finding::Spare { .. }));
    match bad.count() {
        0 => Ok(known),
        count => Err(FsError::NotSound { findings: count as u64 }),
    }
}

/// A volume without the device that is joined behind it.
struct Front<'d> {
    disk: &'d mut dyn Disk,
    blocks: u64,
}

impl Disk for Front<'_> {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.disk.read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        self.disk.write(at, data)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.disk.flush()
    }
}

/// Writes the superblock; it is durable afterwards.
fn write(disk: &mut dyn Disk, superblock: &Superblock, edge: Edge) -> Result<(), FsError> {
    let counter = load(disk)?.counter.wrapping_add(1);
    let block = superblock.encode(SUPERBLOCK_AT, counter);
    disk.write(SUPERBLOCK_BLOCK, Data::bytes(block))?;
    Ok(disk.flush_for(edge)?)
}

/// Makes the log, and then the superblock name it.
fn make(
    disk: &mut dyn Disk,
    old: &Superblock,
    new: &Superblock,
    known: Known,
    unit: u32,
) -> Result<(), FsError> {
    let leaking = |superblock: &Superblock| Superblock {
        state: State::InUse,
        recovery: Recovery::None,
        mounted_with: Some(PolicyAdvice::Soft),
        ..superblock.clone()
    };
    write(disk, &leaking(old), Edge::SwitchMark)?;
    place::write_new(disk, new, unit)?;
    match LogFile::of(new)? {
        Some(file) => take_space(disk, new, &file, known)?,
        None => disk.flush_for(Edge::SwitchLog)?,
    }
    write(disk, &leaking(new), Edge::SwitchOwner)?;
    for block in copies(disk, new)? {
        superblocks::write(disk, block, new)?;
    }
    disk.flush_for(Edge::SwitchCopies)?;
    write(disk, new, Edge::SwitchEnd)
}

/// Marks the space of a file as used and gives it to inode 3, unless it has it already.
fn take_space(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    file: &LogFile,
    mut known: Known,
) -> Result<(), FsError> {
    let geometry = superblock.geometry()?;
    let group = geometry.group_of_fragment(file.fragments.start);
    let mut store = Store::new(disk, geometry, superblock.sealer());
    if file.is_written(&mut store)? {
        return store.flush(Edge::SwitchLog);
    }
    let is_free = known.claim(file.fragments.clone());
    debug_assert!(is_free, "the place was chosen among free ones");
    if let Some(brief) = known.brief_mut(LOG_INODE) {
        let (kind, links) = (Some(FileKind::File), file.inode.links);
        *brief = Brief { kind, has_content: true, links, names: 0 };
    }
    file.write_indirect(&mut store)?;
    write_group(&mut store, &known, group)?;
    store.flush(Edge::SwitchLog)?;
    file.write_inode(&mut store)?;
    store.flush(Edge::SwitchOwner)
}

/// Where a log for the policy can lie.
fn find_place(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    known: &Known,
    options: &SwitchOptions,
) -> Result<LogPlace, FsError> {
    let mkfs = MkfsOptions {
        id: superblock.id,
        fragment: superblock.sizes.fragment_bytes,
        policy: options.policy,
        journal: options.journal,
        journal_blocks: options.journal_blocks,
        journal_unit: options.journal_unit,
        now: options.now,
        ..MkfsOptions::default()
    };
    let volume = disk.blocks() * BLOCK_BYTES as u64;
    // Checks the options, whatever the place.
    let divided = place::divide(volume, &mkfs)?;
    if options.policy.has_own_log_volume() {
        return Ok(divided.log);
    }
    let at_end = behind(superblock, volume, &mkfs)?;
    if let Some(log) = at_end.filter(|_| !options.policy.has_log_in_file()) {
        return Ok(log);
    }
    let id = log_id(&mkfs);
    if let Some(log) = left_file(disk, superblock, options.journal, id)? {
        return Ok(log);
    }
    let geometry = superblock.geometry()?;
    free_piece(&geometry, known, options.journal).map(|(first, bytes)| {
        let fragments = (bytes / geometry.fragment_bytes() as u64) as u32;
        LogPlace { kind: LogPlace::IN_FILE, id, first, fragments }
    })
}

/// The place behind the file system and the spare copy of its superblock, if there is room: all of
/// it, or the default size at the end.
fn behind(
    superblock: &Superblock,
    volume: u64,
    mkfs: &MkfsOptions,
) -> Result<Option<LogPlace>, FsError> {
    let unit = u64::from(mkfs.fragment).max(BLOCK_BYTES as u64).next_power_of_two();
    let first = (superblock.geometry()?.bytes() + BLOCK_BYTES as u64).next_multiple_of(unit);
    let room = volume.saturating_sub(first) / unit * unit;
    let bytes = mkfs.journal.unwrap_or(default_bytes(volume).min(room)) / unit * unit;
    if bytes < LEAST || bytes > room {
        return Ok(None);
    }
    let first = (volume - bytes) / unit * unit;
    let fragments = |bytes: u64| u32::try_from(bytes / u64::from(mkfs.fragment)).ok();
    let place = fragments(first).zip(fragments(bytes));
    Ok(place.map(|(first, fragments)| {
        let (kind, id) = (LogPlace::AT_END, log_id(mkfs));
        LogPlace { kind, id, first, fragments }
    }))
}

/// The file of a log that an earlier switch has left.
fn left_file(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    wanted: Option<u64>,
    id: u128,
) -> Result<Option<LogPlace>, FsError> {
    let geometry = superblock.geometry()?;
    let mut store = Store::new(disk, geometry, superblock.sealer());
    let inode = read_inode(&mut store, LOG_INODE)?;
    let Some(inode) = inode.filter(|inode| inode.kind() == Some(FileKind::File)) else {
        return Ok(None);
    };
    let fragments = (inode.size / store.geometry.fragment_bytes() as u64) as u32;
    let log = LogPlace { kind: LogPlace::IN_FILE, id, first: inode.direct[0], fragments };
    let file = LogFile::of(&Superblock { log, ..superblock.clone() }).ok().flatten();
    let is_written = file.map_or(Ok(false), |file| file.is_written(&mut store))?;
    match wanted {
        _ if !is_written => Err(FsError::BadOption("inode 3 is in use and is no log".to_owned())),
        Some(bytes) if bytes != inode.size => Err(FsError::BadOption(format!(
            "the file of the log is there and has {} bytes; leave out --journal-size",
            inode.size
        ))),
        _ => Ok(Some(log)),
    }
}

/// A piece of free space for a log of so many bytes, or of the default size: in the group that is
/// nearest to the middle. Without a wish it may be a shorter one.
fn free_piece(
    geometry: &Geometry,
    known: &Known,
    wanted: Option<u64>,
) -> Result<(Fragment, u64), FsError> {
    let block = geometry.block_bytes() as u64;
    let bytes = wanted.unwrap_or(default_bytes(geometry.bytes())) / block * block;
    let middle = geometry.groups() / 2;
    let mut groups: Vec<u32> = (0..geometry.groups()).collect();
    groups.sort_by_key(|group| group.abs_diff(middle));
    let mut largest = (0, 0);
    for group in groups {
        let (first, fragments) = longest_run(geometry, known, group);
        let most = most_bytes(geometry, fragments);
        if most >= bytes {
            return Ok((first, bytes));
        }
        if most > largest.1 {
            largest = (first, most);
        }
    }
    match wanted {
        None if largest.1 >= LEAST => Ok(largest),
        _ => Err(FsError::NoLogRoom { needed: wanted.unwrap_or(LEAST), found: largest.1 }),
    }
}

/// The longest run of free blocks in a group: its first fragment, and how many it has.
fn longest_run(geometry: &Geometry, known: &Known, group: u32) -> (Fragment, u32) {
    let per_block = geometry.fragments_per_block();
    let start = geometry.group_start(group);
    let end = start + geometry.group_fragments(group);
    let (mut longest, mut run) = ((start, 0), (start, 0));
    for block in (start..end).step_by(per_block as usize) {
        let is_free = (block..block + per_block).all(|fragment| !known.is_claimed(fragment));
        run = match is_free && geometry.is_data(run.0, run.1 + per_block) {
            true => (run.0, run.1 + per_block),
            false => (block + per_block, 0),
        };
        if run.1 > longest.1 {
            longest = run;
        }
    }
    longest
}
