//! `statfs`: sizes and counts.

use crate::ffs::volume::Volume;
use seekless_fs::call::{Credentials, MOST_NAME, Space};

/// Sizes and counts of the file system.
pub fn space(vol: &Volume) -> Space {
    // What is still to be freed makes room when it is needed.
    let free = vol.free_fragments() + vol.owed().fragments;
    let free_inodes: u64 = vol.groups().iter().map(|g| u64::from(g.free_inodes)).sum();
    Space {
        block_bytes: vol.geometry.block_bytes() as u32,
        fragment_bytes: vol.geometry.fragment_bytes() as u32,
        fragments: vol.data_fragments(),
        free,
        available: free.saturating_sub(vol.reserve()),
        inodes: u64::from(vol.geometry.inodes()),
        free_inodes: free_inodes + vol.owed().inodes,
        name_bytes: MOST_NAME as u32,
    }
}

/// Fragments that a user may still allocate.
pub fn available(vol: &Volume, who: Credentials) -> u64 {
    let reserve = if who.uid == 0 { 0 } else { vol.reserve() };
    vol.free_fragments().saturating_sub(reserve)
}
