//! Places on a disk in file terms: which file, directory or metadata a byte range belongs to.
//!
//! A recording knows offsets; a person knows `d.db`. [`Places`] asks the tools of the file system
//! about an image, `dumpe2fs` and `debugfs` for ext4 and `xfs_db` for XFS, and keeps the answers by
//! block. FFS of Seekless needs no tool. The image is the end state of a recording, in which files
//! have their final names. A block that has no owner there has no place.
//!
//! The tools only read. Each question has a time limit; without an answer a range has no place.

mod ext4;
mod ffs;
mod owner;
mod run;
mod xfs;

#[cfg(test)]
mod tests;

use owner::{Owner, label};
use run::Deadline;
use seekless_formats::ffs::ondisk::format::{MAGIC, SUPERBLOCK_AT};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long the tools may take for one question.
const PATIENCE: Duration = Duration::from_secs(20);
/// Blocks of one range that are looked up. A longer range is described by its beginning.
const MOST_BLOCKS: u64 = 1024;
/// Blocks of one question.
const MOST_ASKED: usize = 8192;

/// A file system that can be asked.
#[derive(Debug)]
enum Tool {
    Ext4(ext4::Geometry),
    Xfs(xfs::Geometry),
    Ffs(ffs::Owners),
}

/// An image and what is known of its blocks.
#[derive(Debug)]
pub struct Places {
    image: PathBuf,
    tool: Tool,
    /// Blocks that were looked up; `None` has no owner.
    known: Mutex<BTreeMap<u64, Option<Owner>>>,
}

impl Places {
    /// The places of an image with this file system, or with the one that its magic number names.
    /// `None` if the image has none that can be asked, or a tool is missing.
    pub fn of(fs: Option<&str>, image: &Path) -> Option<Places> {
        let deadline = Deadline::after(PATIENCE);
        let found = detect(image)?;
        // Of ours, the policy follows.
        if fs.is_some_and(|fs| !fs.starts_with(found)) {
            return None;
        }
        let tool = match found {
            "ext4" => Tool::Ext4(ext4::Geometry::read(image, deadline)?),
            FFS => Tool::Ffs(ffs::Owners::read(image)?),
            _ => Tool::Xfs(xfs::Geometry::read(image, deadline)?),
        };
        Some(Places { image: image.to_owned(), tool, known: Mutex::default() })
    }

    /// The places of many ranges (first byte and length), with one question for all of them. A
    /// range without a place is left out.
    pub fn look(
        fs: Option<&str>,
        image: &Path,
        ranges: &[(u64, u64)],
    ) -> BTreeMap<(u64, u64), String> {
        let Some(places) = Places::of(fs, image) else {
            return BTreeMap::new();
        };
        places.learn(ranges);
        let place = |&range: &(u64, u64)| Some((range, places.describe(range.0, range.1)?));
        ranges.iter().filter_map(place).collect()
    }

    /// Looks up the blocks of many ranges at once. Later descriptions of these ranges ask nothing.
    pub fn learn(&self, ranges: &[(u64, u64)]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = ranges.iter().flat_map(|range| self.blocks(*range));
        let wanted: BTreeSet<u64> = blocks.filter(|block| !known.contains_key(block)).collect();
        let wanted: Vec<u64> = wanted.into_iter().collect();
        // The tools search their lists block by block: a long one takes quadratic time.
        let deadline = Deadline::after(PATIENCE);
        for part in wanted.chunks(MOST_ASKED) {
            let mut owners = match &self.tool {
                Tool::Ext4(geometry) => ext4::owners(&self.image, geometry, part, deadline),
                Tool::Xfs(geometry) => xfs::owners(&self.image, geometry, part, deadline),
                Tool::Ffs(owners) => owners.of(part),
            };
            // A block without an answer is not asked for again.
            known.extend(part.iter().map(|block| (*block, owners.remove(block))));
        }
    }

    /// The place of a range, such as `d.db bytes 12288-16384` or `ext4 superblock`.
    pub fn describe(&self, offset: u64, length: u64) -> Option<String> {
        self.describe_range(offset, length, None)
    }

    /// The place of a range whose new content is known: blocks of a journal are told apart by their
    /// headers.
    pub fn describe_bytes(&self, offset: u64, bytes: &[u8]) -> Option<String> {
        self.describe_range(offset, bytes.len() as u64, Some(bytes))
    }

    fn describe_range(&self, offset: u64, length: u64, bytes: Option<&[u8]>) -> Option<String> {
        self.learn(&[(offset, length)]);
        let size = self.block_bytes();
        let end = offset.saturating_add(length);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pieces = Vec::new();
        for block in self.blocks((offset, length)) {
            let Some(Some(owner)) = known.get(&block) else { continue };
            let from = offset.max(block * size);
            let to = end.min(block.saturating_add(1).saturating_mul(size));
            let content = bytes.and_then(|all| {
                all.get(usize::try_from(from - offset).ok()?..usize::try_from(to - offset).ok()?)
            });
            pieces.extend(owner.pieces(from - block * size..to - block * size, content));
        }
        let cut = length.div_ceil(size) > MOST_BLOCKS;
        label(pieces).map(|label| if cut { format!("{label} and more") } else { label })
    }

    fn block_bytes(&self) -> u64 {
        match &self.tool {
            Tool::Ext4(geometry) => geometry.block_bytes,
            Tool::Xfs(geometry) => geometry.block_bytes,
            Tool::Ffs(owners) => owners.fragment_bytes,
        }
    }

    /// The blocks that a range touches, as far as they are looked up.
    fn blocks(&self, (offset, length): (u64, u64)) -> std::ops::Range<u64> {
        let size = self.block_bytes();
        let first = offset / size;
        let end = match length {
            0 => first,
            _ => (offset.saturating_add(length) - 1) / size + 1,
        };
        first..end.min(first.saturating_add(MOST_BLOCKS))
    }
}

/// FFS of Seekless, in the words of `--fs` and without the policy.
const FFS: &str = "seekless:ffs";

/// The file system that an image holds, by its magic number.
fn detect(image: &Path) -> Option<&'static str> {
    const EXT_MAGIC_AT: u64 = 1024 + 56;
    let file = File::open(image).ok()?;
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).ok()?;
    if magic == *b"XFSB" {
        return Some("xfs");
    }
    let mut magic = [0; 8];
    if file.read_exact_at(&mut magic, SUPERBLOCK_AT).is_ok() && magic == MAGIC {
        return Some(FFS);
    }
    let mut magic = [0; 2];
    file.read_exact_at(&mut magic, EXT_MAGIC_AT).ok()?;
    (magic == [0x53, 0xef]).then_some("ext4")
}
