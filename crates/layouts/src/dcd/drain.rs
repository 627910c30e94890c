//! Draining: writing home everything that is in the log, at once and in order of location, while
//! no client uses the volume.

use super::attach::{append, of_log};
use super::read::is_sum_of;
use super::stale_marker::MARKER_BLOCK;
use super::table::{Addr, DIRTY, ESCAPED};
use super::{Dcd, attach, format, recover};
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::layout::{LayoutError, MountOptions, RecoverySteps};
use seekless_engine::superblock::Superblock;

/// Blocks written home between two reports of progress: 4 MiB.
const STEP: usize = 1024;

/// Writes home all that is in the log of a volume. `disks` is its device, or the origin and the
/// device of the log. `progress` hears how many blocks of how many are home and durable. Returns
/// their number.
///
/// Cut off at any point, nothing is lost, and the next drain goes on.
///
/// # Errors
/// A volume that is not a disk caching disk, all that keeps it from being mounted, a block in
/// the log that is damaged, and what the media report.
///
/// # Panics
/// Without a device.
pub fn drain(
    disks: &mut [&mut dyn Disk],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, LayoutError> {
    let mut volume = open(disks)?;
    let addrs = 0..volume.areas.log_blocks() as u32;
    let dirty = addrs.filter(|&addr| volume.log.table.is(addr, DIRTY));
    let mut all: Vec<(u32, Addr)> = dirty.map(|at| (volume.log.table.block(at), at)).collect();
    all.sort_unstable();
    let total = all.len() as u64;
    let mut done = 0;
    progress(done, total);
    for step in all.chunks(STEP) {
        let pieces = blaming(volume.log_port(), read_log(&volume, step, disks))?;
        write_home(&volume, step, pieces, disks)?;
        step.iter().for_each(|&(_, addr)| volume.log.release(addr));
        done += step.len() as u64;
        progress(done, total);
    }
    let (id, port) = (volume.id, volume.log_port());
    blaming(port, append(disks[port], &mut volume.log, id))?;
    if let Some(stale_marker) = volume.last_marker() {
        disks[0].write(MARKER_BLOCK, stale_marker)?;
        disks[0].flush()?;
    }
    Ok(total)
}

/// Says of a failure at the second device that it concerns the log.
fn blaming<T>(port: usize, result: Result<T, impl Into<LayoutError>>) -> Result<T, LayoutError> {
    if port == 1 { of_log(result) } else { result.map_err(Into::into) }
}

fn open(disks: &mut [&mut dyn Disk]) -> Result<Dcd, LayoutError> {
    let options = MountOptions { volatile: true, ..MountOptions::default() };
    if let [origin, log] = disks {
        return Ok(attach::mount(*origin, *log, &options)?.0);
    }
    let superblock = Superblock::read(disks[0], &super::known)?;
    if superblock.layout.0 != super::DESCRIPTOR.number {
        let reason = "a volume of another layout has no log to drain";
        return Err(LayoutError::BadSize(reason.into()));
    }
    recover::mount(disks[0], &superblock, &options, &mut RecoverySteps::new(None))
}

/// The content of some slots, read in the order in which they lie.
fn read_log(
    volume: &Dcd,
    step: &[(u32, Addr)],
    disks: &mut [&mut dyn Disk],
) -> Result<Vec<Option<Piece>>, LayoutError> {
    let mut order: Vec<usize> = (0..step.len()).collect();
    order.sort_unstable_by_key(|&index| step[index].1);
    let mut pieces = vec![None; step.len()];
    for index in order {
        let (block, addr) = step[index];
        let disk = &mut disks[volume.log_port()];
        let piece = disk.read(volume.log.device_block(addr), 1)?.block(0);
        let escaped = volume.log.table.is(addr, ESCAPED);
        let piece = if escaped { format::escape(&piece) } else { piece };
        if !is_sum_of(volume.areas.sums, volume.log.table.sum(addr), &piece) {
            return Err(IoError::Checksum { block: block.into() }.into());
        }
        pieces[index] = Some(piece);
    }
    Ok(pieces)
}

/// Writes blocks home, neighbours together, and makes them durable there.
fn write_home(
    volume: &Dcd,
    step: &[(u32, Addr)],
    pieces: Vec<Option<Piece>>,
    disks: &mut [&mut dyn Disk],
) -> Result<(), LayoutError> {
    let mut runs: Vec<(u32, Data)> = Vec::new();
    for (&(block, _), piece) in step.iter().zip(pieces.into_iter().flatten()) {
        match runs.last_mut() {
            Some((first, data)) if *first + data.blocks() == block => data.push(piece),
            _ => runs.push((block, Data::block_of(piece.body))),
        }
    }
    for (first, data) in runs {
        let mut from = 0;
        for (port, home, count) in volume.homes(first.into(), data.blocks()) {
            blaming(port, disks[port].write(home, data.slice(from, count)))?;
            from += count;
        }
    }
    for (port, disk) in disks.iter_mut().enumerate() {
        blaming(port, disk.flush())?;
    }
    Ok(())
}
