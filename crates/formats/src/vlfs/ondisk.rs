//! The structures on the volume, and where they lie.
//!
//! The first object of each slice is that slice's own: its attributes say which objects are in
//! use. The first block of object 0 is the superblock. Object 2 is the root directory.

pub mod attributes;
pub mod kinds;
pub mod slice;
pub mod superblock;

use crate::kind::KindLimits;
use seekless_engine::disk::Disk;
use seekless_engine::objects::{self, ATTRIBUTES, MOST_BLOCKS, SLICE_OBJECTS, WITHIN_BITS, Within};
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::call::{MOST_NAME, ROOT};
use seekless_fs::tx::BlockNo;
use std::ops::Range;

pub use seekless_engine::objects::ObjectNr;

/// The root directory.
pub const ROOT_OBJECT: ObjectNr = ROOT as ObjectNr;
/// Bytes of a file at most.
pub const MOST_FILE_BYTES: u64 = MOST_BLOCKS as u64 * BLOCK_BYTES as u64;
/// Blocks of a directory at most: a search reads them all, and an index holds the places of all
/// names in memory.
pub const MOST_DIRECTORY_BLOCKS: u64 = 1 << 16;
/// Names of an object at most.
pub const MOST_LINKS: u32 = 1 << 30;

/// What the format cannot hold, whatever its sizes.
pub const LIMITS: KindLimits = KindLimits {
    name_bytes: MOST_NAME,
    links: MOST_LINKS,
    file_bytes: MOST_FILE_BYTES,
    owner: u32::MAX,
    allocates: false,
    generations: true,
    time_step: 1,
    marks_unmounts: false,
};

/// Where the attributes of an object lie.
pub fn attributes_of(object: ObjectNr) -> BlockNo {
    objects::address(object, ATTRIBUTES)
}

/// Where a block of the content of an object lies.
pub fn block_of(object: ObjectNr, index: u64) -> BlockNo {
    debug_assert!(index < u64::from(MOST_BLOCKS));
    objects::address(object, index as Within)
}

/// All blocks of an object, attributes too.
pub fn all_of(object: ObjectNr) -> Range<BlockNo> {
    objects::address(object, 0)..attributes_of(object) + 1
}

/// The blocks of the content of an object from one on.
pub fn content_from(object: ObjectNr, index: u64) -> Range<BlockNo> {
    block_of(object, index)..objects::address(object, MOST_BLOCKS)
}

/// Blocks that so many bytes take.
pub fn blocks_for(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES as u64)
}

/// The next slice from one on in which something was ever stored, as far as the volume can tell.
pub fn next_slice(disk: &mut dyn Disk, from: u32) -> Option<u32> {
    let slices = (disk.blocks() >> WITHIN_BITS).div_ceil(u64::from(SLICE_OBJECTS));
    if u64::from(from) >= slices {
        return None;
    }
    let next = disk.next_data(objects::address(from * SLICE_OBJECTS, 0))?;
    Some(objects::slice_of(objects::split(next).0))
}

/// True if an object is the first one of a slice, which no file can be.
pub fn is_slice(object: ObjectNr) -> bool {
    object.is_multiple_of(SLICE_OBJECTS)
}
