//! The owner of a block, and how the owners of a range read.

use std::ops::Range;
use std::sync::Arc;

/// Different places of one range that are named.
const MOST_PARTS: usize = 3;

/// What a block belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Data of a file: its path or number, the first byte of the block in it, and its size.
    File { name: Arc<str>, at: u64, size: u64 },
    /// The journal of ext4, and the index of the block in it.
    Journal { index: u64 },
    /// The head of an allocation group of XFS: a superblock and three headers.
    GroupHead { first: bool, sector_bytes: u64 },
    /// Anything that has one name for the whole block.
    Named(Arc<str>),
    /// The block of the first superblock of ext4, and where that begins in it.
    Superblock { at: u64 },
}

/// A part of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of a file: first, and one past the last.
    Bytes(Arc<str>, u64, u64),
    /// A part of the journal of ext4, and what kind of block it is.
    Journal(Option<&'static str>),
    /// Anything with one name.
    Named(Arc<str>),
}

impl Owner {
    /// What the bytes `range` of the block are. `content` is what they hold, where known.
    pub fn pieces(&self, range: Range<u64>, content: Option<&[u8]>) -> Vec<Piece> {
        match self {
            Owner::File { name, at, size } => {
                let from = at.saturating_add(range.start);
                // The rest of the last block is padding.
                let to = at.saturating_add(range.end).min((*size).max(from));
                vec![Piece::Bytes(name.clone(), from, to)]
            }
            Owner::Journal { index } => {
                let whole = content.filter(|_| range.start == 0);
                let superblock = (*index == 0).then_some("superblock");
                vec![Piece::Journal(superblock.or_else(|| whole.and_then(journal_block)))]
            }
            Owner::GroupHead { first, sector_bytes } => group_head(*first, *sector_bytes, range),
            Owner::Named(name) => vec![Piece::Named(name.clone())],
            Owner::Superblock { at } => {
                let meets = range.start < at + 1024 && range.end > *at;
                let name = if meets { "ext4 superblock" } else { "ext4 boot block" };
                vec![Piece::Named(name.into())]
            }
        }
    }
}

/// The kind of a journal block by its header. A block without one is a copy of a metadata block.
fn journal_block(bytes: &[u8]) -> Option<&'static str> {
    const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    if *magic != MAGIC {
        return Some("logged block");
    }
    match u32::from_be_bytes(*rest.first_chunk()?) {
        1 => Some("descriptor block"),
        2 => Some("commit block"),
        3 | 4 => Some("superblock"),
        5 => Some("revoke block"),
        _ => Some("unknown block"),
    }
}

/// The first four sectors of an allocation group.
fn group_head(first: bool, sector_bytes: u64, range: Range<u64>) -> Vec<Piece> {
    let superblock = if first { "XFS superblock" } else { "XFS superblock copy" };
    let names = [superblock, "XFS AGF", "XFS AGI", "XFS AGFL"];
    let sector = |index: u64| index * sector_bytes..(index + 1) * sector_bytes;
    (0..)
        .zip(names)
        .filter(|(index, _)| sector(*index).start < range.end && range.start < sector(*index).end)
        .map(|(_, name)| Piece::Named(name.into()))
        .collect()
}

/// A range in words. `None` if nothing of it has an owner.
pub fn label(pieces: Vec<Piece>) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let journal = journal_kinds(&pieces);
    for piece in merged(pieces) {
        let part = match piece {
            Piece::Bytes(name, from, to) => format!("{name} bytes {from}-{to}"),
            Piece::Journal(_) => match journal.is_empty() {
                true => "ext4 journal".to_owned(),
                false => format!("ext4 journal ({})", journal.join(", ")),
            },
            Piece::Named(name) => name.to_string(),
        };
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    let more = parts.len().saturating_sub(MOST_PARTS);
    parts.truncate(MOST_PARTS);
    match (parts.is_empty(), more) {
        (true, _) => None,
        (_, 0) => Some(parts.join(", ")),
        _ => Some(format!("{} and {more} more", parts.join(", "))),
    }
}

/// The kinds of journal blocks in the order of their first appearance.
fn journal_kinds(pieces: &[Piece]) -> Vec<&'static str> {
    let mut out = Vec::new();
    for piece in pieces {
        if let Piece::Journal(Some(kind)) = piece
            && !out.contains(kind)
        {
            out.push(*kind);
        }
    }
    out
}

/// Joins neighbouring bytes of one file.
fn merged(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        if let (Some(Piece::Bytes(last, _, end)), Piece::Bytes(name, from, to)) =
            (out.last_mut(), &piece)
            && last == name
            && *end == *from
        {
            *end = *to;
            continue;
        }
        out.push(piece);
    }
    out
}
