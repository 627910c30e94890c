//! The places of XFS, by `xfs_db`.
//!
//! `blockget -n` reads all metadata and remembers paths; `blockuse -n` names the owner of a block.
//! A second run asks for the size and the extents of the inodes that were found.

use super::owner::Owner;
use super::run::{Deadline, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Unit of addresses in `xfs_db`.
const BASIC_BLOCK: u64 = 512;
/// Line before the answers about an inode.
const MARK: &str = "inode-number ";

/// What the superblock says.
#[derive(Debug, Default)]
pub struct Geometry {
    /// Size of a block in bytes.
    pub block_bytes: u64,
    group_blocks: u64,
    sector_bytes: u64,
}

impl Geometry {
    /// Asks `xfs_db` for the superblock.
    pub fn read(image: &Path, by: Deadline) -> Option<Geometry> {
        let commands = "sb 0\nprint blocksize agblocks sectsize\nquit\n";
        let text = run("xfs_db", &["-r"], image, commands, by)?;
        let field = |name: &str| {
            let of = |line: &str| line.strip_prefix(name)?.strip_prefix(" = ")?.parse().ok();
            text.lines().find_map(of).filter(|value: &u64| *value > 0)
        };
        Some(Geometry {
            block_bytes: field("blocksize")?,
            group_blocks: field("agblocks")?,
            sector_bytes: field("sectsize")?,
        })
    }

    /// The block of a pair such as `(2/16394)`: allocation group, block in it.
    fn block(&self, pair: &str) -> Option<u64> {
        let (group, block) = pair.trim_matches(['(', ')']).split_once('/')?;
        let group: u64 = group.parse().ok()?;
        group.checked_mul(self.group_blocks)?.checked_add(block.parse().ok()?)
    }
}

/// What `blockuse` says of a block.
#[derive(Debug, PartialEq, Eq)]
struct Use {
    kind: String,
    inode: Option<u64>,
    name: Option<Arc<str>>,
}

/// The owners of blocks.
pub fn owners(
    image: &Path,
    geometry: &Geometry,
    blocks: &[u64],
    by: Deadline,
) -> BTreeMap<u64, Owner> {
    let Some(uses) = uses_of(image, geometry, blocks, by) else {
        return BTreeMap::new();
    };
    let files = uses.values().filter(|found| found.kind == "data");
    let inodes: BTreeSet<u64> = files.filter_map(|found| found.inode).collect();
    let extents = extents_of(image, geometry, &inodes, by).unwrap_or_default();
    let wanted: BTreeSet<u64> = blocks.iter().copied().collect();
    uses.into_iter()
        .filter(|(block, _)| wanted.contains(block))
        .filter_map(|(block, found)| Some((block, owner(geometry, block, &found, &extents)?)))
        .collect()
}

/// The use of each block. `xfs_db` repeats the answer for the last block where one does not exist,
/// so the block is taken from the answer.
fn uses_of(
    image: &Path,
    geometry: &Geometry,
    blocks: &[u64],
    by: Deadline,
) -> Option<BTreeMap<u64, Use>> {
    let mut commands = "blockget -n\n".to_owned();
    for block in blocks {
        let address = block * (geometry.block_bytes / BASIC_BLOCK);
        // Writing to a string cannot fail.
        let _ = writeln!(commands, "daddr {address}\nblockuse -n");
    }
    commands.push_str("quit\n");
    let text = run("xfs_db", &["-r"], image, &commands, by)?;
    Some(text.lines().filter_map(|line| read_use(geometry, line)).collect())
}

/// Reads `block 81930 (2/16394) type data inode 655489 a/b/name`.
fn read_use(geometry: &Geometry, line: &str) -> Option<(u64, Use)> {
    let rest = line.strip_prefix("block ")?;
    let (_, rest) = rest.split_once(' ')?;
    let (pair, rest) = rest.split_once(" type ")?;
    let (kind, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let rest = rest.strip_prefix("inode ").unwrap_or("");
    let (inode, name) = rest.split_once(' ').unwrap_or((rest, ""));
    // The path of a directory ends with a dot of its own.
    let path = if kind == "dir" { name.trim_end_matches('.') } else { name };
    let path = path.trim_start_matches('/').trim_end_matches('/');
    let name = (!name.is_empty()).then(|| path.into());
    Some((geometry.block(pair)?, Use { kind: kind.to_owned(), inode: inode.parse().ok(), name }))
}

/// Size and extents of a file: first block on the disk, length, first block in the file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extents {
    size: u64,
    runs: Vec<(u64, u64, u64)>,
}

fn extents_of(
    image: &Path,
    geometry: &Geometry,
    inodes: &BTreeSet<u64>,
    by: Deadline,
) -> Option<BTreeMap<u64, Extents>> {
    if inodes.is_empty() {
        return None;
    }
    let mut commands = String::new();
    for inode in inodes {
        let _ = writeln!(commands, "echo {MARK}{inode}\ninode {inode}\nprint core.size\nbmap");
    }
    commands.push_str("quit\n");
    let text = run("xfs_db", &["-r"], image, &commands, by)?;
    let mut out: BTreeMap<u64, Extents> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(inode) = line.trim().strip_prefix(MARK) {
            current = inode.trim().parse::<u64>().ok();
        } else if let Some(inode) = current {
            let extents = out.entry(inode).or_default();
            if let Some(size) = line.strip_prefix("core.size = ") {
                extents.size = size.trim().parse().unwrap_or(0);
            }
            extents.runs.extend(read_run(geometry, line));
        }
    }
    Some(out)
}

/// Reads `data offset 0 startblock 24 (0/24) count 10 flag 0`.
fn read_run(geometry: &Geometry, line: &str) -> Option<(u64, u64, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["data", "offset", at, "startblock", _, pair, "count", count, ..] => {
            Some((geometry.block(pair)?, count.parse().ok()?, at.parse().ok()?))
        }
        _ => None,
    }
}

fn owner(
    geometry: &Geometry,
    block: u64,
    found: &Use,
    extents: &BTreeMap<u64, Extents>,
) -> Option<Owner> {
    let named = |name: &str| Some(Owner::Named(name.into()));
    let name: Arc<str> = match (&found.name, found.inode) {
        (Some(name), _) => name.clone(),
        (None, Some(inode)) => format!("inode {inode}").into(),
        (None, None) => "".into(),
    };
    match found.kind.as_str() {
        "data" => {
            let extents = extents.get(&found.inode?)?;
            let covers =
                |(first, length, _): &&(u64, u64, u64)| block >= *first && block - first < *length;
            let (first, _, at) = extents.runs.iter().find(covers)?;
            let at = at.checked_add(block - first)?.checked_mul(geometry.block_bytes)?;
            Some(Owner::File { name, at, size: extents.size })
        }
        "dir" if found.name.is_some() => named(&format!("directory /{name}")),
        "dir" => named(&format!("directory with {name}")),
        "attr" => named(&format!("extended attributes of {name}")),
        "symlink" => named(&format!("symbolic link {name}")),
        kind if kind.starts_with("btbmap") => named(&format!("block map of {name}")),
        "sb" | "agf" | "agi" | "agfl" => {
            Some(Owner::GroupHead { first: block == 0, sector_bytes: geometry.sector_bytes })
        }
        "log" => named("XFS log"),
        "inode" => named("XFS inodes"),
        "btbno" | "btcnt" => named("XFS free space btree"),
        "btino" | "btfino" => named("XFS inode btree"),
        "btrefcnt" => named("XFS reference count btree"),
        "btrmap" => named("XFS reverse mapping btree"),
        "freelist" => named("XFS free list"),
        "qdata" | "quota" => named("XFS quotas"),
        "rtbitmap" | "rtsum" => named("XFS realtime metadata"),
        // Free or unknown blocks.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry { block_bytes: 4096, group_blocks: 100, sector_bytes: 512 };

    #[test]
    fn the_answers_of_the_tool_are_read() {
        let (block, found) =
            read_use(&GEOMETRY, "block 9 (2/16) type data inode 655489 a/b/na me").expect("a use");
        assert_eq!(
            (block, found.inode, found.name.as_deref()),
            (216, Some(655_489), Some("a/b/na me"))
        );
        let (_, found) =
            read_use(&GEOMETRY, "block 8 (0/8) type dir inode 131 a/b/.").expect("a use");
        assert_eq!(found.name.as_deref(), Some("a/b"));
        let (block, found) = read_use(&GEOMETRY, "block 0 (0/0) type sb").expect("a use");
        assert_eq!((block, found), (0, Use { kind: "sb".into(), inode: None, name: None }));
        let run = read_run(&GEOMETRY, "data offset 7 startblock 24 (1/24) count 10 flag 0");
        assert_eq!(run, Some((124, 10, 7)));
    }

    #[test]
    fn what_the_tool_never_prints_breaks_nothing() {
        for line in ["block", "block 1 type x", "block 1 (9/) type x", "bad daddr 9999999"] {
            assert_eq!(read_use(&GEOMETRY, line), None, "{line}");
        }
        let most = u64::MAX;
        assert_eq!(read_use(&GEOMETRY, &format!("block 1 ({most}/1) type x")), None);
        assert_eq!(read_run(&GEOMETRY, "data offset x startblock 24 (1/24) count 10"), None);
    }
}
