//! A log on a device of its own, in front of an origin that may hold data already.
//!
//! While a log is attached, the origin alone is not what its clients wrote: a mount of it alone
//! would see an old state and spoil it. So it is *bound* while it is mounted for writing, and after
//! that as long as something is in the log only: the home of its first blocks is on the log
//! device, and in their place lies a superblock that names the log. Partition tables, boot sectors
//! and the superblocks of file systems are there, so other software finds nothing, and Seekless
//! says what to do. A clean shutdown and a drain give the origin its blocks back
//! ([`super::moves`]); a mount for writing takes them away before anything else is written.
//!
//! Log and origin count their common *generations*, one for each mount: first both copies of the
//! log's superblock say the new one, then the binding, then the log that the binding is durable;
//! only then is anything written. So a log that is older than its origin, or an origin that was put
//! back from a copy, is refused. The ring has no part in that: a full one has no room for a record
//! at each mount. Within a mount the binding is brought up to date now and then, with the number of
//! a record that the log has durably: a log that ends before it is an older one, too.

use super::DESCRIPTOR;
use super::Dcd;
use super::binding::{Binding, FirstBlocks, beside};
use super::check as checking;
use super::format::{Areas, BOUND_BLOCKS, LEAST_LOG_BLOCKS};
use super::moves::Move;
use super::options::Shape;
use super::recover::{self, Recovered};
use super::rescue::Rescue;
use super::stale_marker::StaleMarkers;
use crate::inplace::header_blocks;
use crate::shared::PAST_UNREADABLE;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::layout::{
    CheckReport, Clock, FormatOptions, LayoutError, MountOptions, MountReport, RecoverySteps,
};
use seekless_engine::superblock::{LayoutNumber, Superblock, SuperblockError};
use seekless_engine::units::{BLOCK_BYTES, BlockNr, SECTOR_BYTES};
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

/// What to do when a log is lost, as the end of a hint.
pub(super) const LOST_WITH_LOG: &str =
    ", all that was in it only is lost; `seekless abandon-log` makes the origin usable without it";

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
             gone{LOST_WITH_LOG})",
            binding.superblock.id
        ));
    }
    // The log has what the torn block of the origin lacks.
    if let Ok((half, _)) = log_superblock(log) {
        let marks = Binding::of_log(log, &half);
        if is_half_bound(origin, log, &marks)? {
            return apart(format!(
                "the origin was being attached to the log {:032x} when the power failed; serve \
                 the two together, which completes that",
                half.id
            ));
        }
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
    of_log(Superblock::erase(log))?;
    of_log(recover::write_first(log, &areas, options.identity()))?;
    let first = origin.read(0, BOUND_BLOCKS as u32)?;
    of_log(log.write(beside(&superblock), first))?;
    of_log(superblock.write(log))?;
    of_log(log.flush_for(Edge::AttachLogFirst))?;
    bind(origin, log, &superblock, 0)?;
    Ok(())
}

/// Puts a binding in the place of the first blocks of an origin, which the log device has. Cut off,
/// it leaves a block 0 of which each sector is known: see [`is_alone`].
fn bind(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    superblock: &Superblock,
    generation: u32,
) -> Result<(Binding, Rescue), LayoutError> {
    let binding = Binding::of_origin(superblock, generation);
    // Without it nothing is kept for the day when the log is lost; everything else works.
    let first = log.read(beside(superblock), BOUND_BLOCKS as u32).ok();
    let rescue = first.as_ref().map(Rescue::of).unwrap_or_default();
    // Block 0 goes first, and everything else that looks like something only when it is durable:
    // until then the old block 0 could still be what counts.
    Binding::new(superblock, generation).write_at(origin, 0)?;
    origin.flush_for(Edge::BindFirst)?;
    let mut rest = binding.copy_with(&rescue, 1);
    first.iter().for_each(|first| rest.append(Rescue::hidden(first)));
    origin.write(1, rest)?;
    origin.flush_for(Edge::BindRest)?;
    origin.write(0, binding.copy_with(&rescue, 0))?;
    origin.flush_for(Edge::BindEnd)?;
    Ok((binding, rescue))
}

/// An origin and a log that belong together.
struct Pair {
    /// Of the log.
    superblock: Superblock,
    binding: Binding,
    /// What the log says of its origin.
    marks: Binding,
    /// The origin has its first blocks, and no binding.
    alone: bool,
    found: Recovered,
}

/// The superblock of a log, if it is one.
fn log_superblock(log: &mut dyn Disk) -> Result<(Superblock, Areas), LayoutError> {
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
    Ok((superblock, areas))
}

/// Finds out whether a log belongs to the origin, and recovers it.
fn open(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<Pair, LayoutError> {
    steps.begin("read superblock and log binding");
    steps.read(1);
    let (superblock, areas) = log_superblock(log)?;
    let marks = Binding::of_log(log, &superblock);
    let alone = is_alone(origin, log, &marks)?;
    let binding = match alone {
        true => Binding::of_origin(&superblock, marks.confirmed),
        false => find_binding(origin, log, &superblock, &marks)?,
    };
    if superblock.blocks > origin.blocks() {
        let (needed, found) = (superblock.blocks, origin.blocks());
        return Err(SuperblockError::Truncated { needed, found }.into());
    }
    let found = of_log(recover::recover(log, areas, superblock.identity(), options, steps))?;
    fits(&marks, &binding)?;
    let last = found.log.written;
    if last < binding.seen && !options.options.get(&PAST_UNREADABLE) {
        return of_log(apart(format!(
            "the log is older than the origin (it ends with record {last}, the origin knows of \
             record {}): it was put back from a copy, and what was written since is lost with the \
             newer one",
            binding.seen
        )));
    }
    if marks.first != FirstBlocks::OnLog && found.log.dirty() > 0 {
        let what = "it holds blocks though its origin is whole without it".to_owned();
        return of_log(Err(LayoutError::Damaged(what)));
    }
    Ok(Pair { superblock, binding, marks, alone, found })
}

/// The binding of an origin that is bound to a log.
fn find_binding(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    superblock: &Superblock,
    marks: &Binding,
) -> Result<Binding, LayoutError> {
    // The power failed while the first blocks were moved. A second copy may be one of before.
    if marks.first == FirstBlocks::Moving && Binding::copy(origin, 0)?.is_err() {
        return Ok(Binding::of_origin(superblock, marks.confirmed));
    }
    let binding = match Binding::read(origin) {
        // The power failed while the first binding was written; the log has all that was there.
        Err(LayoutError::Superblock(SuperblockError::Damaged)) if marks.generation == 0 => {
            Some(Binding::of_origin(superblock, 0))
        }
        found => found?,
    };
    if binding.is_none() && is_half_bound(origin, log, marks)? {
        return Ok(Binding::of_origin(superblock, 0));
    }
    let Some(binding) = binding else {
        return apart(format!(
            "the origin is not sealed by the log {:032x}: it is another disk; or it was never \
             attached completely and can be attached again; or the log is older than the origin, \
             or the origin is older than its log: one was put back from a copy",
            superblock.id
        ));
    };
    if binding.superblock.id != superblock.id {
        return other_log(marks, &binding);
    }
    Ok(binding)
}

/// True if the power failed while the first binding of an origin was written to its block 0.
fn is_half_bound(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    marks: &Binding,
) -> Result<bool, LayoutError> {
    if marks.generation > 0 || marks.superblock.blocks > origin.blocks() {
        return Ok(false);
    }
    let first = origin.read(0, 1)?.to_bytes();
    is_torn(&first, log, marks)
}

fn other_log<T>(log: &Binding, binding: &Binding) -> Result<T, LayoutError> {
    of_log(apart(format!(
        "the log {:032x} belongs to another volume; the origin wants the log {:032x}",
        log.superblock.id, binding.superblock.id
    )))
}

/// True if an origin has its first blocks itself.
fn is_alone(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    marks: &Binding,
) -> Result<bool, LayoutError> {
    if marks.first == FirstBlocks::OnLog {
        return Ok(false);
    }
    if marks.superblock.blocks > origin.blocks() {
        let (needed, found) = (marks.superblock.blocks, origin.blocks());
        return Err(SuperblockError::Truncated { needed, found }.into());
    }
    // This is asked before anything else: what a client has written may look like a binding.
    let Some(changed) = changed_block(origin, log, &marks.superblock)? else {
        return Ok(true);
    };
    let plain = Binding::new(&marks.superblock, 0);
    if marks.first == FirstBlocks::Moving {
        let first = origin.read(0, 1)?.to_bytes();
        if plain.begins(&first) || is_torn(&first, log, marks)? {
            return Ok(false);
        }
    } else {
        let there = [origin.read(0, 1)?.to_bytes(), origin.read(1, 1)?.to_bytes()];
        if there.iter().any(|block| plain.begins(block)) {
            // It is bound, so one of both comes from another time.
            let found = Binding::read(origin)?.map_or(0, |binding| binding.generation);
            fits(marks, &Binding { generation: found, ..plain })?;
            return older_origin(found, marks.generation);
        }
        if let Ok(Some(other)) = Binding::read(origin) {
            return other_log(marks, &other);
        }
    }
    apart(format!(
        "the origin is not as it was left: block {changed} has changed since the last clean \
         shutdown with the log {:032x}, or this is another disk. The log is empty, so nothing is \
         missing here; `seekless create --force` attaches a new log",
        marks.superblock.id
    ))
}

/// True if each sector of block 0 is that of the volume, or that of a binding that was written
/// plainly. If all are those of the volume the move had come to its end: what has changed since was
/// not the move.
fn is_torn(first: &[u8], log: &mut dyn Disk, marks: &Binding) -> Result<bool, LayoutError> {
    let block = of_log(log.read(beside(&marks.superblock), 1))?.to_bytes();
    if *first == block[..] {
        return Ok(false);
    }
    let plainly = [marks.generation, marks.confirmed]
        .map(|number| Binding::new(&marks.superblock, number).encode().to_bytes());
    let mut sectors = (0..BLOCK_BYTES).step_by(SECTOR_BYTES).map(|at| at..at + SECTOR_BYTES);
    Ok(sectors.all(|range| {
        let sector = &first[range.clone()];
        plainly.iter().chain([&block]).any(|one| one[range.clone()] == *sector)
    }))
}

/// The first of the first blocks of an origin that is not as the log device has it.
fn changed_block(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    superblock: &Superblock,
) -> Result<Option<BlockNr>, LayoutError> {
    for at in 0..BOUND_BLOCKS {
        let found = origin.read(at, 1)?;
        let known = of_log(log.read(beside(superblock) + at, 1))?;
        if found.to_bytes() != known.to_bytes() {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn older_origin<T>(generation: u32, log: u32) -> Result<T, LayoutError> {
    apart(format!(
        "the origin is older than its log (generation {generation}, the log has {log}): it was \
         put back from a copy; what the log holds does not fit it"
    ))
}

/// True if an origin is whole without its log.
///
/// # Errors
/// A log that is none, an origin that does not fit it, and what the media report.
pub fn stands_alone(origin: &mut dyn Disk, log: &mut dyn Disk) -> Result<bool, LayoutError> {
    let (superblock, _) = log_superblock(log)?;
    let marks = Binding::of_log(log, &superblock);
    is_alone(origin, log, &marks)
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
        return older_origin(sealed, known);
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
    let pair = open(origin, log, options, &mut steps)?;
    let Pair { superblock, alone, .. } = pair;
    let markers = match options.read_only {
        true => None,
        false => Some(join(origin, log, &pair, options, &mut steps)?),
    };
    let mut volume = recover::assemble(superblock.identity(), pair.found.log, options);
    if options.read_only && alone {
        (volume.areas.moved, volume.log.areas.moved) = (0, 0);
    }
    volume.markers = markers;
    Ok((volume, superblock, steps.finish()))
}

/// Makes what was found last, and binds the two anew.
fn join(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    pair: &Pair,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<StaleMarkers, LayoutError> {
    let Pair { superblock, binding, marks, found, .. } = pair;
    if options.volatile {
        origin.flush_for(Edge::JoinFlush)?;
    }
    of_log(found.persist(log, options, steps))?;
    steps.begin("write log binding");
    let generation = binding.generation + 1;
    let first = match marks.first {
        FirstBlocks::OnLog => FirstBlocks::OnLog,
        _ => FirstBlocks::Moving,
    };
    let says = |confirmed, first| Binding::for_log(superblock, generation, confirmed, first);
    of_log(says(binding.generation, first).write_to_log(log))?;
    // A binding that is not plain must not be torn over what a cut-off move has left.
    let (binding, rescue) = if first == FirstBlocks::Moving {
        bind(origin, log, superblock, generation)?
    } else {
        let (seen, dirty) = (binding.seen.min(found.log.written), found.log.dirty());
        let next = Binding { seen, dirty, ..Binding::of_origin(superblock, generation) };
        // Without it nothing is kept for the day when the log is lost; everything else works.
        let first = log.read(beside(superblock), BOUND_BLOCKS as u32).ok();
        let rescue = first.as_ref().map(Rescue::of).unwrap_or_default();
        next.write(origin, &rescue)?;
        if let Some(first) = first {
            origin.write(2, Rescue::hidden(&first))?;
            origin.flush_for(Edge::BindEnd)?;
        }
        (next, rescue)
    };
    // Only from here on may anything be written: an origin without this binding is an older one.
    of_log(says(generation, FirstBlocks::OnLog).write_to_log(log))?;
    Ok(StaleMarkers::new(*superblock, binding, rescue))
}

/// Gives an origin its first blocks back, if its log holds nothing. The two are a pair still.
pub(super) fn release(
    origin: &mut dyn Disk,
    log: &mut dyn Disk,
    superblock: &Superblock,
    binding: Binding,
) -> Result<(), LayoutError> {
    Move::release(superblock, binding).run(origin, log)
}

/// Takes a clean log away: the origin is as if it had never been there.
///
/// # Errors
/// [`LayoutError::Apart`] while something is in the log only; otherwise as for [`mount`].
pub fn detach(origin: &mut dyn Disk, log: &mut dyn Disk) -> Result<(), LayoutError> {
    let mut steps = RecoverySteps::new(None);
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let found = open(origin, log, &options, &mut steps)?.found;
    if found.log.dirty() > 0 {
        return of_log(apart(format!(
            "{} blocks are in the log only; `seekless drain` writes them home first",
            found.log.dirty()
        )));
    }
    // Whatever was cut off is completed by a mount; draining nothing leaves the origin whole.
    super::drain(&mut [&mut *origin, &mut *log], &mut |_, _| {})?;
    let (superblock, _) = log_superblock(log)?;
    // From now on nothing needs the log; that it says so is for people.
    for at in [0, superblock.device_blocks - 1] {
        of_log(log.write(at, Data::zeros(1)))?;
    }
    of_log(log.flush_for(Edge::DetachEnd))?;
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
    if volume.areas.moved > 0 {
        let lost = Binding::lost_copies(origin, &superblock);
        report.lost_copies("the binding of the origin", &lost);
    }
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
