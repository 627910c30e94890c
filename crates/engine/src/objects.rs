//! Addresses of volumes that hold objects instead of blocks in a row: what the drive of VLFS and
//! the file system above it agree on (section 3.3 of the virtual log paper).
//!
//! Such a volume is a sparse space. An address is an object times 2³¹ plus a block of it; the last
//! of these blocks holds the attributes. What was never written, and what a transaction
//! [cuts](crate::transaction::Transaction::cut), reads as zeros and takes no space.

use crate::units::{BLOCK_BYTES, BlockNr};

/// Number of an object.
pub type ObjectNr = u32;
/// Block of an object.
pub type Within = u32;

/// Bits of an address that are the block within the object.
pub const WITHIN_BITS: u32 = 31;
/// The block that holds the attributes.
pub const ATTRIBUTES: Within = (1 << WITHIN_BITS) - 1;
/// Bytes of attributes.
pub const ATTRIBUTE_BYTES: usize = 96;
/// Objects that share a block of the drive's map: small changes of several of them cost least.
pub const SLICE_OBJECTS: u32 = 128;
/// Blocks that an object can have: what twelve pointers and trees of three heights reach.
pub const MOST_BLOCKS: Within = 12 + 512 + 512 * 512 + 512 * 512 * 512;

const _: () = assert!(MOST_BLOCKS < ATTRIBUTES);

/// The address of a block of an object.
pub fn address(object: ObjectNr, within: Within) -> BlockNr {
    debug_assert!(within <= ATTRIBUTES);
    BlockNr::from(object) << WITHIN_BITS | BlockNr::from(within)
}

/// The object and the block of an address.
pub fn split(at: BlockNr) -> (ObjectNr, Within) {
    debug_assert!(at >> WITHIN_BITS <= BlockNr::from(ObjectNr::MAX), "address {at:#x}");
    ((at >> WITHIN_BITS) as ObjectNr, at as Within & ATTRIBUTES)
}

/// Bytes that a block has: few for attributes; `None` if no object has such a block.
pub fn bytes_of(within: Within) -> Option<usize> {
    match within {
        ATTRIBUTES => Some(ATTRIBUTE_BYTES),
        within => (within < MOST_BLOCKS).then_some(BLOCK_BYTES),
    }
}

/// The slice of an object.
pub fn slice_of(object: ObjectNr) -> u32 {
    object / SLICE_OBJECTS
}

/// An object in its slice.
pub fn member_of(object: ObjectNr) -> u8 {
    (object % SLICE_OBJECTS) as u8
}
