//! The structures on disk: Linux's, to the byte.

pub mod entry;
pub mod geometry;
pub mod inode;
pub mod superblock;

use crate::kind::KindLimits;
use entry::NAME_BYTES;
use inode::MOST_LINKS;
use superblock::MOST_FILE_BYTES;

/// What the format cannot hold, whatever its sizes.
pub const LIMITS: KindLimits = KindLimits {
    name_bytes: NAME_BYTES,
    links: MOST_LINKS as u32,
    file_bytes: MOST_FILE_BYTES as u64,
    owner: u16::MAX as u32,
    allocates: false,
    generations: false,
    time_step: inode::SECOND,
    marks_unmounts: false,
};
