//! `write`: content of files, in steps of what one transaction has place for.

use super::attr::content_changed;
use super::{STEP_BLOCKS, need_room};
use crate::vlfs::inodes;
use crate::vlfs::ondisk::{MOST_FILE_BYTES, ObjectNr, block_of, blocks_for};
use crate::vlfs::volume::Volume;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::call::{Credentials, Errno, Ino};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Blocks for which a step waits for the next transaction: fewer would make many small ones.
const LEAST_STEP: u64 = 16;

/// What a step of a write has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where it began: what `append` has led to.
    pub at: u64,
    /// Bytes written; the caller goes on behind them.
    pub bytes: usize,
}

/// Writes at a place, or behind the end, as much as one step may. The caller goes on with the rest,
/// without `append`, at `at + bytes`.
///
/// # Errors
/// [`Errno::FBig`], [`Errno::IsDir`], [`Errno::Inval`], [`Errno::Stale`]; [`Stop::NoRoom`],
/// [`Stop::Crowded`]; those of [`Tx::page`].
pub fn write(
    tx: &mut dyn Tx,
    vol: &Volume,
    who: Credentials,
    ino: Ino,
    (at, append): (u64, bool),
    data: &[u8],
) -> Result<Written, Stop> {
    let (object, mut inode) = inodes::file(tx, vol, ino)?;
    let at = if append { inode.size } else { at };
    if data.is_empty() {
        return Ok(Written { at, bytes: 0 });
    }
    let end = at.checked_add(data.len() as u64).ok_or(Errno::FBig)?.min(MOST_FILE_BYTES);
    if at >= end {
        return Err(Errno::FBig.into());
    }
    let block_bytes = BLOCK_BYTES as u64;
    let first = at / block_bytes;
    let step = step_blocks(tx, blocks_for(end) - first)?;
    let end = end.min((first + step) * block_bytes);
    for index in first..blocks_for(end) {
        let from = at.max(index * block_bytes);
        let until = end.min((index + 1) * block_bytes);
        let data = &data[(from - at) as usize..(until - at) as usize];
        one_block(tx, (object, inode.size), from, data)?;
    }
    inode.size = inode.size.max(end);
    content_changed(tx, &mut inode, who);
    inodes::put(tx, object, &inode)?;
    Ok(Written { at, bytes: (end - at) as usize })
}

/// Blocks of a step, of so many that are wanted: what the next transaction has place for, and the
/// volume space.
fn step_blocks(tx: &dyn Tx, wanted: u64) -> Result<u64, Stop> {
    let wanted = wanted.min(STEP_BLOCKS);
    let place = tx.place_for_blocks();
    if place < wanted.min(LEAST_STEP) {
        return Err(Stop::Crowded);
    }
    let step = wanted.min(place);
    // Where space is short, a write takes what there is.
    match need_room(tx, step) {
        Ok(()) => Ok(step),
        Err(_) => need_room(tx, 1).map(|()| 1),
    }
}

/// Writes bytes of one block of a file of some size. What lies behind the end was never written.
fn one_block(
    tx: &mut dyn Tx,
    (object, size): (ObjectNr, u64),
    from: u64,
    data: &[u8],
) -> Result<(), Stop> {
    let kind = PageKind::Data;
    let index = from / BLOCK_BYTES as u64;
    let block = block_of(object, index);
    let within = (from % BLOCK_BYTES as u64) as usize;
    if index >= blocks_for(size) {
        tx.hole(block, kind);
    } else if data.len() == BLOCK_BYTES {
        // Nothing of what it held is read.
        tx.fresh(block, kind, 0, BLOCK_BYTES);
    } else {
        let first = within - within % SECTOR_BYTES;
        let sectors = (within + data.len()).next_multiple_of(SECTOR_BYTES) - first;
        tx.part(block, first, sectors, kind)?;
    }
    tx.set(block, within, data);
    tx.belongs(block, Ino::from(object));
    Ok(())
}
