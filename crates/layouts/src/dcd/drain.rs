//! Draining: writing home everything that is in the log, at once and in order of location, while
//! no client uses the volume. Records of progress make a drain that was cut off go on where it was.

use super::attach::of_log;
use super::format::{Entry, Header, MAX_ENTRIES};
use super::log::Log;
use super::read::is_sum_of;
use super::table::{Addr, DIRTY, ESCAPED};
use super::{Dcd, attach, format, recover};
use seekless_engine::checksum::Identity;
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::layout::{LayoutError, MountOptions, RecoverySteps};
use seekless_engine::superblock::Superblock;

/// Blocks written home between two records of progress, which list them in one header: 1.3 MiB.
const STEP: usize = MAX_ENTRIES;

/// Writes home all that is in the log of a volume. `disks` is its device, or the origin and the
/// device of the log. `progress` hears how many blocks of how many are home and durable. Returns
/// their number.
///
/// Cut off at any point, nothing is lost, and the next drain goes on: after each step a record says
/// what is home. It is durable with the homes of the next step.
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
    let mut rest = Rest::of(&volume.log);
    let total = volume.log.dirty();
    let (id, port) = (volume.id, volume.log_port());
    progress(0, total);
    while volume.log.dirty() > 0 {
        let step = rest.next(&volume.log);
        let pieces = blaming(port, read_log(&volume, &step, disks))?;
        write_home(&volume, &step, pieces, disks)?;
        // That has flushed the log as well.
        volume.log.made_durable(volume.log.written);
        step.iter().for_each(|&(_, addr)| volume.log.release(addr));
        volume.log.retire();
        if volume.log.dirty() > 0 && volume.log.has_place() {
            let gone = step.iter().map(|&(block, _)| Entry::Gone { block }).collect();
            blaming(port, append(disks[port], &mut volume.log, id, gone, false))?;
        }
        progress(total - volume.log.dirty(), total);
    }
    blaming(port, append(disks[port], &mut volume.log, id, Vec::new(), true))?;
    blaming(port, disks[port].flush_for(Edge::DcdDrainFlush))?;
    volume.log.made_durable(volume.log.written);
    if let ([origin, log], Some(markers)) = (disks, &volume.markers) {
        attach::release(*origin, *log, &markers.log, markers.binding)?;
    }
    Ok(total)
}

/// The blocks that are still to be written home.
struct Rest {
    /// By location, from the end.
    sweep: Vec<(u32, Addr)>,
}

impl Rest {
    fn of(log: &Log) -> Rest {
        let addrs = 0..log.areas.log_blocks() as u32;
        let dirty = addrs.filter(|&addr| log.table.is(addr, DIRTY));
        let mut sweep: Vec<(u32, Addr)> = dirty.map(|at| (log.table.block(at), at)).collect();
        sweep.sort_unstable_by(|a, b| b.cmp(a));
        Rest { sweep }
    }

    /// The next step, sorted by location. Where the log has no room for the records of all steps,
    /// its oldest blocks come first: only that makes room.
    fn next(&mut self, log: &Log) -> Vec<(u32, Addr)> {
        let steps = log.dirty().div_ceil(STEP as u64);
        let segments = steps.div_ceil(log.areas.segment.into()) + 2;
        let recorded = log.head - log.recorded + 1;
        if recorded + segments > log.areas.segments.into() {
            return oldest(log);
        }
        let mut step = Vec::new();
        while step.len() < STEP
            && let Some((block, addr)) = self.sweep.pop()
        {
            if log.table.is(addr, DIRTY) {
                step.push((block, addr));
            }
        }
        step
    }
}

/// Dirty blocks of the oldest segments, as many as make a step.
fn oldest(log: &Log) -> Vec<(u32, Addr)> {
    let slots = (log.tail..=log.head).flat_map(|number| {
        let first = log.place(number) as u32 * log.areas.segment;
        first..first + log.areas.segment
    });
    let dirty = slots.filter(|&addr| log.table.is(addr, DIRTY)).take(STEP);
    let mut step: Vec<_> = dirty.map(|addr| (log.table.block(addr), addr)).collect();
    step.sort_unstable();
    step
}

/// Writes a record without data, at once.
fn append(
    disk: &mut dyn Disk,
    log: &mut Log,
    id: Identity,
    entries: Vec<Entry>,
    clean: bool,
) -> Result<(), LayoutError> {
    let seq = log.written + 1;
    if log.offset >= log.areas.segment {
        // A segment is always left for a record that makes room.
        log.advance_to(log.head + 1, seq);
    }
    let (tail_segment, tail) = log.tail_now(seq, 0);
    let (segment, offset, durable, life) = (log.head, log.offset, log.durable, log.life);
    let before = log.listed.take();
    let header = Header { seq, segment, offset, durable, tail, life, clean, entries, before };
    log.listed = Some(header.blocks());
    let addr = log.place(segment) as u32 * log.areas.segment + offset;
    disk.write(log.device_block(addr), Data::block_of(header.encode(id)))?;
    log.offset += 1;
    log.note_tail(seq, tail_segment);
    log.written = seq;
    Ok(())
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
        blaming(port, disk.flush_for(Edge::DcdDrainHomes))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dcd::format::Areas;
    use crate::dcd::options::Shape;

    /// A log of 128 segments in which so many are full of dirty blocks, far apart at home.
    fn filled(segments: u64) -> Log {
        let shape = Shape { segment_blocks: 32, log_blocks: Some(4096) };
        let mut log = Log::new(Areas::logical(&shape, 50_000, 40_000), 4);
        for number in 0..segments {
            log.advance_to(number, number + 1);
            for offset in 1..32 {
                let addr = number as u32 * 32 + offset;
                let block = addr * 7919 % 40_000;
                log.dirty_slot(addr, block, 1, 0);
                log.table.set(block, addr);
            }
        }
        (log.offset, log.written, log.durable) = (32, segments, segments);
        log
    }

    #[test]
    fn a_log_without_room_for_records_is_drained_from_its_oldest_segment_on() {
        let log = filled(127);
        let step = Rest::of(&log).next(&log);
        assert_eq!(step.len(), STEP);
        assert!(step.is_sorted() && step.iter().all(|&(_, addr)| addr < 32 * 11));
    }

    #[test]
    fn a_log_with_room_is_drained_by_location() {
        let log = filled(90);
        let (mut rest, mut all) = (Rest::of(&log), Vec::new());
        for _ in 0..5 {
            all.extend(rest.next(&log));
        }
        assert!(all.len() == 5 * STEP && all.is_sorted());
        assert!(all.iter().any(|&(_, addr)| addr > 32 * 80));
    }
}
