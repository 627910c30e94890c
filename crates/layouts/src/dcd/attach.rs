//! A log on a device of its own, in front of an origin that may hold data already.
//!
//! While a log is attached, the origin alone is not what its clients wrote: a mount of it alone
//! would see an old state and spoil it. So it is *bound*: the home of its first blocks is on the
//! log device, and in their place lies a superblock that names the log. Partition tables, boot
//! sectors and the superblocks of file systems are there, so other software finds nothing, and
//! Seekless says what to do. The binding stays while the log is attached, whether something is
//! dirty or not: it costs nothing, and there is no moment at which the order of sealing and
//! acknowledging could go wrong. Detaching a clean log copies the blocks back.
//!
//! Log and origin count their common *generations*, one for each mount: first both copies of the
//! log's superblock say the new one, then the binding, then the log that the binding is durable;
//! only then is anything written. So a log that is older than its origin, or an origin that was put
//! back from a copy, is refused. The ring has no part in that: a full one has no room for a record
//! at each mount. Within a mount the binding is brought up to date now and then, with the number of
//! a record that the log has durably: a log that ends before it is an older one, too.

use super::DESCRIPTOR;
use super::Dcd;
use super::check as checking;
use super::format::{Areas, BOUND_BLOCKS, Binding, Header, LEAST_LOG_BLOCKS};
use super::log::Log;
use super::options::Shape;
use super::recover::{self, Recovered};
use super::stale_marker::StaleMarkers;
use crate::inplace::header_blocks;
use crate::shared::PAST_UNREADABLE;
use seekless_engine::checksum::Identity;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::layout::{
    CheckReport, Clock, FormatOptions, LayoutError, MountOptions, MountReport, RecoverySteps,
};
use seekless_engine::superblock::{LayoutNumber, Superblock, SuperblockError};
use std::fmt;

/// No origin is mounted so often with one log.
const GENERATION_LIMIT: u32 = 1 << 31;

fn apart<T>(what: impl Into<String>) -> Result<T, LayoutError> {
    Err(LayoutError::Apart(what.into()))
}

/// Blames the log, not the origin, in what failed.
pub(super) fn of_log<T>(result: Result<T, impl Into<LayoutError>>) -> Result<T, LayoutError> {
    result.map_err(|error| error.into().of_log())
}

/// Home of the first blocks on the log device.
fn beside(superblock: &Superblock) -> u64 {
    header_blocks(superblock.device_blocks)
}

/// What is lost with a log, as the end of a hint.
pub(super) const LOST_WITH_LOG: &str =
    ", the first 128 KiB of the origin and all that was not drained are lost";
const _: () = assert!(BOUND_BLOCKS == 32);

/// Puts a log in front of an origin, whose content stays. `options.blocks` is not used: the volume
/// is as large as the origin. Nothing has happened to the origin until everything is durable on
/// the log device; an attempt that was cut off can be repeated.
///
/// # Errors
/// An origin that is attached already or too small, a log device that is too small, and what the
/// media report.
pub fn attach(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    options: &FormatOptions,
) -> Result<(), LayoutError> {
    let (blocks, device) = (origin.blocks(), log.blocks());
    if blocks <= BOUND_BLOCKS {
        return Err(LayoutError::TooSmall { device: blocks, needed: BOUND_BLOCKS + 1 });
    }
    if let Some(binding) = Binding::read(origin)? {
        return apart(format!(
            "the origin is attached to the log {:032x} already; detach that one first (if it is \
             gone{LOST_WITH_LOG}: `seekless create --force` makes a new volume there)",
            binding.superblock.id
        ));
    }
    let shape = of_log(Shape::of(&options.options).check())?;
    let areas = Areas::physical(&shape, device, blocks);
    if !areas.fit(device) {
        let least = header_blocks(device) + BOUND_BLOCKS + LEAST_LOG_BLOCKS + 1;
        let reason = format!(
            "a log in front of a disk needs {least} blocks of 4 KiB, and here are {device}; give \
             it a mebibyte or more"
        );
        return of_log(Err(LayoutError::BadSize(reason)));
    }
    let superblock = Superblock {
        layout: LayoutNumber(DESCRIPTOR.number),
        version: Superblock::version_for(areas.sums, 1),
        id: options.id,
        blocks,
        device_blocks: device,
        options: areas.options(),
        sums: areas.sums,
    };
    of_log(recover::write_first(log, &areas, options.identity()))?;
    let first = origin.read(0, BOUND_BLOCKS as u32)?;
    of_log(log.write(beside(&superblock), first))?;
    of_log(superblock.write(log))?;
    of_log(log.flush())?;
    // Block 0 goes first, and everything else that looks like something only when it is durable:
    // until then the old block 0 could still be what counts.
    let binding = Binding::new(&superblock, 0);
    binding.write_at(origin, 0)?;
    origin.flush()?;
    binding.write_at(origin, 1)?;
    origin.write(2, Data::zeros(BOUND_BLOCKS as u32 - 2))?;
    origin.flush()?;
    Ok(())
}

/// The superblock of a log and what was recovered from it, if it belongs to the origin.
fn open(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<(Superblock, Binding, Recovered), LayoutError> {
    steps.begin("read superblock and log binding");
    steps.read(1);
    let superblock = match Superblock::read(log, &super::known) {
        Err(SuperblockError::Foreign) => {
            return of_log(apart(format!(
                "this is no Seekless volume, and so no log; name the one that the origin was \
                 attached to (if it was wiped{LOST_WITH_LOG})"
            )));
        }
        found => of_log(found)?,
    };
    let areas = Areas::from_superblock(&superblock).filter(|areas| areas.physical);
    let Some(areas) = areas else {
        return of_log(apart(
            "what is given as the log is a volume of its own; name the log that the origin was \
             attached to, or give this volume alone, without --log",
        ));
    };
    let binding = match Binding::read(origin) {
        // The power failed while the first binding was written; the log has all that was there.
        Err(LayoutError::Superblock(SuperblockError::Damaged))
            if Binding::of_log(log, &superblock).generation == 0 =>
        {
            Some(Binding::new(&superblock, 0))
        }
        found => found?,
    };
    let Some(binding) = binding else {
        return apart(format!(
            "the origin is not sealed: the log {:032x} is attached to another disk, was detached, \
             or was never attached completely; attach it again",
            superblock.id
        ));
    };
    if binding.superblock.id != superblock.id {
        return of_log(apart(format!(
            "the log {:032x} belongs to another volume; the origin wants the log {:032x}",
            superblock.id, binding.superblock.id
        )));
    }
    if superblock.blocks > origin.blocks() {
        let (needed, found) = (superblock.blocks, origin.blocks());
        return Err(SuperblockError::Truncated { needed, found }.into());
    }
    let found = of_log(recover::recover(log, areas, superblock.identity(), options, steps))?;
    fits(&Binding::of_log(log, &superblock), &binding)?;
    let last = found.log.written;
    if last < binding.seen && !options.options.get(&PAST_UNREADABLE) {
        return of_log(apart(format!(
            "the log is older than the origin (it ends with record {last}, the origin knows of \
             record {}): it was put back from a copy, and what was written since is lost with the \
             newer one",
            binding.seen
        )));
    }
    Ok((superblock, binding, found))
}

/// Refuses a log and an origin of which one is older than the other. While the binding of the
/// origin was not known to be durable nothing was written, so it may be one mount behind until
/// then.
fn fits(log: &Binding, binding: &Binding) -> Result<(), LayoutError> {
    let (known, sealed) = (log.generation, binding.generation);
    if known.max(sealed) >= GENERATION_LIMIT {
        return Err(LayoutError::Superblock(SuperblockError::Damaged));
    }
    if known < sealed {
        return of_log(apart(format!(
            "the log is older than the origin (generation {known}, the origin has {sealed}): it \
             was put back from a copy, and what was written since is lost with the newer one"
        )));
    }
    if known > sealed + 1 || log.confirmed > sealed {
        return apart(format!(
            "the origin is older than its log (generation {sealed}, the log has {known}): it was \
             put back from a copy; what the log holds does not fit it"
        ));
    }
    Ok(())
}

/// Mounts an origin with its log. The layer has the origin as its first device and the log as its
/// second; `options.arm` is that of the log.
///
/// # Errors
/// A log that is wiped, belongs to another volume or is older than the origin, an origin that is
/// older than the log, and what the media report. Nothing has been written then.
pub fn mount(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    options: &MountOptions<'_>,
) -> Result<(Dcd, Superblock, MountReport), LayoutError> {
    let mut steps = RecoverySteps::new(options.clock);
    let (superblock, mut binding, found) = open(origin, log, options, &mut steps)?;
    if !options.read_only {
        if options.volatile {
            origin.flush()?;
        }
        of_log(found.persist(log, options, &mut steps))?;
        steps.begin("write log binding");
        let generation = binding.generation + 1;
        of_log(Binding::for_log(&superblock, generation, binding.generation).write_to_log(log))?;
        binding = Binding { generation, seen: binding.seen.min(found.log.written), ..binding };
        binding.write(origin)?;
        // Only from here on may anything be written: an origin without this binding is an older
        // one.
        of_log(Binding::for_log(&superblock, generation, generation).write_to_log(log))?;
    }
    let mut volume = recover::assemble(superblock.identity(), found.log, options);
    volume.markers = (!options.read_only).then(|| StaleMarkers::new(binding));
    Ok((volume, superblock, steps.finish()))
}

/// Appends the record of a clean shutdown, alone and at once; nothing is dirty.
pub(super) fn append(disk: &mut dyn Disk, log: &mut Log, id: Identity) -> Result<(), LayoutError> {
    let (header, addr) = log.last_record();
    disk.write(log.device_block(addr), Data::block_of(header.encode(id)))?;
    disk.flush()?;
    log.written = header.seq;
    log.made_durable(header.seq);
    Ok(())
}

/// Takes a clean log away: the origin is as if it had never been there.
///
/// # Errors
/// [`LayoutError::Apart`] while something is in the log only; otherwise as for [`mount`].
pub fn detach(origin: &mut dyn Disk, log: &mut dyn Disk) -> Result<(), LayoutError> {
    let mut steps = RecoverySteps::new(None);
    let (superblock, _, found) = open(origin, log, &MountOptions::default(), &mut steps)?;
    if found.log.dirty() > 0 {
        return of_log(apart(format!(
            "{} blocks are in the log only; `seekless drain` writes them home first",
            found.log.dirty()
        )));
    }
    let first = of_log(log.read(beside(&superblock), BOUND_BLOCKS as u32))?;
    origin.write(1, first.slice(1, BOUND_BLOCKS as u32 - 1))?;
    origin.flush()?;
    origin.write(0, first.slice(0, 1))?;
    origin.flush()?;
    // From now on nothing needs the log; that it says so is for people.
    for at in [0, superblock.device_blocks - 1] {
        of_log(log.write(at, Data::zeros(1)))?;
    }
    of_log(log.flush())?;
    Ok(())
}

/// Mounts without writing, with its steps timed by `clock`, then checks everything on both
/// devices.
///
/// # Errors
/// As for [`mount`].
pub fn check(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    clock: Option<Clock>,
) -> Result<(Superblock, MountReport, CheckReport), LayoutError> {
    let options = MountOptions { read_only: true, clock, ..MountOptions::default() };
    let (volume, superblock, mounted) = mount(origin, log, &options)?;
    let mut report = CheckReport::default();
    // A mount that may write writes all four.
    report.lost_copies("the superblock of the log", &superblock.lost_copies(log, &super::known));
    report.lost_copies("the binding of the origin", &Binding::lost_copies(origin, &superblock));
    checking::check_log(&volume, log, &mut report);
    checking::check_home(&volume, origin, &mut report);
    checking::facts(&volume, &mut report);
    Ok((superblock, mounted, report))
}

/// Writes the on-disk structures as text.
///
/// # Errors
/// As for [`mount`].
pub fn dump(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    out: &mut dyn fmt::Write,
) -> Result<(), LayoutError> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let (volume, superblock, _) = mount(origin, log, &options)?;
    writeln!(out, "{}", superblock.to_text(DESCRIPTOR.name))
        .map_err(|_| LayoutError::Damaged("cannot print".into()))?;
    of_log(checking::dump(&volume, log, out))
}

/// Where a last record goes and what it says.
impl Log {
    fn last_record(&mut self) -> (Header, u32) {
        let seq = self.written + 1;
        if self.offset >= self.areas.segment {
            // A segment is always left for a record that makes room.
            self.advance_to(self.head + 1, seq);
        }
        let (tail_segment, tail) = self.tail_now(seq, 0);
        let header = Header {
            seq,
            segment: self.head,
            offset: self.offset,
            durable: self.durable,
            tail,
            life: self.life,
            clean: true,
            entries: Vec::new(),
        };
        let addr = self.place(self.head) as u32 * self.areas.segment + self.offset;
        self.offset += 1;
        self.note_tail(seq, tail_segment);
        (header, addr)
    }
}
