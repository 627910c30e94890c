//! Damage of each metadata sector in turn: bits, zeros, a sector of another file system, a sector
//! of another place.
//!
//! For each, a read of the whole tree gives the right content, or an error where the content
//! depends on the sector. Writes end, the check reports the damage, repair leaves none, and nothing
//! changes that does not depend on the sector.
//!
//! `cargo test -p seekless-fs --test suite images::flips -- --nocapture` prints a table of
//! outcomes.

use super::medium::{Shared, mount};
use super::tree::{Files, Object, Tree, content, fill};
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES};
use seekless_formats::ffs::ondisk::entries::entries;
use seekless_formats::ffs::ondisk::format::address_offset;
use seekless_formats::ffs::ondisk::inode::INODE_BYTES;
use seekless_formats::ffs::{Geometry, Inode, SealKind, Sealer, check, load, mkfs, repair};
use seekless_formats::{FsError, MkfsOptions, Severity};
use seekless_fs::call::{Errno, FileKind, New};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

const ID: u128 = 0xf11b;
/// Offset and bit in a sector: content, kind, counter, check.
const BITS: [(usize, u8); 5] = [(0, 0), (300, 7), (504, 1), (506, 2), (509, 4)];

/// What a sector holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Superblock,
    Copy,
    Header,
    InodeBits,
    FragmentBits,
    Inodes,
    Indirect(usize),
    Directory,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Superblock => f.pad("superblock"),
            Kind::Copy => f.pad("copy of it"),
            Kind::Header => f.pad("group header"),
            Kind::InodeBits => f.pad("inode bits"),
            Kind::FragmentBits => f.pad("fragment bits"),
            Kind::Inodes => f.pad("inodes"),
            Kind::Indirect(level) => f.pad(&format!("indirect {level}")),
            Kind::Directory => f.pad("directory"),
        }
    }
}

/// A file system with some of everything, and what is where.
pub struct Image {
    pub cells: Cells,
    geometry: Geometry,
    pub sealer: Sealer,
    tree: Tree,
    pub sectors: Vec<(u64, Kind, SealKind)>,
}

impl Image {
    pub fn new(block: u32, fragment: u32) -> Image {
        let mut cells = Cells::new(1024);
        let group = Some(512 << 10);
        let options = MkfsOptions { block, fragment, group, id: ID, ..MkfsOptions::default() };
        mkfs(&mut MediumDisk(&mut cells), &options).expect("possible");
        let medium = Shared::new(cells);
        let mut files = Files(mount(&medium, false).expect("clean"));
        fill(&mut files).expect("room");
        files.unmount();
        let mut files = Files(mount(&medium, true).expect("clean"));
        let tree = files.tree();
        let mut cells = medium.cells();
        let superblock = load(&mut MediumDisk(&mut cells)).expect("whole").superblock;
        let (geometry, sealer) = (superblock.geometry().expect("made"), superblock.sealer());
        let mut image = Image { cells, geometry, sealer, tree, sectors: Vec::new() };
        image.sectors = image.find_sectors();
        image
    }

    fn sector(&mut self, at: u64) -> Vec<u8> {
        let block = self.cells.read(at / BLOCK_SECTORS, 1).expect("memory").to_bytes();
        let start = (at % BLOCK_SECTORS) as usize * SECTOR_BYTES;
        block[start..start + SECTOR_BYTES].to_vec()
    }

    /// The blocks of indirect addresses of the file with holes, with their levels.
    fn indirect(&mut self) -> BTreeMap<u64, usize> {
        let holes = self.tree["/a/holes"].as_ref().expect("readable").attr.ino;
        let inode = self.inode(holes as u32);
        let mut found = BTreeMap::new();
        let mut next: Vec<(u32, usize)> = inode.indirect.into_iter().zip(1..).collect();
        while let Some((address, level)) = next.pop() {
            let block = self.geometry.block_of(address);
            found.insert(block, level);
            let each = self.geometry.addresses_per_block();
            let first = block * self.geometry.sectors_per_block() as u64;
            for index in (0..each).filter(|_| level > 1) {
                let at = address_offset(index);
                let sector = self.sector(first + (at / SECTOR_BYTES) as u64);
                let at = at % SECTOR_BYTES;
                let bytes = sector[at..at + 4].try_into().expect("four bytes");
                let address = u32::from_le_bytes(bytes);
                if address != 0 {
                    next.push((address, level - 1));
                }
            }
        }
        found
    }

    /// True if the maps say that the fragment with this sector is in use.
    fn is_used(&mut self, at: u64) -> bool {
        let sectors = (self.geometry.fragment_bytes() / SECTOR_BYTES) as u64;
        let bit = self.geometry.fragment_bit((at / sectors) as u32);
        let block = bit.block * self.geometry.sectors_per_block() as u64;
        let sector = self.sector(block + (bit.at / SECTOR_BYTES) as u64);
        sector[bit.at % SECTOR_BYTES] & bit.mask != 0
    }

    /// All sectors with seals that a file or a group owns. What was freed may have seals, too.
    fn find_sectors(&mut self) -> Vec<(u64, Kind, SealKind)> {
        let indirect = self.indirect();
        let per_block = self.geometry.sectors_per_block() as u64;
        let end = self.geometry.blocks() * per_block;
        let mut all = Vec::new();
        for at in 0..end {
            if !self.is_used(at) {
                continue;
            }
            let sector = self.sector(at);
            let block = at / per_block;
            let is = |kind| self.sealer.is_whole(&sector, at, kind);
            let kind = if is(SealKind::Superblock) {
                let first = self.geometry.superblock_of(0) == Some(block);
                (if first { Kind::Superblock } else { Kind::Copy }, SealKind::Superblock)
            } else if is(SealKind::Map) {
                let group = self.geometry.group_of_fragment(self.geometry.first_fragment(block));
                match at - self.geometry.sector_of(self.geometry.header_of(group)) {
                    0 => (Kind::Header, SealKind::Map),
                    1 => (Kind::InodeBits, SealKind::Map),
                    // The rest of the block has seals and no meaning.
                    2 => (Kind::FragmentBits, SealKind::Map),
                    _ => continue,
                }
            } else if is(SealKind::Inodes) {
                (Kind::Inodes, SealKind::Inodes)
            } else if is(SealKind::Indirect) {
                let level = indirect.get(&block).copied().unwrap_or(1);
                (Kind::Indirect(level), SealKind::Indirect)
            } else if is(SealKind::Directory) {
                (Kind::Directory, SealKind::Directory)
            } else {
                continue;
            };
            all.push((at, kind.0, kind.1));
        }
        all
    }

    /// The image with one sector replaced.
    fn with(&self, at: u64, sector: &[u8]) -> Cells {
        let mut cells = self.cells.clone();
        let mut bytes = cells.read(at / BLOCK_SECTORS, 1).expect("memory").to_bytes().to_vec();
        let start = (at % BLOCK_SECTORS) as usize * SECTOR_BYTES;
        bytes[start..start + SECTOR_BYTES].copy_from_slice(sector);
        assert_eq!(bytes.len(), BLOCK_BYTES);
        cells.write(at / BLOCK_SECTORS, &Data::bytes(bytes.into())).expect("memory");
        cells
    }

    /// Each damage of a sector: a name and the sector.
    fn damages(&mut self, at: u64, kind: SealKind) -> Vec<(String, Vec<u8>)> {
        let whole = self.sector(at);
        let mut all = Vec::new();
        for (offset, bit) in BITS {
            let mut sector = whole.clone();
            sector[offset] ^= 1 << bit;
            all.push((format!("bit {bit} of byte {offset}"), sector));
        }
        all.push(("zeros".to_owned(), vec![0; SECTOR_BYTES]));
        let mut foreign = whole.clone();
        Sealer::new(ID + 1).set(&mut foreign, at, kind, 1);
        all.push(("of another file system".to_owned(), foreign));
        let mut misplaced = whole;
        self.sealer.set(&mut misplaced, at ^ 1, kind, 1);
        all.push(("of another place".to_owned(), misplaced));
        all
    }
}

/// An object without what another name of it, or its directory, may change.
fn lasting(object: &Object) -> Object {
    let mut object = object.clone();
    object.attr.links = 0;
    object.attr.ctime = 0;
    object.attr.atime = 0;
    object
}

/// Paths that a walk has found as they were, while others may fail. Panics if one differs.
fn intact(image: &Image, tree: &Tree, what: &str) -> BTreeSet<String> {
    let mut same = BTreeSet::new();
    for (path, object) in tree {
        let Ok(object) = object else { continue };
        match image.tree.get(path) {
            Some(Ok(right)) if lasting(right) == lasting(object) => {
                same.insert(path.clone());
            }
            right => panic!("{what}: {path} is {object:?}, it was {right:?}"),
        }
    }
    same
}

/// Paths that must be as they were.
fn are_intact(image: &Image, tree: &Tree, paths: &BTreeSet<String>, what: &str) {
    for path in paths {
        let (is, was) = (tree.get(path), &image.tree[path]);
        let same = match (is, was) {
            (Some(Ok(is)), Ok(was)) => lasting(is) == lasting(was),
            _ => false,
        };
        assert!(same, "{what}: {path} is {is:?}, it was {was:?}");
    }
}

/// What came of the damages of one kind of sector.
#[derive(Clone, Debug, Default)]
struct Outcomes {
    cases: u32,
    unreadable: u32,
    closed: u32,
    refused: u32,
    failed: u32,
    harmless: u32,
    repairable: u32,
    fatal: u32,
    lost: usize,
}

/// Writes of each kind to a damaged file system; the number of those that failed.
pub fn write_everywhere(files: &mut Files) -> (u32, bool) {
    let mut failed = 0;
    let mut count = |result: Result<(), Errno>| {
        failed += u32::from(result.is_err());
        result.is_ok()
    };
    let mut made = count(files.make("/w", New::File).map(|_| ()));
    made = made && count(files.write("/w", 0, &content(70, 40_000)));
    count(files.make("/a/b/w", New::File).map(|_| ()));
    count(files.write("/a/b/w", 70_000, &content(71, 3000)));
    count(files.make("/empty/dir", New::Directory).map(|_| ()));
    count(files.make("/empty/dir/w", New::Symlink(vec![b'y'; 300].into())).map(|_| ()));
    count(files.write("/a/holes", 1_000_000, &content(72, 10_000)));
    count(files.write("/a/b/indirect", 100_000, &content(73, 10_000)));
    count(files.unlink("/a/b/direct"));
    count(files.unlink(&format!("/empty/07 {}", "n".repeat(90))));
    count(files.unlink("/null"));
    (failed, made)
}

/// Paths that [`write_everywhere`] changes.
fn is_written(path: &str) -> bool {
    let all = ["/w", "/a/b/w", "/empty/dir", "/a/holes", "/a/b/indirect", "/a/b/direct", "/null"];
    all.contains(&path)
        || path.starts_with("/empty/07")
        || ["/", "/a", "/a/b", "/empty"].contains(&path)
        || path.starts_with("/empty/dir")
}

impl Image {
    /// Each path with its inode, the root included.
    fn paths(&self) -> Vec<(String, u32)> {
        let ino = |object: &Result<Object, Errno>| object.as_ref().expect("whole").attr.ino as u32;
        let all = self.tree.iter().map(|(path, object)| (path.clone(), ino(object)));
        all.chain([(String::new(), 2)]).collect()
    }

    fn inode(&mut self, ino: u32) -> Inode {
        let place = self.geometry.inode_place(ino);
        let sector = self.sector(self.geometry.sector_of(place));
        let at = place.at % SECTOR_BYTES;
        Inode::decode(&sector[at..at + INODE_BYTES])
    }

    /// The directory that has a sector in its first twelve blocks.
    fn directory_of(&mut self, at: u64) -> String {
        let in_fragment = (self.geometry.fragment_bytes() / SECTOR_BYTES) as u64;
        let fragment = (at / in_fragment) as u32;
        for (path, ino) in self.paths() {
            let inode = self.inode(ino);
            let blocks = (0..).zip(inode.direct).filter(|(_, address)| *address != 0);
            let mut ranges = blocks.map(|(index, address)| {
                address..address + inode.block_fragments(index, &self.geometry)
            });
            if inode.kind() == Some(FileKind::Directory) && ranges.any(|it| it.contains(&fragment))
            {
                return path;
            }
        }
        panic!("sector {at} belongs to no directory");
    }

    /// Paths that a damaged sector may cost: those of its inodes or names with all below them, the
    /// owner of its addresses, the directory of its names.
    fn dependent(&mut self, at: u64, kind: Kind) -> BTreeSet<String> {
        let (mut alone, mut with_below) = (BTreeSet::new(), BTreeSet::new());
        match kind {
            Kind::Inodes => {
                for (path, ino) in self.paths() {
                    if self.geometry.sector_of(self.geometry.inode_place(ino)) == at {
                        with_below.insert(path);
                    }
                }
            }
            Kind::Indirect(_) => {
                let block = at / self.geometry.sectors_per_block() as u64;
                let is_holes = self.indirect().contains_key(&block);
                alone.insert(if is_holes { "/a/holes" } else { "/a/b/indirect" }.to_owned());
            }
            Kind::Directory => {
                let dir = self.directory_of(at);
                let sector = self.sector(at);
                for entry in entries(&sector[..504]).expect("whole") {
                    with_below.insert(format!("{dir}/{}", entry.name.escape_ascii()));
                }
                alone.insert(dir);
            }
            _ => {}
        }
        let is_below = |path: &str| {
            with_below.iter().any(|top| path == *top || path.starts_with(&format!("{top}/")))
        };
        let all = self.paths().into_iter().map(|(path, _)| path);
        all.filter(|path| alone.contains(path) || is_below(path)).collect()
    }
}

/// Reads everything: it is right, or an error where it depends on the sector.
fn reads(
    image: &Image,
    cells: &Cells,
    dependent: &BTreeSet<String>,
    outcomes: &mut Outcomes,
    what: &str,
) {
    let medium = Shared::new(cells.clone());
    let mounted = mount(&medium, true);
    let mut files = Files(mounted.unwrap_or_else(|error| panic!("{what}: {error}")));
    outcomes.closed += u32::from(!files.0.fs().format().closed_groups().is_empty());
    let paths: Vec<&str> = image.tree.keys().map(String::as_str).collect();
    let tree = files.tree_with(&paths);
    let same = intact(image, &tree, what);
    for path in image.tree.keys().filter(|path| !same.contains(*path)) {
        assert!(dependent.contains(path), "{what}: {path} is {:?}", tree.get(path));
        outcomes.lost += 1;
    }
    outcomes.unreadable += u32::from(tree.values().any(Result::is_err));
    let is_all = same.len() == image.tree.len();
    assert!(is_all || tree.values().any(Result::is_err), "{what}: a name is gone without an error");
    files.unmount();
    assert!(medium.cells() == *cells, "{what}: a mount for reading wrote");
}

/// Checks and repairs; what does not depend on the sector is there afterwards.
fn repairs(image: &Image, cells: &Cells, same: &BTreeSet<String>, what: &str) -> Option<Severity> {
    let medium = Shared::new(cells.clone());
    let found = medium.with_disk(|disk| check(disk)).expect("a superblock or a copy");
    assert!(medium.cells() == *cells, "{what}: a check wrote");
    medium.with_disk(|disk| repair(disk).map(|_| ())).expect("repairable");
    let left = medium.with_disk(|disk| check(disk)).expect("repaired");
    assert!(left.is_clean() && left.unmounted, "{what}: {left}");
    let mut files = Files(mount(&medium, false).expect("repaired"));
    assert_eq!(files.0.fs().format().closed_groups(), [], "{what}");
    are_intact(image, &files.tree(), same, what);
    files.unmount();
    found.worst()
}

/// Writes to the damaged file system, and repairs it then.
fn writes(image: &Image, cells: &Cells, same: &BTreeSet<String>, what: &str) -> Option<u32> {
    let medium = Shared::new(cells.clone());
    let mounted = match mount(&medium, false) {
        Ok(mounted) => mounted,
        Err(FsError::LostSuperblock { .. }) => return None,
        Err(error) => panic!("{what}: {error}"),
    };
    let mut files = Files(mounted);
    let was_closed = !files.0.fs().format().closed_groups().is_empty();
    let (failed, made) = write_everywhere(&mut files);
    let stopped = files.0.unmount().1;
    if was_closed {
        let refused = mount(&medium, false).map(|_| ()).expect_err("an error is marked");
        assert_eq!(refused, FsError::MetDamage, "{what}");
    }
    let same = same.iter().filter(|path| !is_written(path)).cloned().collect();
    let new = |tree: &Tree| tree.get("/w").cloned().and_then(Result::ok);
    let mut files = Files(mount(&medium, true).unwrap_or_else(|error| panic!("{what}: {error}")));
    let paths: Vec<&str> = image.tree.keys().map(String::as_str).collect();
    let tree = files.tree_with(&paths);
    are_intact(image, &tree, &same, what);
    let written = new(&tree);
    if made && stopped.is_ok() {
        let size = written.as_ref().map(|object| object.attr.size);
        assert_eq!(size, Some(40_000), "{what}: a file that was written");
    }
    files.unmount();
    medium.with_disk(|disk| repair(disk).map(|_| ())).expect("repairable");
    let left = medium.with_disk(|disk| check(disk)).expect("repaired");
    assert!(left.is_clean() && left.unmounted, "{what}: {left}");
    let mut files = Files(mount(&medium, false).expect("repaired"));
    let tree = files.tree();
    are_intact(image, &tree, &same, what);
    if let Some(written) = written {
        assert_eq!(new(&tree).map(|new| lasting(&new)), Some(lasting(&written)), "{what}");
    }
    files.unmount();
    Some(failed)
}

fn run(image: &mut Image, table: &mut BTreeMap<Kind, Outcomes>) {
    for (at, kind, seal) in image.sectors.clone() {
        let outcomes = table.entry(kind).or_default();
        let dependent = image.dependent(at, kind);
        let same: BTreeSet<String> =
            image.tree.keys().filter(|path| !dependent.contains(*path)).cloned().collect();
        for (damage, sector) in image.damages(at, seal) {
            let what = format!("{kind} at sector {at}, {damage}");
            let cells = image.with(at, &sector);
            outcomes.cases += 1;
            reads(image, &cells, &dependent, outcomes, &what);
            match repairs(image, &cells, &same, &what) {
                None => panic!("{what}: the check finds nothing"),
                Some(Severity::Harmless) => outcomes.harmless += 1,
                Some(Severity::Repairable) => outcomes.repairable += 1,
                Some(Severity::Fatal) => outcomes.fatal += 1,
            }
            match writes(image, &cells, &same, &what) {
                None => outcomes.refused += 1,
                Some(failed) => outcomes.failed += u32::from(failed > 0),
            }
        }
    }
}

#[test]
fn damage_of_a_sector_costs_what_depends_on_it_and_nothing_else() {
    let mut table = BTreeMap::new();
    for (block, fragment) in [(8192, 1024), (4096, 4096)] {
        run(&mut Image::new(block, fragment), &mut table);
    }
    println!(
        "{:<14} {:>6} {:>10} {:>6} {:>7} {:>10} {:>8} {:>10} {:>6} {:>10}",
        "sector",
        "cases",
        "unreadable",
        "closed",
        "refused",
        "write fails",
        "harmless",
        "repairable",
        "fatal",
        "paths lost"
    );
    for (kind, row) in &table {
        let Outcomes { cases, unreadable, closed, refused, failed, harmless, .. } = row;
        let Outcomes { repairable, fatal, lost, .. } = row;
        println!(
            "{kind:<14} {cases:>6} {unreadable:>10} {closed:>6} {refused:>7} {failed:>11} \
             {harmless:>8} {repairable:>10} {fatal:>6} {:>10.1}",
            *lost as f64 / f64::from(*cases)
        );
    }
    assert_eq!(table.len(), 10, "each kind of sector: {:?}", table.keys());
    for kind in [Kind::Superblock, Kind::Copy, Kind::Header, Kind::InodeBits, Kind::FragmentBits] {
        assert_eq!(table[&kind].lost, 0, "{kind}: no file depends on it");
    }
}
