//! The first failure of the write path: which write it was, and what it carried.

use super::page::{ENGINE_SECTORS, each, engine_mask};
use super::{Core, cache::Buffer};
use crate::call::Ino;
use crate::tx::{BlockNo, PageKind};
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use std::fmt;

/// Inodes that a message names at most.
const MOST_NAMED: usize = 8;

/// Why a file system refuses changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the volume has reported.
    pub error: IoError,
    /// What may be lost.
    pub lost: Lost,
}

/// What a failed request was to make durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// A block of the volume.
    Block {
        /// Its number, in blocks of 4096 bytes.
        at: BlockNr,
        /// What it holds.
        kind: PageKind,
        /// Inodes with changes in it, as far as they are known.
        inodes: Vec<Ino>,
        /// The write had to read the rest of the block first, and could not.
        unread: bool,
    },
    /// The superblock.
    Superblock,
    /// Writes since the flush before.
    Flush,
    /// Groups of the log that were not durable.
    Log,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.error.to_string();
        // The place stands in front already.
        let cause = match self.error {
            IoError::Media { .. } | IoError::Checksum { .. } | IoError::Zone { .. } => {
                error.split_once(": ").map_or(error.as_str(), |parts| parts.1)
            }
            _ => error.as_str(),
        };
        write!(f, "{}: {cause}; unmount, then run `seekless fsck --repair`", self.lost)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, kind, inodes, unread) = match self {
            Lost::Block { at, kind, inodes, unread } => (at, kind, inodes, unread),
            Lost::Superblock => return f.write_str("the superblock"),
            Lost::Log => return f.write_str("the log, with the last operations"),
            Lost::Flush => return f.write_str("a flush, with all writes before it"),
        };
        let (what, noun) = match kind {
            PageKind::Data => ("data", "of"),
            PageKind::Directory => ("names", "in directory"),
            PageKind::Indirect => ("addresses", "of"),
            PageKind::Inodes => ("inodes", ""),
            PageKind::Bitmap => ("bitmaps", ""),
        };
        write!(f, "block {at} with {what}")?;
        if !inodes.is_empty() && !noun.is_empty() {
            let named = inodes.iter().take(MOST_NAMED).map(Ino::to_string).collect::<Vec<_>>();
            let more = if inodes.len() > MOST_NAMED { " and others" } else { "" };
            let noun = match (kind, inodes.len()) {
                (PageKind::Directory, _) => noun.to_string(),
                (_, 1) => format!("{noun} inode"),
                _ => format!("{noun} inodes"),
            };
            write!(f, " {noun} {}{more}", named.join(", "))?;
        }
        if *unread {
            f.write_str(", of which the rest cannot be read")?;
        }
        Ok(())
    }
}

impl Core {
    /// What a failed write of blocks may have lost: the block that the error names, or the first.
    pub(crate) fn lost(&self, blocks: &[BlockNo], error: IoError, unread: bool) -> Lost {
        let per_block = self.shape.engine_per_block();
        let named = match error {
            IoError::Media { block } | IoError::Checksum { block } => Some(block),
            _ => None,
        };
        let named = named.filter(|at| blocks.contains(&(at / per_block)));
        let block = named.map_or(blocks[0], |at| at / per_block);
        let at = named.unwrap_or(block * per_block);
        let slot = self.cache.find(block).expect("a buffer stays while it is written");
        let kind = kind_at(self.cache.get(slot), (at % per_block) as usize);
        Lost::Block { at, kind, inodes: self.owned.inodes_in(block).collect(), unread }
    }
}

/// What an engine block of a buffer holds: the kind of its first sector that a change has named.
fn kind_at(buffer: &Buffer, index: usize) -> PageKind {
    let sectors = buffer.valid & engine_mask(index);
    each(sectors).next().map_or(buffer.kind, |sector| {
        debug_assert_eq!(sector / ENGINE_SECTORS, index);
        buffer.kinds[sector]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_block_purpose_and_remedy() {
        let text = |kind, inodes: &[Ino], unread| {
            let lost = Lost::Block { at: 9, kind, inodes: inodes.to_vec(), unread };
            Failure { error: IoError::Media { block: 9 }, lost }.to_string()
        };
        let end = ": the medium reports an error; unmount, then run `seekless fsck --repair`";
        let cases = [
            (text(PageKind::Data, &[5], false), "block 9 with data of inode 5"),
            (text(PageKind::Data, &[5, 6], false), "block 9 with data of inodes 5, 6"),
            (text(PageKind::Directory, &[2], false), "block 9 with names in directory 2"),
            (text(PageKind::Inodes, &[5], false), "block 9 with inodes"),
            (text(PageKind::Bitmap, &[], false), "block 9 with bitmaps"),
            (text(PageKind::Indirect, &[], false), "block 9 with addresses"),
            (
                text(PageKind::Data, &[5], true),
                "block 9 with data of inode 5, of which the rest cannot be read",
            ),
        ];
        for (text, start) in cases {
            assert_eq!(text, format!("{start}{end}"));
        }
        let flush = Failure { error: IoError::NoSpace, lost: Lost::Flush }.to_string();
        assert!(flush.contains("a flush") && flush.contains("the backing store is full; unmount"));
    }
}
