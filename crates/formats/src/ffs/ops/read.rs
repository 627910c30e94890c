//! `read`: content of files; holes read as zeros.

use super::STEP_BLOCKS;
use crate::ffs::inodes;
use crate::ffs::ondisk::inode::Inode;
use crate::ffs::space::map;
use crate::ffs::volume::Volume;
use bytes::{Bytes, BytesMut};
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Errno, Ino};
use seekless_fs::tx::{BlockNo, PageKind, Stop, Tx};

/// Reads from a place on, as much as one step may; short at the end of the file, where it returns
/// nothing, and after [`STEP_BLOCKS`] blocks, where the caller goes on.
///
/// # Errors
/// [`Errno::IsDir`], [`Errno::Inval`], [`Errno::Stale`]; those of [`Tx::page`].
pub fn read(
    tx: &mut dyn Tx,
    vol: &Volume,
    ino: Ino,
    at: u64,
    length: usize,
) -> Result<Bytes, Stop> {
    let inode = inodes::file(tx, vol, ino)?;
    let block_bytes = vol.geometry.block_bytes() as u64;
    let end = at.saturating_add(length as u64).min(inode.size);
    if at >= end {
        return Ok(Bytes::new());
    }
    let end = end.min((at / block_bytes + STEP_BLOCKS) * block_bytes);
    let mut out = BytesMut::with_capacity((end - at) as usize);
    let mut from = at;
    while from < end {
        let index = from / block_bytes;
        let within = (from % block_bytes) as usize;
        let length = (block_bytes - within as u64).min(end - from) as usize;
        let address = map::address(tx, vol, &inode, index)?;
        if address == 0 {
            out.resize(out.len() + length, 0);
        } else {
            let place = vol.geometry.place_of(address);
            let start = place.at + within;
            if start + length > block_bytes as usize {
                return Err(Errno::Io.into());
            }
            let first = start / SECTOR_BYTES * SECTOR_BYTES;
            let sectors = (start + length).next_multiple_of(SECTOR_BYTES) - first;
            match tx.part(place.block, first, sectors, PageKind::Data) {
                Ok(part) => out.extend_from_slice(&part[start - first..start - first + length]),
                Err(stop) => {
                    expect(tx, vol, &inode, index + 1..end.div_ceil(block_bytes));
                    return Err(stop);
                }
            }
        }
        from += length as u64;
    }
    Ok(out.freeze())
}

/// Notes that blocks of a file will be wanted.
pub(super) fn expect(tx: &mut dyn Tx, vol: &Volume, inode: &Inode, blocks: std::ops::Range<u64>) {
    for index in blocks {
        let Ok(address) = map::address(tx, vol, inode, index) else { return };
        if address != 0 {
            tx.expect(vol.geometry.block_of(address), PageKind::Data);
        }
    }
}

/// The block of the file system that holds a block of a file, for read-ahead; `None` for a hole
/// or behind the end.
///
/// # Errors
/// Those of [`read`].
pub fn place(tx: &mut dyn Tx, vol: &Volume, ino: Ino, index: u64) -> Result<Option<BlockNo>, Stop> {
    let inode = inodes::get(tx, vol, ino)?;
    if !inode.has_blocks() || index >= inode.size_blocks(&vol.geometry) {
        return Ok(None);
    }
    let address = map::address(tx, vol, &inode, index)?;
    Ok((address != 0).then(|| vol.geometry.block_of(address)))
}
