//! Directory chunks: the entries of a sealed sector, as they lie on disk.
//!
//! A chunk is 504 bytes filled by entries {inode 4, length 2, type 1, name length 1, name padded to
//! 4}. No entry crosses chunks. An entry with inode 0 is empty. The size of a directory counts
//! whole sectors, seals included, so chunk *k* begins at byte 512 · *k* of the directory. Chunk 0
//! begins with `.` and `..`.
//!
//! Only check and repair use this module. The operations have their own, so one mistake does not
//! hide in both.

use crate::ffs::ondisk::fields::{put, u16_at, u32_at};
use seekless_fs::call::FileKind;
use seekless_fs::tx::SECTOR_CONTENT;

/// Bytes of an entry before its name.
pub const ENTRY_HEAD: usize = 8;
/// Length of `.`, of `..` and of every other entry with at most four bytes of name, at least.
pub const LEAST_ENTRY: usize = 12;

/// The type byte of an entry, as `d_type`.
pub fn type_byte(kind: FileKind) -> u8 {
    match kind {
        FileKind::Fifo => 1,
        FileKind::CharDevice => 2,
        FileKind::Directory => 4,
        FileKind::BlockDevice => 6,
        FileKind::File => 8,
        FileKind::Symlink => 10,
        FileKind::Socket => 12,
    }
}

/// Bits of a type byte that say the kind. The others count how often the object was renamed, modulo
/// 4: of two names of a directory that a crash has left, the later one counts one more.
pub const KIND_BITS: u8 = 0x3f;

/// The count of renames in a type byte.
pub fn moves_of(byte: u8) -> u8 {
    byte / (KIND_BITS + 1)
}

/// A type byte with the count of renames that follows one.
pub fn moved(kind: FileKind, moves: u8) -> u8 {
    type_byte(kind) | ((moves + 1) % 4 * (KIND_BITS + 1))
}

/// The kind that a type byte says.
pub fn kind_of_type(byte: u8) -> Option<FileKind> {
    match byte & KIND_BITS {
        1 => Some(FileKind::Fifo),
        2 => Some(FileKind::CharDevice),
        4 => Some(FileKind::Directory),
        6 => Some(FileKind::BlockDevice),
        8 => Some(FileKind::File),
        10 => Some(FileKind::Symlink),
        12 => Some(FileKind::Socket),
        _ => None,
    }
}

/// Bytes that an entry with a name of this length needs.
pub fn needed(name_length: usize) -> usize {
    ENTRY_HEAD + name_length.next_multiple_of(4)
}

/// An entry of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'c> {
    /// Offset in the chunk.
    pub at: usize,
    /// Its length, with the space behind the name.
    pub length: usize,
    /// The inode; 0 for an empty entry.
    pub ino: u32,
    /// The type byte.
    pub type_byte: u8,
    /// The name; empty for an empty entry.
    pub name: &'c [u8],
}

/// The entries of a chunk, empty ones included; none if they do not fill it.
pub fn entries(chunk: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < SECTOR_CONTENT {
        let entry = entry_at(chunk, at)?;
        at += entry.length;
        all.push(entry);
    }
    Some(all)
}

fn entry_at(chunk: &[u8], at: usize) -> Option<Entry<'_>> {
    if at + ENTRY_HEAD > SECTOR_CONTENT {
        return None;
    }
    let length = usize::from(u16_at(chunk, at + 4));
    let name_length = usize::from(chunk[at + 7]);
    let ino = u32_at(chunk, at);
    let needs = if ino == 0 { ENTRY_HEAD } else { needed(name_length) };
    if length % 4 != 0 || length < needs || at + length > SECTOR_CONTENT {
        return None;
    }
    let name: &[u8] = match ino {
        0 => &[],
        _ => &chunk[at + ENTRY_HEAD..at + ENTRY_HEAD + name_length],
    };
    Some(Entry { at, length, ino, type_byte: chunk[at + 6], name })
}

/// True for `.` and `..`.
pub fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// Makes a chunk one empty entry.
pub fn format_empty(chunk: &mut [u8]) {
    chunk[..SECTOR_CONTENT].fill(0);
    put(chunk, 4, &(SECTOR_CONTENT as u16).to_le_bytes());
}

/// Makes a chunk the first one of a directory: `.` and `..`.
pub fn format_first(chunk: &mut [u8], own: u32, parent: u32) {
    format_empty(chunk);
    put_entry(chunk, 0, LEAST_ENTRY, own, FileKind::Directory, b".");
    let rest = SECTOR_CONTENT - LEAST_ENTRY;
    put_entry(chunk, LEAST_ENTRY, rest, parent, FileKind::Directory, b"..");
}

/// Writes an entry over the bytes from `at` on.
pub fn put_entry(
    chunk: &mut [u8],
    at: usize,
    length: usize,
    ino: u32,
    kind: FileKind,
    name: &[u8],
) {
    debug_assert!(length >= needed(name.len()) && at + length <= SECTOR_CONTENT);
    put(chunk, at, &ino.to_le_bytes());
    put(chunk, at + 4, &(length as u16).to_le_bytes());
    chunk[at + 6] = type_byte(kind);
    chunk[at + 7] = name.len() as u8;
    chunk[at + ENTRY_HEAD..at + needed(name.len())].fill(0);
    put(chunk, at + ENTRY_HEAD, name);
}

/// Adds an entry where there is room in the chunk; false if there is none.
pub fn add(chunk: &mut [u8], ino: u32, kind: FileKind, name: &[u8]) -> bool {
    let wanted = needed(name.len());
    let Some(all) = entries(chunk) else { return false };
    let room = all.iter().find_map(|entry| {
        let used = if entry.ino == 0 { 0 } else { needed(entry.name.len()) };
        (entry.length - used >= wanted).then_some((entry.at, used, entry.length))
    });
    let Some((at, used, length)) = room else { return false };
    if used > 0 {
        put(chunk, at + 4, &(used as u16).to_le_bytes());
    }
    put_entry(chunk, at + used, length - used, ino, kind, name);
    true
}

/// Empties the entry at `at`: clears its inode number.
pub fn remove(chunk: &mut [u8], at: usize) {
    put(chunk, at, &0_u32.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_first_chunk_has_two_entries() {
        let mut chunk = [9; SECTOR_CONTENT];
        format_first(&mut chunk, 7, 2);
        let all = entries(&chunk).expect("well formed");
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].ino, all[0].length, all[0].name), (7, 12, &b"."[..]));
        assert_eq!((all[1].ino, all[1].length, all[1].name), (2, 492, &b".."[..]));
    }

    #[test]
    fn entries_are_added_until_a_chunk_is_full() {
        let mut chunk = [0; SECTOR_CONTENT];
        format_empty(&mut chunk);
        let mut count = 0;
        while add(&mut chunk, 100 + count, FileKind::File, format!("f{count:03}").as_bytes()) {
            count += 1;
        }
        assert_eq!(count, 504 / 12);
        let all = entries(&chunk).expect("well formed");
        assert_eq!(all.len() as u32, count);
        let at = all[5].at;
        remove(&mut chunk, at);
        assert!(add(&mut chunk, 7, FileKind::Socket, b"x"), "the room of the removed one");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(0_u8..40, SECTOR_CONTENT),
        ) {
            if let Some(all) = entries(&bytes) {
                let length: usize = all.iter().map(|entry| entry.length).sum();
                prop_assert_eq!(length, SECTOR_CONTENT);
            }
        }
    }
}
