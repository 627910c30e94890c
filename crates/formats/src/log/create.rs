//! Making an empty log.

use super::error::Error;
use crate::error::is_damage;
use crate::ffs::offline::superblocks;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::log::format::{LEAST_KEPT_BLOCKS, MOST_UNIT, SUPERBLOCKS};
use seekless_fs::log::{LogShape, LogSuperblock, Ring};

/// Blocks at both ends that are made zeros: there file systems have what they are known by.
const WIPED: u64 = 32;
/// Units that the ring holds at least, so that what a force or an epoch leaves unused is little.
const LEAST_UNITS: u64 = 16;

/// How a log is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Identity of the log, drawn at random: what the volume held before has another one.
    pub id: u128,
    /// Bytes of the largest write: 4, 8, 16, 32 or 64 KiB. By default the largest of these that is
    /// no more than a sixteenth of the log.
    pub unit: Option<u32>,
}

/// The sizes of a log on so many blocks.
fn shape(blocks: u64, unit: Option<u32>) -> Result<LogShape, Error> {
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    if blocks < LEAST_KEPT_BLOCKS {
        let kib = |blocks: u32| u64::from(blocks) * BLOCK_BYTES as u64 / 1024;
        return Err(Error::BadOption(format!(
            "the volume has {} KiB, a log needs {}; use a larger one",
            kib(blocks),
            kib(LEAST_KEPT_BLOCKS)
        )));
    }
    let of = |unit| LogShape { blocks, unit };
    let fits = |shape: &LogShape| {
        shape.is_valid(LEAST_KEPT_BLOCKS) && shape.unit_sectors() * LEAST_UNITS <= shape.sectors()
    };
    match unit {
        Some(unit) => Some(of(unit)).filter(fits).ok_or_else(|| {
            Error::BadOption(format!(
                "the log cannot be written in units of {unit} bytes; use 4k, 8k, 16k, 32k or 64k, \
                 and no more than a sixteenth of the log"
            ))
        }),
        None => {
            let units = std::iter::successors(Some(MOST_UNIT), |unit| Some(unit / 2));
            let shape = units.take_while(|&unit| unit >= BLOCK_BYTES as u32).map(of).find(fits);
            Ok(shape.expect("units of a block fit in the smallest log"))
        }
    }
}

/// Erases the superblocks of a log: the volume is to be something else.
///
/// # Errors
/// Errors of the volume.
pub(crate) fn erase(disk: &mut dyn Disk) -> Result<(), IoError> {
    for block in 0..u64::from(SUPERBLOCKS).min(disk.blocks()) {
        match disk.read(block, 1) {
            Ok(data) if LogSuperblock::decode(&data.to_bytes(), block).is_some() => {
                disk.write(block, Data::zeros(1))?;
            }
            Err(error) if !is_damage(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes the log. It is durable.
pub fn create(disk: &mut dyn Disk, options: &LogOptions) -> Result<(), Error> {
    let blocks = disk.blocks();
    let shape = shape(blocks, options.unit)?;
    // Copies of the superblock of FFS lie in what becomes the ring.
    superblocks::erase_all(disk)?;
    let count = WIPED.min(blocks);
    for at in [0, blocks - count] {
        disk.write(at, Data::zeros(count as u32))?;
    }
    for superblock in Ring::format_kept(shape, options.id) {
        disk.flush_for(Edge::LogMade)?;
        disk.write(superblock.block(), Data::bytes(superblock.encode().into()))?;
    }
    Ok(disk.flush_for(Edge::LogMade)?)
}
