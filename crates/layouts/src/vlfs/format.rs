//! Bytes of the drive on disk: what map blocks say, inodes, indirect blocks. Headers of map blocks
//! and the tail record are those of the virtual log. `SPEC.md` has the tables.

use super::address::{
    ATTRIBUTE_BYTES, BLOCK_INODES, FAN_OUT, INODE_POINTERS, ObjectNr, SLICE_GROUPS,
};
use super::patch::Patches;
use crate::eager::Mapped as _;
pub use crate::vlog::format::{
    Changed, Entry, FIXED_BLOCKS, Header, POOL_START, SLICE_ENTRIES, TAIL_BLOCK, Tail,
    looks_like_map,
};
use crate::vlog::format::{entry_bytes, seal_map};
use bytes::Bytes;
use seekless_engine::checksum::Identity;
use seekless_engine::superblock::le32;
use seekless_engine::units::BLOCK_BYTES;

/// Bytes of the inode map in the body of a map block; then the length of the patches, then those.
const GROUP_BYTES: usize = SLICE_GROUPS * 8;
const LENGTH_BYTES: usize = 2;
/// Bytes that a map block has for patches.
pub const PATCH_ROOM: usize = SLICE_ENTRIES * 8 - GROUP_BYTES - LENGTH_BYTES;

/// Where the inode blocks of a slice lie.
pub type Groups = [Entry; SLICE_GROUPS];

/// What the header of a map block says has changed: the inode blocks that its commit has written, a
/// bit for each of the slice, and that it is no mere statement of what is durable.
pub fn changed(fresh_groups: u8, is_marker: bool) -> Changed {
    let mut changed = Changed::default();
    (changed[0], changed[1]) = (u64::from(fresh_groups), u64::from(!is_marker));
    changed
}

/// What a map block says of the objects of its slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Where the inode blocks lie.
    pub groups: Groups,
    /// What has changed since they were written.
    pub patches: Patches,
}

/// The map block of volume `id` that lies at `place`.
///
/// # Panics
/// If the patches do not fit.
pub fn encode_map(id: Identity, place: u32, header: &Header, content: &Content) -> Bytes {
    let patches = content.patches.encode();
    assert!(patches.len() <= PATCH_ROOM, "{} bytes of patches", patches.len());
    let mut out = vec![0; BLOCK_BYTES];
    let body = entry_bytes(&mut out);
    for (entry, out) in content.groups.iter().zip(body.chunks_exact_mut(8)) {
        out.copy_from_slice(&entry.encode());
    }
    body[GROUP_BYTES..][..LENGTH_BYTES].copy_from_slice(&(patches.len() as u16).to_le_bytes());
    body[GROUP_BYTES + LENGTH_BYTES..][..patches.len()].copy_from_slice(&patches);
    seal_map(id, place, header, &mut out);
    out.into()
}

/// Reads what a whole map block says of objects; `None` if it makes no sense.
pub fn decode_content(block: &[u8]) -> Option<Content> {
    let body = &block[BLOCK_BYTES - SLICE_ENTRIES * 8..];
    let length = u16::from_le_bytes([body[GROUP_BYTES], body[GROUP_BYTES + 1]]);
    let patches = body[GROUP_BYTES + LENGTH_BYTES..].get(..usize::from(length))?;
    let mut groups = Groups::default();
    for (entry, bytes) in groups.iter_mut().zip(body.chunks_exact(8)) {
        *entry = Entry::decode(bytes);
    }
    Some(Content { groups, patches: Patches::decode(patches)? })
}

/// Where a map block says that its commit has written.
pub fn written(header: &Header, content: &Content) -> Vec<Entry> {
    let fresh = |index: usize| header.changed[0] & 1 << index != 0;
    let groups = content.groups.iter().enumerate().filter(|(index, _)| fresh(*index));
    groups.map(|(_, &entry)| entry).chain(content.patches.fresh()).collect()
}

/// Bytes of an inode.
pub const INODE_BYTES: usize = 256;
const INODE_POINTERS_AT: usize = ATTRIBUTE_BYTES;
const INODE_OBJECT_AT: usize = INODE_POINTERS_AT + INODE_POINTERS * 8;
const INODE_CRC_AT: usize = INODE_BYTES - 4;

/// The first eight bytes of the identity of the volume.
const INODE_ID_AT: usize = INODE_OBJECT_AT + 4;

const _: () = assert!(INODE_ID_AT + 8 <= INODE_CRC_AT);
const _: () = assert!(INODE_BYTES * BLOCK_INODES as usize == BLOCK_BYTES);
const _: () = assert!(FAN_OUT as usize * 8 == BLOCK_BYTES);

/// What the drive keeps of an object: all zeros for one that holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// What the host says of it.
    pub attributes: [u8; ATTRIBUTE_BYTES],
    /// Where its blocks lie: direct pointers, then those to trees of heights 1, 2 and 3.
    pub pointers: [Entry; INODE_POINTERS],
}

impl Inode {
    /// Of an object that holds nothing.
    pub const EMPTY: Inode =
        Inode { attributes: [0; ATTRIBUTE_BYTES], pointers: [Entry::UNMAPPED; INODE_POINTERS] };

    /// True if the object holds nothing.
    pub fn is_empty(&self) -> bool {
        *self == Inode::EMPTY
    }

    /// Writes it down as that of `object`.
    pub fn encode(&self, id: Identity, object: ObjectNr, out: &mut [u8]) {
        let out = &mut out[..INODE_BYTES];
        out.fill(0);
        if self.is_empty() {
            return;
        }
        out[..ATTRIBUTE_BYTES].copy_from_slice(&self.attributes);
        for (entry, at) in self.pointers.iter().zip((INODE_POINTERS_AT..).step_by(8)) {
            out[at..at + 8].copy_from_slice(&entry.encode());
        }
        out[INODE_OBJECT_AT..INODE_ID_AT].copy_from_slice(&object.to_le_bytes());
        out[INODE_ID_AT..INODE_ID_AT + 8].copy_from_slice(&id.to_le_bytes()[..8]);
        let sum = id.sum(&out[..INODE_CRC_AT]);
        out[INODE_CRC_AT..].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads that of `object`; `None` if it is damaged or another one's.
    pub fn decode(id: Identity, object: ObjectNr, bytes: &[u8]) -> Option<Inode> {
        let bytes = &bytes[..INODE_BYTES];
        if bytes.iter().all(|&byte| byte == 0) {
            return Some(Inode::EMPTY);
        }
        let is_whole = id.sum(&bytes[..INODE_CRC_AT]) == le32(bytes, INODE_CRC_AT)
            && le32(bytes, INODE_OBJECT_AT) == object
            && bytes[INODE_ID_AT..INODE_ID_AT + 8] == id.to_le_bytes()[..8];
        let mut inode = Inode::EMPTY;
        inode.attributes.copy_from_slice(&bytes[..ATTRIBUTE_BYTES]);
        let pointers = bytes[INODE_POINTERS_AT..INODE_OBJECT_AT].chunks_exact(8);
        for (entry, bytes) in inode.pointers.iter_mut().zip(pointers) {
            *entry = Entry::decode(bytes);
        }
        is_whole.then_some(inode)
    }
}

/// An indirect block with these pointers.
pub fn encode_indirect(pointers: &[Entry]) -> Bytes {
    debug_assert_eq!(pointers.len(), FAN_OUT as usize);
    pointers.iter().flat_map(|entry| entry.encode()).collect::<Vec<u8>>().into()
}

/// The pointers of an indirect block.
pub fn decode_indirect(block: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    block.chunks_exact(8).map(Entry::decode)
}

/// True if no pointer leads anywhere.
pub fn leads_nowhere(pointers: &[Entry]) -> bool {
    !pointers.iter().any(|entry| entry.is_mapped())
}

#[cfg(test)]
mod tests;
