//! The places of FFS of Seekless, which this program reads by itself.
//!
//! Names come from a walk over the directories of the image. What is damaged, or not reached, has
//! no place.

use super::owner::Owner;
use crate::own;
use crate::own::device::ImageDevice;
use seekless_engine::units::SECTOR_BYTES;
use seekless_formats::ffs::offline::store::Store;
use seekless_formats::ffs::ondisk::entries::{entries, is_dots};
use seekless_formats::ffs::ondisk::format::{LogPlace, SECTOR_ADDRESSES};
use seekless_formats::ffs::ondisk::inode::INODE_BYTES;
use seekless_formats::ffs::{Fragment, Geometry, Inode, SealKind, load};
use seekless_fs::call::{FileKind, ROOT};
use seekless_fs::tx::SECTOR_CONTENT;
use seekless_serve::files::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Fragments that are looked at, at most.
const MOST_FRAGMENTS: usize = 1 << 20;

/// The owner of each fragment of an image.
#[derive(Debug)]
pub struct Owners {
    /// Bytes of a fragment.
    pub fragment_bytes: u64,
    owners: BTreeMap<u64, Owner>,
}

impl Owners {
    /// Reads an image; `None` if it holds no FFS.
    pub fn read(image: &Path) -> Option<Owners> {
        let image = Arc::new(own::run::image_of(image).ok()?);
        let mut volume = Volume::of_device(Box::new(ImageDevice::new(image)), "an image");
        let superblock = load(&mut volume).ok()?.superblock;
        let geometry = superblock.geometry().ok()?;
        let fragment_bytes = geometry.fragment_bytes() as u64;
        let mut owners = BTreeMap::new();
        metadata(&geometry, &mut owners);
        log(superblock.log, &mut owners);
        let store = Store::new(&mut volume, geometry, superblock.sealer());
        Walk { store, owners: &mut owners }.all();
        Some(Owners { fragment_bytes, owners })
    }

    /// The owners of fragments.
    pub fn of(&self, fragments: &[u64]) -> BTreeMap<u64, Owner> {
        let owner = |at: &u64| Some((*at, self.owners.get(at)?.clone()));
        fragments.iter().filter_map(owner).collect()
    }
}

/// Superblocks, maps and tables.
fn metadata(geometry: &Geometry, owners: &mut BTreeMap<u64, Owner>) {
    let each = geometry.fragments_per_block();
    for group in 0..geometry.groups() {
        let mut name = |block: u64, index: u32, name: String| {
            let at = u64::from(geometry.first_fragment(block) + index);
            owners.insert(at, Owner::Named(name.into()));
        };
        let copy = if group == 0 { "" } else { " copy" };
        if let Some(block) = geometry.superblock_of(group) {
            (0..each).for_each(|index| name(block, index, format!("FFS superblock{copy}")));
        }
        for block in 0..geometry.map_blocks() {
            let at = geometry.maps_of(group) + u64::from(block);
            (0..each).for_each(|index| name(at, index, format!("FFS maps of group {group}")));
        }
        let inodes = geometry.inodes_per_block() / each;
        let first = group * geometry.sizes().inodes_per_group;
        for fragment in 0..geometry.table_blocks() * each {
            let from = first + fragment * inodes;
            let text = format!("FFS inode table (inodes {from}-{})", from + inodes - 1);
            name(geometry.table_of(group), fragment, text);
        }
    }
}

/// The log behind the file system, if there is one.
fn log(log: LogPlace, owners: &mut BTreeMap<u64, Owner>) {
    let name: Arc<str> = "FFS log".into();
    let fragments = u64::from(log.first)..u64::from(log.first) + u64::from(log.fragments);
    owners.extend(fragments.map(|at| (at, Owner::Named(Arc::clone(&name)))));
}

/// A walk over the tree.
struct Walk<'w, 'd> {
    store: Store<'d>,
    owners: &'w mut BTreeMap<u64, Owner>,
}

impl Walk<'_, '_> {
    fn all(&mut self) {
        let mut seen = BTreeSet::from([ROOT]);
        let mut stack = vec![(ROOT, String::new())];
        while let Some((ino, path)) = stack.pop() {
            let Some(inode) = u32::try_from(ino).ok().and_then(|ino| self.inode(ino)) else {
                continue;
            };
            let is_directory = inode.kind() == Some(FileKind::Directory);
            let blocks = self.claim(&inode, &path, is_directory);
            if !is_directory {
                continue;
            }
            for (child, name) in self.names(&inode, &blocks) {
                if seen.insert(child) {
                    let join = if path.is_empty() { "" } else { "/" };
                    stack.push((child, format!("{path}{join}{name}")));
                }
            }
        }
    }

    fn inode(&mut self, ino: u32) -> Option<Inode> {
        if ino >= self.store.geometry.inodes() {
            return None;
        }
        let place = self.store.geometry.inode_place(ino);
        let bytes = self.store.read(place.block, 1).ok()?;
        let is_whole = self.store.is_whole(&bytes, place, SealKind::Inodes);
        let inode = is_whole.then(|| Inode::decode(&bytes[place.at..place.at + INODE_BYTES]))?;
        inode.kind().map(|_| inode)
    }

    /// Names the fragments of an inode; gives its blocks in order, 0 for holes.
    fn claim(&mut self, inode: &Inode, path: &str, is_directory: bool) -> Vec<Fragment> {
        if !inode.has_blocks() {
            return Vec::new();
        }
        let blocks = self.blocks(inode, path);
        let name: Arc<str> = match is_directory {
            true => format!("directory /{path}").into(),
            false => path.into(),
        };
        let geometry = self.store.geometry.clone();
        for (index, &first) in (0_u64..).zip(&blocks) {
            let count = geometry.block_fragments(inode, index, first);
            for fragment in 0..count {
                let at = index * geometry.block_bytes() as u64
                    + u64::from(fragment) * geometry.fragment_bytes() as u64;
                let owner = match is_directory {
                    true => Owner::Named(Arc::clone(&name)),
                    false => Owner::File { name: Arc::clone(&name), at, size: inode.size },
                };
                self.owners.insert(u64::from(first + fragment), owner);
            }
        }
        blocks
    }

    /// The first fragments of the blocks of an inode.
    fn blocks(&mut self, inode: &Inode, path: &str) -> Vec<Fragment> {
        let count = inode.size_blocks(&self.store.geometry).min(MOST_FRAGMENTS as u64) as usize;
        let mut blocks = inode.direct.to_vec();
        for (level, &first) in inode.indirect.iter().enumerate() {
            if blocks.len() >= count {
                break;
            }
            self.indirect(first, level, count, path, &mut blocks);
        }
        blocks.truncate(count);
        blocks
    }

    /// Adds the addresses below an indirect block, or holes in their place.
    fn indirect(
        &mut self,
        first: Fragment,
        level: usize,
        most: usize,
        path: &str,
        blocks: &mut Vec<Fragment>,
    ) {
        let each = self.store.geometry.addresses_per_block();
        let is_data = self.store.geometry.is_data(first, 1);
        let bytes = match is_data {
            true => self.store.read(self.store.geometry.block_of(first), 1).ok(),
            false => None,
        };
        let Some(bytes) = bytes else {
            let holes =
                each.saturating_pow(level as u32 + 1).min(most.saturating_sub(blocks.len()));
            blocks.resize(blocks.len() + holes, 0);
            return;
        };
        let name: Arc<str> = format!("indirect block of {path}").into();
        for fragment in 0..self.store.geometry.fragments_per_block() {
            let owner = Owner::Named(Arc::clone(&name));
            self.owners.insert(u64::from(first + fragment), owner);
        }
        for index in 0..each {
            if blocks.len() >= most {
                return;
            }
            let at = index / SECTOR_ADDRESSES * SECTOR_BYTES + index % SECTOR_ADDRESSES * 4;
            let address = bytes[at..at + 4].try_into().map_or(0, Fragment::from_le_bytes);
            match level {
                0 => blocks.push(address),
                _ => self.indirect(address, level - 1, most, path, blocks),
            }
        }
    }

    /// The names in a directory, with their inodes.
    fn names(&mut self, inode: &Inode, blocks: &[Fragment]) -> Vec<(u64, String)> {
        let mut names = Vec::new();
        for (index, &first) in (0_u64..).zip(blocks) {
            if !self.store.geometry.is_data(first, 1) {
                continue;
            }
            let place = self.store.geometry.place_of(first);
            let Ok(bytes) = self.store.read(place.block, 1) else { continue };
            let count = self.store.geometry.block_fragments(inode, index, first);
            let end = place.at + count as usize * self.store.geometry.fragment_bytes();
            for chunk in bytes[place.at..end].chunks_exact(SECTOR_BYTES) {
                let found = entries(&chunk[..SECTOR_CONTENT]).unwrap_or_default();
                let found = found.iter().filter(|entry| entry.ino != 0 && !is_dots(entry.name));
                names.extend(found.map(|entry| {
                    (u64::from(entry.ino), String::from_utf8_lossy(entry.name).into_owned())
                }));
            }
        }
        names
    }
}

/// How many fragments of a block belong to its file.
trait BlockFragments {
    fn block_fragments(&self, inode: &Inode, index: u64, first: Fragment) -> u32;
}

impl BlockFragments for Geometry {
    fn block_fragments(&self, inode: &Inode, index: u64, first: Fragment) -> u32 {
        let count = inode.block_fragments(index, self);
        if self.is_data(first, count.max(1)) { count } else { 0 }
    }
}
