//! `statfs`: sizes and counts.

use crate::vlfs::volume::Volume;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::call::{MOST_NAME, Space};
use seekless_fs::core::tx::CoreTx;
use seekless_fs::tx::Tx as _;

/// Sizes and counts of the file system. Free numbers are not counted: there are more than blocks,
/// and a file takes one when it is made.
pub fn space(tx: &CoreTx<'_>, vol: &Volume) -> Space {
    let block_bytes = BLOCK_BYTES as u32;
    let free = tx.room().unwrap_or(0);
    Space {
        block_bytes,
        fragment_bytes: block_bytes,
        fragments: tx.all_room(),
        free,
        available: free,
        inodes: vol.objects(),
        free_inodes: vol.objects().min(free),
        name_bytes: MOST_NAME as u32,
    }
}
