//! Directory chunks: the entries that fill the content of one sealed sector.
//!
//! An entry is {inode 4, length 2, kind 1, name length 1, name padded to 4}. The lengths of the
//! entries of a chunk add up to 504 bytes, so no entry crosses into another sector, and one sector
//! write changes names atomically. An entry never moves: a removal clears the inode number and
//! adds the length to the predecessor; an addition takes the slack behind a live entry. Cookies of
//! directory listings rely on that.

use seekless_fs::tx::SECTOR_CONTENT;
use smallvec::SmallVec;

/// Bytes of an entry before its name.
pub const HEADER: usize = 8;

/// An entry of a chunk. The inode number 0 marks a free entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Offset in the chunk.
    pub at: usize,
    /// Bytes up to the next entry.
    pub length: usize,
    /// Number of the inode; 0 if the entry is free.
    pub ino: u32,
    /// The type byte, as in [`crate::ffs::ondisk::entries`].
    pub kind: u8,
    /// The name.
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Bytes that the entry needs; what its length has beyond them is slack.
    fn used(&self) -> usize {
        if self.ino == 0 { 0 } else { space(self.name.len()) }
    }
}

/// A chunk whose entries do not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// Bytes that change: offset in the chunk and content.
pub type Edit = (usize, SmallVec<[u8; 32]>);

/// Bytes that an entry with a name of this length needs.
pub fn space(name: usize) -> usize {
    HEADER + name.next_multiple_of(4)
}

/// The entry at an offset at which one begins.
///
/// # Errors
/// [`Damaged`] if it does not fit into the chunk.
#[inline]
pub fn entry(chunk: &[u8], at: usize) -> Result<Entry<'_>, Damaged> {
    let content: &[u8; SECTOR_CONTENT] = chunk.first_chunk().ok_or(Damaged)?;
    let Header { ino, length, kind, named } = header(content, at)?;
    let name = &content[at + HEADER..at + HEADER + if ino == 0 { 0 } else { named }];
    Ok(Entry { at, length, ino, kind, name })
}

/// What comes before a name.
struct Header {
    ino: u32,
    length: usize,
    kind: u8,
    /// Bytes of the name; means nothing if the entry is free.
    named: usize,
}

/// The header at an offset: one load, and all checks in one branch, because each look-up reads the
/// header of every entry before its own.
#[inline(always)]
fn header(content: &[u8; SECTOR_CONTENT], at: usize) -> Result<Header, Damaged> {
    let rest = content.get(at..).ok_or(Damaged)?;
    let all = u64::from_le_bytes(*rest.first_chunk().ok_or(Damaged)?);
    let (ino, length) = (all as u32, usize::from((all >> 32) as u16));
    let (kind, named) = ((all >> 48) as u8, (all >> 56) as usize);
    let misfits = (length < HEADER) | (length % 4 != 0) | (length > rest.len());
    // Lengths are multiples of 4, so a name that fits without its padding fits with it.
    if misfits | ((ino != 0) & ((named == 0) | (HEADER + named > length))) {
        return Err(Damaged);
    }
    Ok(Header { ino, length, kind, named })
}

/// The entries of a chunk, free ones included. Ends after the first damaged one.
pub fn entries(chunk: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, Damaged>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= SECTOR_CONTENT {
            return None;
        }
        let found = entry(chunk, at);
        at = found.map_or(SECTOR_CONTENT, |e| e.at + e.length);
        Some(found)
    })
}

/// The live entry of a name.
///
/// # Errors
/// [`Damaged`] if an entry before it is.
pub fn find<'a>(chunk: &'a [u8], name: &[u8]) -> Result<Option<Entry<'a>>, Damaged> {
    let content: &[u8; SECTOR_CONTENT] = chunk.first_chunk().ok_or(Damaged)?;
    let (mut at, last) = (0, name.last().copied().unwrap_or(0));
    while at < SECTOR_CONTENT {
        let Header { ino, length, named, .. } = header(content, at)?;
        let from = at + HEADER;
        // The last byte tells most names of one length apart.
        if ino != 0
            && named == name.len()
            && content[from + named - 1] == last
            && content[from..from + named] == *name
        {
            return entry(chunk, at).map(Some);
        }
        at += length;
    }
    Ok(None)
}

/// True if an entry of so many bytes can be added.
///
/// # Errors
/// [`Damaged`] if the entries before its place do not add up.
pub fn has_room(chunk: &[u8], need: usize) -> Result<bool, Damaged> {
    let content: &[u8; SECTOR_CONTENT] = chunk.first_chunk().ok_or(Damaged)?;
    let mut at = 0;
    while at < SECTOR_CONTENT {
        let Header { ino, length, named, .. } = header(content, at)?;
        let used = if ino == 0 { 0 } else { space(named) };
        if length - used >= need {
            return Ok(true);
        }
        at += length;
    }
    Ok(false)
}

/// The largest entry that can be added, in bytes.
///
/// # Errors
/// [`Damaged`] if the entries do not add up.
pub fn room(chunk: &[u8]) -> Result<usize, Damaged> {
    let mut most = 0;
    for entry in entries(chunk) {
        let entry = entry?;
        most = most.max(entry.length - entry.used());
    }
    Ok(most)
}

/// The bytes of an entry.
pub fn encode(ino: u32, length: usize, kind: u8, name: &[u8]) -> SmallVec<[u8; 32]> {
    let mut bytes = SmallVec::with_capacity(space(name.len()));
    bytes.extend_from_slice(&ino.to_le_bytes());
    bytes.extend_from_slice(&(length as u16).to_le_bytes());
    bytes.push(kind);
    bytes.push(name.len() as u8);
    bytes.extend_from_slice(name);
    bytes.resize(space(name.len()), 0);
    bytes
}

/// An empty chunk: one free entry.
pub fn empty() -> SmallVec<[u8; 32]> {
    encode(0, SECTOR_CONTENT, 0, b"")
}

/// What adding an entry changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Offset of the new entry in the chunk.
    pub at: usize,
    /// The entry itself.
    pub entry: Edit,
    /// The length of the predecessor, which gives up its slack.
    pub before: Option<Edit>,
}

/// Plans a new entry in the first place that has room; `None` if no place has.
///
/// # Errors
/// [`Damaged`] if the entries before that place do not add up.
pub fn add(chunk: &[u8], ino: u32, kind: u8, name: &[u8]) -> Result<Option<Added>, Damaged> {
    let need = space(name.len());
    for entry in entries(chunk) {
        let entry = entry?;
        let used = entry.used();
        if entry.length - used < need {
            continue;
        }
        let at = entry.at + used;
        let bytes = encode(ino, entry.length - used, kind, name);
        let before = (used > 0).then(|| length_edit(entry.at, used));
        return Ok(Some(Added { at, entry: (at, bytes), before }));
    }
    Ok(None)
}

/// Sets the length field of an entry.
fn length_edit(at: usize, length: usize) -> Edit {
    (at + 4, SmallVec::from_slice(&(length as u16).to_le_bytes()))
}

/// What removing an entry changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The inode number, cleared.
    pub clear: Edit,
    /// The length of the predecessor, which takes the place over. The first entry has none.
    pub before: Option<Edit>,
}

/// Plans the removal of the live entry at an offset; `None` if there is no such entry.
///
/// # Errors
/// [`Damaged`] if the entries before it do not add up.
pub fn remove(chunk: &[u8], at: usize) -> Result<Option<Gone>, Damaged> {
    let mut last: Option<Entry<'_>> = None;
    for entry in entries(chunk) {
        let entry = entry?;
        if entry.at == at && entry.ino != 0 {
            let clear = (at, SmallVec::from_slice(&0u32.to_le_bytes()));
            let before = last.map(|e| length_edit(e.at, e.length + entry.length));
            return Ok(Some(Gone { clear, before }));
        }
        last = Some(entry);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn apply(chunk: &mut [u8], edit: &Edit) {
        chunk[edit.0..edit.0 + edit.1.len()].copy_from_slice(&edit.1);
    }

    fn fresh() -> Vec<u8> {
        let mut chunk = vec![0; SECTOR_CONTENT];
        apply(&mut chunk, &(0, empty()));
        chunk
    }

    #[test]
    fn a_name_of_full_length_fits_an_empty_chunk_once() {
        let mut chunk = fresh();
        let name = [b'x'; 255];
        let added = add(&chunk, 7, 8, &name).unwrap().unwrap();
        apply(&mut chunk, &added.entry);
        assert_eq!(find(&chunk, &name).unwrap().unwrap().ino, 7);
        assert_eq!(add(&chunk, 8, 8, &[b'y'; 255]), Ok(None));
        assert_eq!(room(&chunk), Ok(SECTOR_CONTENT - 264));
    }

    #[test]
    fn lengths_that_do_not_add_up_are_an_error() {
        for length in [0u16, 7, 10, 508, u16::MAX] {
            let mut chunk = fresh();
            chunk[4..6].copy_from_slice(&length.to_le_bytes());
            assert_eq!(room(&chunk), Err(Damaged), "length {length}");
        }
    }

    proptest! {
        /// Names, numbers and places agree with a map after any additions and removals.
        #[test]
        fn a_chunk_is_a_map(steps in prop::collection::vec((0u8..40, 1usize..60), 1..200)) {
            let mut chunk = fresh();
            let mut model: BTreeMap<Vec<u8>, (u32, usize)> = BTreeMap::new();
            for (number, (pick, length)) in steps.into_iter().enumerate() {
                let name = vec![b'a' + pick; length];
                if let Some((_, at)) = model.remove(&name) {
                    let gone = remove(&chunk, at).unwrap().unwrap();
                    apply(&mut chunk, &gone.clear);
                    if let Some(before) = &gone.before {
                        apply(&mut chunk, before);
                    }
                } else {
                    let ino = number as u32 + 1;
                    let had = room(&chunk).unwrap();
                    let added = add(&chunk, ino, 8, &name).unwrap();
                    prop_assert_eq!(added.is_some(), had >= space(length));
                    if let Some(added) = added {
                        apply(&mut chunk, &added.entry);
                        if let Some(before) = &added.before {
                            apply(&mut chunk, before);
                        }
                        model.insert(name, (ino, added.at));
                    }
                }
                let live: BTreeMap<_, _> = entries(&chunk)
                    .map(|e| e.unwrap())
                    .filter(|e| e.ino != 0)
                    .map(|e| (e.name.to_vec(), (e.ino, e.at)))
                    .collect();
                prop_assert_eq!(&live, &model);
                for (name, &(ino, at)) in &model {
                    let there = find(&chunk, name).unwrap().map(|e| (e.ino, e.at));
                    prop_assert_eq!(there, Some((ino, at)));
                }
                prop_assert_eq!(find(&chunk, &[b'a' + pick; 70]), Ok(None));
            }
        }

        /// Any bytes end in an error or in entries, never in a panic or a loop.
        #[test]
        fn any_bytes_are_read_safely(bytes in prop::collection::vec(any::<u8>(), 504)) {
            let walked: Result<Vec<_>, _> = entries(&bytes).collect();
            let absent = find(&bytes, &[7; 300]);
            prop_assert_eq!(absent.is_err(), walked.is_err(), "a look-up sees all damage");
            let _ = room(&bytes);
            let _ = add(&bytes, 1, 1, b"name");
            let _ = remove(&bytes, 0);
        }
    }
}
