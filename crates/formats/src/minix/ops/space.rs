//! `statfs`: sizes and counts.

use crate::minix::ondisk::entry::NAME_BYTES;
use crate::minix::volume::{Volume, Which};
use seekless_fs::call::Space;

/// Sizes and counts of the file system.
pub fn space(vol: &Volume) -> Space {
    let block_bytes = vol.geometry.zone_bytes() as u32;
    // What is held makes room when it is needed.
    let free = vol.free(Which::Zones) + vol.held();
    Space {
        block_bytes,
        fragment_bytes: block_bytes,
        fragments: u64::from(vol.geometry.data_zones()),
        free,
        available: free,
        inodes: u64::from(vol.geometry.inodes()),
        free_inodes: vol.free(Which::Inodes),
        name_bytes: NAME_BYTES as u32,
    }
}
