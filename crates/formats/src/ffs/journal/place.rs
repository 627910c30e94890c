//! Where the log lies, and how long it is.
//!
//! The log is a range of the volume behind the file system: at the end of the volume, or on another
//! device that is joined behind it; or it is a file ([`super::file`]). `mkfs` plans the file system
//! in front of the log, so that its spare copies lie there, too. Only the two superblocks of the
//! log are written: what else the range holds has no seal with the id of the log.

use crate::error::FsError;
use crate::ffs::journal::file;
use crate::ffs::ondisk::format::{LogPlace, Superblock};
use crate::ffs::ondisk::geometry::Geometry;
use crate::options::MkfsOptions;
use seekless_engine::checksum::mix;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::size::Size;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_fs::log::format::{LEAST_BLOCKS, MOST_UNIT};
use seekless_fs::log::{LogShape, LogSuperblock, Ring};
use seekless_fs::policy::PolicyKind;

/// Bytes of one block of a volume.
const EACH: u64 = BLOCK_BYTES as u64;
/// Bytes of the smallest log.
pub(super) const LEAST: u64 = LEAST_BLOCKS as u64 * EACH;
/// Bytes that the log has by default, unless the volume is small.
const DEFAULT: std::ops::RangeInclusive<u64> = 4 << 20..=128 << 20;

/// Bytes of the largest write of a log.
const UNITS: std::ops::RangeInclusive<u32> = BLOCK_BYTES as u32..=MOST_UNIT;

/// A volume, divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divided {
    /// Bytes for the file system, from the start of the volume.
    pub own: u64,
    /// The log behind them, if there is to be one.
    pub log: LogPlace,
}

/// Bytes of the log of a volume of so many bytes: 1 %, but 4 to 128 MiB, and no more than an eighth
/// of a small volume.
pub(super) fn default_bytes(volume: u64) -> u64 {
    (volume / 100).clamp(*DEFAULT.start(), *DEFAULT.end()).min((volume / 8).max(LEAST))
}

/// Divides a volume of so many bytes between the file system and its log.
///
/// # Errors
/// A log that is too small, a volume that is too small for it, a policy whose log lies elsewhere.
pub fn divide(volume: u64, options: &MkfsOptions) -> Result<Divided, FsError> {
    let MkfsOptions { policy, journal, journal_blocks, .. } = *options;
    if !options.journal_unit.is_power_of_two() || !UNITS.contains(&options.journal_unit) {
        return Err(FsError::BadOption(format!(
            "the log cannot be written in units of {} bytes; use 4k, 8k, 16k, 32k or 64k",
            options.journal_unit
        )));
    }
    // The range is whole blocks of the volume, and whole fragments.
    let unit = u64::from(options.fragment).max(EACH).next_power_of_two();
    let (kind, first, bytes) = match journal_blocks {
        None if policy.has_own_log_volume() => return Err(lies_elsewhere(policy)),
        // The file system has its place in it.
        None if policy.has_log_in_file() => {
            journal.map_or(Ok(()), check_bytes)?;
            return Ok(Divided { own: volume, log: LogPlace::default() });
        }
        None if journal.is_none() && !policy.is_logged() => {
            return Ok(Divided { own: volume, log: LogPlace::default() });
        }
        None => {
            let bytes = log_bytes(journal, default_bytes(volume), unit)?;
            let first = volume.checked_sub(bytes).map(|first| first / unit * unit);
            (LogPlace::AT_END, first, bytes)
        }
        Some(_) if policy.is_logged() && !policy.has_own_log_volume() => {
            return Err(lies_here(policy));
        }
        Some(blocks) => {
            let own = volume.checked_sub(blocks.saturating_mul(EACH));
            let first = own.map(|own| own.next_multiple_of(unit));
            let most = volume.saturating_sub(first.unwrap_or(volume));
            let bytes = log_bytes(journal, most.min(*DEFAULT.end()), unit)?;
            (LogPlace::ELSEWHERE, first.filter(|_| bytes <= most), bytes)
        }
    };
    let Some(first) = first else {
        return Err(FsError::TooSmall { needed: bytes, found: volume });
    };
    let fragments = |bytes: u64| {
        u32::try_from(bytes / u64::from(options.fragment.max(1))).map_err(|_| {
            FsError::BadOption(format!(
                "the log lies {first} bytes from the start, too far for fragments of {} bytes; use \
                 larger fragments",
                options.fragment
            ))
        })
    };
    let (first_fragment, fragments) = (fragments(first)?, fragments(bytes)?);
    let log = LogPlace { kind, id: log_id(options), first: first_fragment, fragments };
    let own = match kind {
        LogPlace::AT_END => first,
        _ => volume - journal_blocks.unwrap_or(0) * EACH,
    };
    Ok(Divided { own, log })
}

fn lies_elsewhere(policy: PolicyKind) -> FsError {
    FsError::BadOption(format!(
        "--policy {} keeps its log on another volume; name it with --journal",
        policy.name()
    ))
}

fn lies_here(policy: PolicyKind) -> FsError {
    let place = match policy.has_log_in_file() {
        true => "in a file of the volume",
        false => "at the end of the volume",
    };
    FsError::BadOption(format!(
        "--policy {} keeps its log {place}; leave out --journal",
        policy.name()
    ))
}

/// The place of the log of a file system that has it in a file; else `log`, as [`divide`] says.
///
/// # Errors
/// A log that is too small, or that no group has room for.
pub fn in_file(
    geometry: &Geometry,
    log: LogPlace,
    options: &MkfsOptions,
) -> Result<LogPlace, FsError> {
    if !options.policy.has_log_in_file() || log.exists() {
        return Ok(log);
    }
    let sizes = (options.journal, default_bytes(geometry.bytes()));
    let log = file::place(geometry, sizes, log_id(options))?;
    check_bytes(u64::from(log.fragments) * geometry.fragment_bytes() as u64)?;
    Ok(log)
}

fn log_bytes(wanted: Option<u64>, default: u64, unit: u64) -> Result<u64, FsError> {
    let bytes = wanted.unwrap_or(default) / unit * unit;
    check_bytes(bytes)?;
    Ok(bytes)
}

/// Refuses a log of so many bytes.
fn check_bytes(bytes: u64) -> Result<(), FsError> {
    if bytes < LEAST || bytes / EACH > u64::from(u32::MAX) {
        let most = Size::from_blocks(u64::from(u32::MAX));
        return Err(FsError::BadOption(format!(
            "a log of {bytes} bytes is not possible; use 1M to {most}"
        )));
    }
    Ok(())
}

/// The id of the log. Two file systems with one id, made at different times, have different logs:
/// what the older one has left in the range does not count.
pub(super) fn log_id(options: &MkfsOptions) -> u128 {
    let (low, high) = (options.id as u64, (options.id >> 64) as u64);
    let now = options.now.cast_unsigned();
    let first = mix(low ^ mix(now)) ^ 0x10_6106;
    u128::from(mix(first)) << 64 | u128::from(mix(first ^ mix(high)))
}

/// The sizes of a log with this range, whose superblocks do not tell the unit.
pub(super) fn shape(range: &std::ops::Range<BlockNr>) -> LogShape {
    let blocks = u32::try_from(range.end - range.start).unwrap_or(u32::MAX);
    LogShape { blocks, unit: MOST_UNIT }
}

/// Writes the superblocks of a new log. They are not durable yet.
///
/// # Errors
/// Errors of the volume.
pub(in crate::ffs) fn write_new(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    unit: u32,
) -> Result<(), FsError> {
    let Some(range) = superblock.log_range()? else { return Ok(()) };
    let shape = LogShape { unit, ..shape(&range) };
    for log in Ring::format(shape, superblock.log.id, superblock.id) {
        write_superblock(disk, range.start, &log)?;
    }
    Ok(())
}

/// Writes a superblock of a log that begins at a block.
///
/// # Errors
/// Errors of the volume.
pub(super) fn write_superblock(
    disk: &mut dyn Disk,
    at: BlockNr,
    log: &LogSuperblock,
) -> Result<(), FsError> {
    Ok(disk.write(at + log.block(), Data::bytes(log.encode().into()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffs::{check, load, mkfs};
    use seekless_engine::device::medium::Cells;
    use seekless_engine::disk::MediumDisk;
    use seekless_fs::log::scan::superblock;

    const MIB: u64 = 1 << 20;

    fn options(policy: PolicyKind) -> MkfsOptions {
        MkfsOptions { policy, id: 7, ..MkfsOptions::default() }
    }

    fn log_of(cells: &mut Cells) -> (std::ops::Range<BlockNr>, LogSuperblock) {
        let disk = &mut MediumDisk(cells);
        let found = load(disk).expect("it was made").superblock;
        let range = found.log_range().expect("possible").expect("there is a log");
        let mut source = |block| Some(disk.read(range.start + block, 1).ok()?.to_bytes());
        let (log, lacks) = superblock(&mut source, (range.end - range.start) as u32, found.id)
            .expect("mkfs wrote it");
        assert!(!lacks && log.clean && log.id == found.log.id, "{log:?}");
        (range, log)
    }

    /// Whatever the units and the size, the log ends with the volume, and the file system and its
    /// spare copies lie in front of it.
    #[test]
    fn a_log_lies_at_the_end_and_the_copies_in_front_of_it() {
        for (block, fragment) in [(8192, 8192), (8192, 4096), (8192, 1024), (4096, 512)] {
            for blocks in [512, 513, 1024, 4097, 33_000, 100_001] {
                let mut cells = Cells::new(blocks);
                let options = MkfsOptions { block, fragment, ..options(PolicyKind::Wafs1Async) };
                let made = mkfs(&mut MediumDisk(&mut cells), &options).expect("possible");
                let (range, _) = log_of(&mut cells);
                assert!(blocks - range.end < u64::from(fragment).div_ceil(EACH), "{range:?}");
                let end = made.superblock.geometry().expect("made").bytes();
                let groups = made.groups;
                assert!(end <= range.start * EACH, "{end} {range:?}");
                let found = check(&mut MediumDisk(&mut cells)).expect("made");
                assert!(found.is_clean(), "{found}");
                if groups == 1 {
                    assert_eq!(found.superblocks, 3, "{blocks} blocks");
                }
            }
        }
    }

    #[test]
    fn the_last_copy_is_found_in_front_of_a_log() {
        let mut cells = Cells::new(100 * MIB / EACH);
        let made = mkfs(&mut MediumDisk(&mut cells), &options(PolicyKind::Wafs1Sync));
        let made = made.expect("possible").superblock;
        let disk = &mut MediumDisk(&mut cells);
        for at in [crate::ffs::ondisk::format::SUPERBLOCK_AT, 32 << 10] {
            disk.write(at / EACH, Data::zeros(1)).expect("memory");
        }
        let found = load(disk).expect("the copy behind the end");
        assert_eq!((found.at, found.superblock), (made.geometry().expect("made").bytes(), made));
    }

    #[test]
    fn the_default_size_is_a_hundredth_within_limits() {
        let of = |volume: u64| default_bytes(volume) / MIB;
        assert_eq!([2, 8, 16, 64, 400, 1000].map(|mib| of(mib * MIB)), [1, 1, 2, 4, 4, 10]);
        assert_eq!(of(1 << 40), 128);
    }

    #[test]
    fn a_log_on_another_device_begins_where_that_begins() {
        // Fragments of 8192 bytes: the log begins at the next one.
        for (fragment, own, first) in [(4096, 2049, 2049), (8192, 2049, 2050), (1024, 2048, 2048)] {
            let mut cells = Cells::new(own + 1024);
            let options = MkfsOptions {
                fragment,
                journal_blocks: Some(1024),
                ..options(PolicyKind::Wafs2Async)
            };
            let made = mkfs(&mut MediumDisk(&mut cells), &options).expect("possible");
            let (range, log) = log_of(&mut cells);
            assert_eq!(range.start, first);
            assert_eq!(u64::from(log.shape.blocks), range.end - range.start);
            assert!(own + 1024 - range.end < 2, "{range:?}");
            let found = check(&mut MediumDisk(&mut cells)).expect("made");
            assert!(found.is_clean() && found.superblocks == 3, "{found}");
            assert!(made.superblock.geometry().expect("made").bytes() <= own * EACH);
        }
    }

    #[test]
    fn the_id_differs_with_the_time_and_the_file_system() {
        let ids = [(7, 1), (7, 2), (8, 1), (7 << 64, 1)]
            .map(|(id, now)| log_id(&MkfsOptions { id, now, ..MkfsOptions::default() }));
        let different: std::collections::BTreeSet<_> = ids.into();
        assert_eq!(different.len(), ids.len());
    }

    #[test]
    fn impossible_logs_say_what_to_do() {
        let refused = |blocks, options: MkfsOptions| {
            let mut cells = Cells::new(blocks);
            mkfs(&mut MediumDisk(&mut cells), &options).expect_err("impossible").to_string()
        };
        let base = options(PolicyKind::Wafs1Async);
        let short = refused(4096, MkfsOptions { journal: Some(100_000), ..base.clone() });
        assert!(short.contains("use 1M to"), "{short}");
        let small = refused(400, base.clone());
        assert!(small.contains("the volume has 1638400 bytes, the file system needs 2"), "{small}");
        let long = refused(4096, MkfsOptions { journal: Some(1 << 30), ..base.clone() });
        assert!(long.contains("use a larger volume"), "{long}");
        let odd = refused(4096, MkfsOptions { journal_unit: 6000, ..base.clone() });
        assert!(odd.contains("units of 6000 bytes; use 4k"), "{odd}");
        let elsewhere = refused(4096, options(PolicyKind::Wafs2Sync));
        assert!(elsewhere.contains("name it with --journal"), "{elsewhere}");
        let here = refused(4096, MkfsOptions { journal_blocks: Some(1024), ..base });
        assert!(here.contains("leave out --journal"), "{here}");
    }
}
