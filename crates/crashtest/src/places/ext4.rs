//! The places of ext2, ext3 and ext4, by `dumpe2fs` and `debugfs`.
//!
//! `dumpe2fs` lists the metadata of each block group. `debugfs` answers the rest in three steps:
//! `icheck` gives the inodes of the blocks, `ncheck` the paths of these inodes, and `stat` their
//! extents, from which the position of each block in its file follows.

use super::owner::Owner;
use super::run::{Deadline, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Inode that holds the reserved group descriptors.
const RESIZE_INODE: u64 = 7;
/// Bytes before the first superblock.
const BOOT_BYTES: u64 = 1024;

/// What `dumpe2fs` says of an image.
#[derive(Debug, Default)]
pub struct Geometry {
    /// Size of a block in bytes.
    pub block_bytes: u64,
    inode_bytes: u64,
    group_inodes: u64,
    journal_inode: Option<u64>,
    areas: BTreeMap<u64, Area>,
}

/// Blocks of metadata, by the first.
#[derive(Debug)]
struct Area {
    last: u64,
    name: &'static str,
    /// The group, for an inode table.
    table: Option<u64>,
}

impl Geometry {
    /// Asks `dumpe2fs`.
    pub fn read(image: &Path, by: Deadline) -> Option<Geometry> {
        let text = run("dumpe2fs", &[], image, "", by)?;
        let mut out = Geometry::default();
        let mut group = 0;
        for line in text.lines() {
            if let Some(number) = group_number(line) {
                group = number;
            } else if line.starts_with("  ") {
                out.add_areas(line, group);
            } else {
                out.add_field(line);
            }
        }
        (out.block_bytes > 0).then_some(out)
    }

    fn add_field(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(':') else { return };
        let Ok(value) = value.trim().parse::<u64>() else { return };
        match name {
            "Block size" => self.block_bytes = value,
            "Inode size" => self.inode_bytes = value,
            "Inodes per group" => self.group_inodes = value,
            "Journal inode" => self.journal_inode = Some(value),
            _ => {}
        }
    }

    /// Adds what a line such as `  Inode table at 49-2096 (+49)` names.
    fn add_areas(&mut self, line: &str, group: u64) {
        const NAMES: [(&str, &str); 7] = [
            ("Primary superblock at ", "ext4 superblock"),
            ("Backup superblock at ", "ext4 superblock copy"),
            ("Group descriptors at ", "ext4 group descriptors"),
            ("Reserved GDT blocks at ", "ext4 reserved group descriptors"),
            ("Block bitmap at ", "ext4 block bitmap"),
            ("Inode bitmap at ", "ext4 inode bitmap"),
            ("Inode table at ", "ext4 inode table"),
        ];
        for (key, name) in NAMES {
            let Some(at) = line.find(key) else { continue };
            let Some((first, last)) = leading_range(&line[at + key.len()..]) else { continue };
            let table = (name == "ext4 inode table").then_some(group);
            self.areas.insert(first, Area { last, name, table });
        }
    }

    /// The metadata that a block holds.
    fn metadata(&self, block: u64) -> Option<Owner> {
        // Block 0 may lie before the first superblock, which then is block 1.
        if block.saturating_mul(self.block_bytes) <= BOOT_BYTES {
            return Some(Owner::Superblock { at: BOOT_BYTES - block * self.block_bytes });
        }
        let (first, area) = self.areas.range(..=block).next_back()?;
        if block > area.last {
            return None;
        }
        let inodes = self.block_bytes.checked_div(self.inode_bytes).unwrap_or(0);
        let name = match area.table {
            Some(group) if inodes > 0 => {
                let from = group * self.group_inodes + (block - first) * inodes + 1;
                format!("{} (inodes {from}-{})", area.name, from + inodes - 1)
            }
            _ => area.name.to_owned(),
        };
        Some(Owner::Named(name.into()))
    }
}

/// The number in `Group 3: (Blocks …`. Other lines begin with `Group descriptor size`.
fn group_number(line: &str) -> Option<u64> {
    line.strip_prefix("Group ")?.split(':').next()?.parse().ok()
}

/// `17`, or `49-2096`, at the beginning of a text.
fn leading_range(text: &str) -> Option<(u64, u64)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    range(&text[..end])
}

fn range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// The owners of blocks.
pub fn owners(
    image: &Path,
    geometry: &Geometry,
    blocks: &[u64],
    by: Deadline,
) -> BTreeMap<u64, Owner> {
    let mut out = BTreeMap::new();
    let mut data = Vec::new();
    for &block in blocks {
        match geometry.metadata(block) {
            Some(owner) => drop(out.insert(block, owner)),
            None => data.push(block),
        }
    }
    if let Some(inodes) = inodes_of(image, &data, by) {
        let wanted: BTreeSet<u64> = inodes.values().copied().collect();
        let names = names_of(image, &wanted, by).unwrap_or_default();
        let facts = facts_of(image, &wanted, by).unwrap_or_default();
        for (block, inode) in inodes {
            let (name, facts) = (names.get(&inode), facts.get(&inode));
            let owner = facts.map(|facts| owner(geometry, inode, name, facts, block));
            out.extend(owner.map(|owner| (block, owner)));
        }
    }
    out
}

/// The inode of each block.
fn inodes_of(image: &Path, blocks: &[u64], by: Deadline) -> Option<BTreeMap<u64, u64>> {
    let text = request(image, "icheck", blocks.iter().copied(), by)?;
    let line = |line: &str| {
        let (block, inode) = line.split_once('\t')?;
        Some((block.parse().ok()?, inode.parse().ok()?))
    };
    Some(text.lines().filter_map(line).collect())
}

/// A path of each inode, without the leading slash.
fn names_of(image: &Path, inodes: &BTreeSet<u64>, by: Deadline) -> Option<BTreeMap<u64, Arc<str>>> {
    let text = request(image, "ncheck", inodes.iter().copied(), by)?;
    let mut out = BTreeMap::new();
    for line in text.lines() {
        let Some((inode, path)) = line.split_once('\t') else { continue };
        let Ok(inode) = inode.parse() else { continue };
        // Without a slash it is the rest of a name with a newline in it.
        if path.starts_with('/') {
            // A file with several links has several paths: the first is as good as any.
            out.entry(inode).or_insert_with(|| path.trim_start_matches('/').into());
        }
    }
    Some(out)
}

/// Runs a command of `debugfs` with numbers. A file of commands has a limit for the length of a
/// line; an argument has none that matters here.
fn request(
    image: &Path,
    command: &str,
    numbers: impl ExactSizeIterator<Item = u64>,
    by: Deadline,
) -> Option<String> {
    if numbers.len() == 0 {
        return None;
    }
    let mut line = command.to_owned();
    for number in numbers {
        // Writing to a string cannot fail.
        let _ = write!(line, " {number}");
    }
    run("debugfs", &["-R", &line], image, "", by)
}

/// What `stat` says of an inode.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    kind: String,
    size: u64,
    attributes: Option<u64>,
    /// First block of a run on the disk, its length, and the first block in the file.
    runs: Vec<(u64, u64, u64)>,
    /// Blocks of the extent tree, or indirect blocks.
    tree: BTreeSet<u64>,
}

fn facts_of(image: &Path, inodes: &BTreeSet<u64>, by: Deadline) -> Option<BTreeMap<u64, Facts>> {
    let mut commands = String::new();
    for inode in inodes {
        let _ = writeln!(commands, "stat <{inode}>");
    }
    let text = run("debugfs", &["-f", "-"], image, &commands, by)?;
    let mut out = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("debugfs: stat <") {
            current = rest.strip_suffix('>').and_then(|inode| inode.parse::<u64>().ok());
        } else if let Some(inode) = current {
            out.entry(inode).or_insert_with(Facts::default).add(line);
        }
    }
    Some(out)
}

impl Facts {
    fn add(&mut self, line: &str) {
        let word_after = |key: &str| {
            let rest = &line[line.find(key)? + key.len()..];
            rest.split_whitespace().next()
        };
        if line.starts_with("Inode: ") {
            self.kind = word_after("Type: ").unwrap_or_default().to_owned();
        } else if line.starts_with("User: ") {
            self.size = word_after(" Size: ").and_then(|size| size.parse().ok()).unwrap_or(0);
        } else if line.starts_with("File ACL: ") {
            let block = word_after("File ACL: ").and_then(|block| block.parse().ok());
            self.attributes = block.filter(|block| *block != 0);
        } else if line.starts_with('(') {
            line.split(", ").for_each(|run| self.add_run(run));
        }
    }

    /// Adds `(0-9):23-32`, `(10[u]):40` or `(ETB0):50`.
    fn add_run(&mut self, text: &str) {
        let Some((logical, physical)) = text.trim_start_matches('(').split_once("):") else {
            return;
        };
        let Some((first, last)) = range(physical) else { return };
        let uninitialised = logical.replace("[u]", "");
        match range(&uninitialised) {
            Some((at, _)) => self.runs.push((first, last.saturating_sub(first) + 1, at)),
            None => self.tree.extend(first..=last),
        }
    }

    /// The block in the file that a block of the disk is.
    fn logical(&self, block: u64) -> Option<u64> {
        let covers =
            |(first, length, _): &&(u64, u64, u64)| (*first..first + length).contains(&block);
        self.runs.iter().find(covers).map(|(first, _, at)| at + block - first)
    }
}

fn owner(
    geometry: &Geometry,
    inode: u64,
    name: Option<&Arc<str>>,
    facts: &Facts,
    block: u64,
) -> Owner {
    let logical = facts.logical(block);
    if geometry.journal_inode == Some(inode) {
        return match logical {
            Some(index) => Owner::Journal { index },
            None => Owner::Named("ext4 extent tree of the journal".into()),
        };
    }
    if inode == RESIZE_INODE {
        return Owner::Named("ext4 reserved group descriptors".into());
    }
    let is_directory = facts.kind == "directory";
    let name: Arc<str> = match name {
        Some(name) if is_directory => format!("directory /{name}").into(),
        Some(name) => name.clone(),
        None if is_directory && inode == 2 => "directory /".into(),
        None => format!("inode {inode}").into(),
    };
    match logical {
        Some(_) if is_directory => Owner::Named(name),
        Some(_) if facts.kind == "symlink" => Owner::Named(format!("symbolic link {name}").into()),
        Some(at) => Owner::File { name, at: at * geometry.block_bytes, size: facts.size },
        None if facts.attributes == Some(block) => {
            Owner::Named(format!("extended attributes of {name}").into())
        }
        None => Owner::Named(format!("block map of {name}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_the_tools_are_read() {
        let mut facts = Facts::default();
        for line in [
            "Inode: 12   Type: regular    Mode:  0644   Flags: 0x80000",
            "User:     0   Group:     0   Project:     0   Size: 40000",
            "File ACL: 77",
            "EXTENTS:",
            "(ETB0):50, (0-9):23-32, (10[u]):40, (12-13[u]):60-61, (DIND):70",
        ] {
            facts.add(line);
        }
        assert_eq!(
            (facts.kind.as_str(), facts.size, facts.attributes),
            ("regular", 40_000, Some(77))
        );
        assert_eq!(
            [23, 32, 33, 40, 61, 50].map(|block| facts.logical(block)),
            [Some(0), Some(9), None, Some(10), Some(13), None]
        );
        assert_eq!(facts.tree, BTreeSet::from([50, 70]));
    }

    #[test]
    fn what_no_tool_prints_breaks_nothing() {
        let mut facts = Facts::default();
        for line in
            ["(", "(1", "(1):", "(x):5-", "(9-1):9-1", "User: Size: x", "Inode: ", "(1):2-1"]
        {
            facts.add(line);
        }
        assert_eq!(facts.logical(u64::MAX), None);
        let mut geometry = Geometry { block_bytes: 4096, ..Geometry::default() };
        geometry.add_areas("  Inode table at x-y, Block bitmap at 9-", 0);
        geometry.add_field("Block size: many");
        assert_eq!((geometry.areas.len(), geometry.block_bytes), (0, 4096));
    }
}
