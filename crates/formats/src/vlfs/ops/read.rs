//! `read`: content of files; what was never written reads as zeros.

use super::STEP_BLOCKS;
use crate::vlfs::inodes;
use crate::vlfs::ondisk::{block_of, blocks_for};
use crate::vlfs::volume::Volume;
use bytes::{Bytes, BytesMut};
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::call::Ino;
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Reads from a place on, as much as one step may; short at the end of the file, where it returns
/// nothing, and after [`STEP_BLOCKS`], where the caller goes on.
///
/// # Errors
/// Those of [`inodes::file`] and [`Tx::page`].
pub fn read(
    tx: &mut dyn Tx,
    vol: &Volume,
    ino: Ino,
    at: u64,
    length: usize,
) -> Result<Bytes, Stop> {
    let (object, inode) = inodes::file(tx, vol, ino)?;
    let block_bytes = BLOCK_BYTES as u64;
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
        let first = within - within % SECTOR_BYTES;
        let sectors = (within + length).next_multiple_of(SECTOR_BYTES) - first;
        match tx.part(block_of(object, index), first, sectors, PageKind::Data) {
            Ok(part) => out.extend_from_slice(&part[within - first..][..length]),
            Err(stop) => {
                for ahead in index + 1..blocks_for(end) {
                    tx.expect(block_of(object, ahead), PageKind::Data);
                }
                return Err(stop);
            }
        }
        from += length as u64;
    }
    Ok(out.freeze())
}
