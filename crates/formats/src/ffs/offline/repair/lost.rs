//! What files lose in a repair, with their paths: an operator restores these, and no others.

use super::Repair;
use crate::error::FsError;
use crate::ffs::offline::check::finding::Finding;
use crate::ffs::offline::check::names::chunks_of;
use crate::ffs::ondisk::entries;
use seekless_fs::call::ROOT;
use seekless_fs::tx::SECTOR_CONTENT;
use std::collections::BTreeMap;
use std::ops::Range;

/// Names above a file at most, against circles.
const MOST_DEPTH: usize = 1000;

impl Repair<'_> {
    /// A block with several owners is not copied for one of them, for lack of space.
    pub(super) fn lose_block(&mut self, finding: &Finding) {
        if let Finding::Duplicate { ino, index, other, .. } = *finding {
            let sentence =
                format!("block {index} stays with inode {other}: there is no space for a copy");
            self.lost.push((ino, sentence));
        }
    }

    /// A damaged sector of addresses leads to bytes of a file no longer. It may be behind the end.
    pub(super) fn lose_bytes(&mut self, ino: u32, bytes: Range<u64>) {
        if !bytes.is_empty() {
            let sentence = format!("bytes {} to {} read as zeros", bytes.start, bytes.end);
            self.lost.push((ino, sentence));
        }
    }

    /// Sentences with the paths of the files, once the repair is done.
    pub(super) fn with_paths(&mut self, lost: &[(u32, String)]) -> Result<Vec<String>, FsError> {
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let mut names: BTreeMap<u32, (u32, String)> = BTreeMap::new();
        let dirs: Vec<u32> = self.finder.known.folders.keys().copied().collect();
        for dir in dirs {
            for place in chunks_of(&mut self.store, &self.finder.known, dir)? {
                let bytes = self.store.read(place.block, 1)?;
                let chunk = &bytes[place.at..place.at + SECTOR_CONTENT];
                for entry in entries::entries(chunk).unwrap_or_default() {
                    if !entries::is_dots(entry.name) {
                        let name = String::from_utf8_lossy(entry.name).into_owned();
                        names.entry(entry.ino).or_insert((dir, name));
                    }
                }
            }
        }
        let sentence = |(ino, what): &(u32, String)| match path(&names, *ino) {
            Some(path) => format!("{path} (inode {ino}): {what}"),
            None => format!("inode {ino}: {what}"),
        };
        Ok(lost.iter().map(sentence).collect())
    }
}

/// The path of an inode; none if it has no name.
fn path(names: &BTreeMap<u32, (u32, String)>, ino: u32) -> Option<String> {
    let (mut at, mut path) = (ino, String::new());
    for _ in 0..MOST_DEPTH {
        if at == ROOT as u32 {
            return Some(path);
        }
        let (dir, name) = names.get(&at)?;
        path = format!("/{name}{path}");
        at = *dir;
    }
    None
}
