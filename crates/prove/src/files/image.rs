//! Reads the tree from the bytes of an image, without mounting it.
//!
//! It is the prover's own reader of FFS: an operation of the file system that reads wrongly what
//! another one wrote wrongly is found by comparing the two. It takes addresses that a check has
//! accepted, and skips others.

use super::contract::damage::Damages;
use super::names::Name;
use super::tags::Cell;
use super::tree::{Attrs, Body, Found, Shared, Tree, parse_text};
use crate::memo::contents::Words;
use crate::memo::{Content, Contents, Transcripts};
use bytes::Bytes;
use seekless_engine::checksum::xxh3_64;
use seekless_engine::disk::Disk;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_formats::FsError;
use seekless_formats::ffs::ondisk::entries;
use seekless_formats::ffs::ondisk::format::address_offset;
use seekless_formats::ffs::ondisk::inode::{DIRECT, INODE_BYTES, is_free};
use seekless_formats::ffs::{Geometry, Inode, load};
use seekless_fs::call::{FileKind, ROOT};
use seekless_fs::tx::SECTOR_CONTENT;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Objects that are read at most: an image of the prover has fewer inodes.
const MOST_OBJECTS: usize = 1 << 16;

/// What is remembered of trees that were read: objects by their inodes. An object with the same
/// inode is the same if its blocks hold the same.
#[derive(Debug, Default)]
pub struct Trees {
    geometries: Transcripts<Option<Result<Rc<Geometry>, FsError>>>,
    /// That of all objects here.
    geometry: Option<Rc<Geometry>>,
    objects: Words<u64, Vec<Known>>,
}

#[derive(Debug)]
struct Known {
    ino: u32,
    inode: [u8; INODE_BYTES],
    objects: Transcripts<Option<Result<Option<Shared>, FsError>>>,
}

impl Trees {
    /// Reads everything that names lead to.
    ///
    /// # Errors
    /// No superblock.
    pub fn read(
        &mut self,
        contents: &mut Contents,
        image: &mut [Content],
    ) -> Result<Tree, FsError> {
        let geometry = self
            .geometries
            .play(contents, image, |disk| Ok(Rc::new(load(disk)?.superblock.geometry()?)))?;
        if self.geometry.as_ref().is_none_or(|known| *known != geometry) {
            self.objects.clear();
            self.geometry = Some(Rc::clone(&geometry));
        }
        let mut objects = BTreeMap::new();
        let mut todo = vec![ROOT as u32];
        while let Some(ino) = todo.pop() {
            if objects.contains_key(&ino) || objects.len() >= MOST_OBJECTS {
                continue;
            }
            let found = self.object(&geometry, ino, contents, image)?;
            let Some(found) = found else { continue };
            if let Body::Directory(names, _) = &found.body {
                todo.extend(names.values());
            }
            objects.insert(ino, found);
        }
        Ok(Tree { objects, damages: Damages::NONE })
    }

    fn object(
        &mut self,
        geometry: &Rc<Geometry>,
        ino: u32,
        contents: &mut Contents,
        image: &mut [Content],
    ) -> Result<Option<Shared>, FsError> {
        if ino >= geometry.inodes() {
            return Ok(None);
        }
        let inode = inode_bytes(geometry, ino, contents, image);
        if is_free(&inode) {
            return Ok(None);
        }
        let same_hash = self.objects.entry(xxh3_64(&inode) ^ u64::from(ino)).or_default();
        let is_it = |known: &Known| known.ino == ino && known.inode == inode;
        let at = same_hash.iter().position(is_it).unwrap_or_else(|| {
            same_hash.push(Known { ino, inode, objects: Transcripts::default() });
            same_hash.len() - 1
        });
        let inode = Inode::decode(&inode);
        same_hash[at].objects.play(contents, image, |disk| {
            let geometry = Rc::clone(geometry);
            let found = Reader { disk, geometry, blocks: BTreeMap::new() }.object(&inode)?;
            Ok(found.map(Shared::from))
        })
    }
}

/// The bytes of an inode; it lies in one block of the device.
fn inode_bytes(
    geometry: &Geometry,
    ino: u32,
    contents: &Contents,
    image: &[Content],
) -> [u8; INODE_BYTES] {
    let place = geometry.inode_place(ino);
    let block = place.block * u64::from(geometry.engine_blocks()) + (place.at / BLOCK_BYTES) as u64;
    let bytes = contents.bytes(image[block as usize]);
    let mut inode = [0; INODE_BYTES];
    inode.copy_from_slice(&bytes[place.at % BLOCK_BYTES..][..INODE_BYTES]);
    inode
}

struct Reader<'d> {
    disk: &'d mut dyn Disk,
    geometry: Rc<Geometry>,
    /// Blocks of metadata that were read.
    blocks: BTreeMap<u64, Bytes>,
}

impl Reader<'_> {
    fn block(&mut self, block: u64) -> Result<Bytes, FsError> {
        let each = self.geometry.engine_blocks();
        Ok(self.disk.read(block * u64::from(each), each)?.to_bytes())
    }

    fn metadata(&mut self, block: u64) -> Result<Bytes, FsError> {
        if let Some(bytes) = self.blocks.get(&block) {
            return Ok(bytes.clone());
        }
        let bytes = self.block(block)?;
        self.blocks.insert(block, bytes.clone());
        Ok(bytes)
    }

    fn object(&mut self, inode: &Inode) -> Result<Option<Found>, FsError> {
        let Some(kind) = inode.kind() else { return Ok(None) };
        let body = match kind {
            FileKind::File => self.file(inode)?,
            FileKind::Directory => self.directory(inode)?,
            FileKind::Symlink => Body::Symlink(parse_text(&self.symlink(inode)?)),
            _ => Body::Special,
        };
        let size = if kind == FileKind::Directory { 0 } else { inode.size };
        let attrs = Attrs { mode: inode.mode & 0o7777, uid: inode.uid };
        Ok(Some(Found { generation: inode.generation, kind, attrs, size, body }))
    }

    /// The blocks of an inode before its end: number in the file, block, first byte.
    fn map(&mut self, inode: &Inode) -> Result<Vec<(u64, u64, usize)>, FsError> {
        let blocks = inode.size_blocks(&self.geometry);
        let mut out = Vec::new();
        for (index, &address) in (0..blocks).zip(&inode.direct) {
            self.place(index, address, &mut out);
        }
        let each = self.geometry.addresses_per_block() as u64;
        let mut first = DIRECT as u64;
        for (level, &address) in (1_u32..).zip(&inode.indirect) {
            if first < blocks {
                self.indirect((first, blocks), level, address, &mut out)?;
            }
            first += each.pow(level);
        }
        Ok(out)
    }

    fn place(&self, index: u64, address: u32, out: &mut Vec<(u64, u64, usize)>) {
        if address != 0 && self.geometry.is_data(address, 1) {
            let place = self.geometry.place_of(address);
            out.push((index, place.block, place.at));
        }
    }

    fn indirect(
        &mut self,
        (first, blocks): (u64, u64),
        level: u32,
        address: u32,
        out: &mut Vec<(u64, u64, usize)>,
    ) -> Result<(), FsError> {
        if address == 0 || !self.geometry.is_data(address, 1) {
            return Ok(());
        }
        let bytes = self.metadata(self.geometry.block_of(address))?;
        let span = (self.geometry.addresses_per_block() as u64).pow(level - 1);
        for entry in 0..self.geometry.addresses_per_block() {
            let index = first + entry as u64 * span;
            if index >= blocks {
                break;
            }
            let at = address_offset(entry);
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            let address = u32::from_le_bytes(word);
            match level {
                1 => self.place(index, address, out),
                _ => self.indirect((index, blocks), level - 1, address, out)?,
            }
        }
        Ok(())
    }

    /// The bytes of a block of an inode that lie before its end.
    fn content(
        &mut self,
        (index, block, at): (u64, u64, usize),
        size: u64,
    ) -> Result<Bytes, FsError> {
        let block_bytes = self.geometry.block_bytes();
        let left = size - index * block_bytes as u64;
        let length = (block_bytes - at).min(usize::try_from(left).unwrap_or(block_bytes));
        // Of a block with tails of several files only the engine blocks that it needs are read.
        let (low, high) = (at / BLOCK_BYTES, (at + length).div_ceil(BLOCK_BYTES));
        let first = block * u64::from(self.geometry.engine_blocks()) + low as u64;
        let bytes = self.disk.read(first, (high - low) as u32)?.to_bytes();
        let from = at - low * BLOCK_BYTES;
        Ok(bytes.slice(from..from + length))
    }

    fn file(&mut self, inode: &Inode) -> Result<Body, FsError> {
        let in_block = (self.geometry.block_bytes() / SECTOR_BYTES) as u64;
        let mut cells = Vec::new();
        for place in self.map(inode)? {
            let bytes = self.content(place, inode.size)?;
            for (sector, bytes) in (place.0 * in_block..).zip(bytes.chunks(SECTOR_BYTES)) {
                let cell = Cell::read(bytes);
                if cell != Cell::Zeros {
                    cells.push((sector as u32, cell));
                }
            }
        }
        Ok(Body::File(cells))
    }

    fn directory(&mut self, inode: &Inode) -> Result<Body, FsError> {
        let (mut names, mut strange) = (BTreeMap::new(), 0);
        for place in self.map(inode)? {
            let bytes = self.content(place, inode.size)?;
            for chunk in bytes.chunks_exact(SECTOR_BYTES) {
                let all = entries::entries(&chunk[..SECTOR_CONTENT]).unwrap_or_default();
                for entry in all.iter().filter(|one| one.ino != 0 && !entries::is_dots(one.name)) {
                    match Name::parse(entry.name) {
                        Some(name) => _ = names.insert(name, entry.ino),
                        None => strange += 1,
                    }
                }
            }
        }
        Ok(Body::Directory(names, strange))
    }

    fn symlink(&mut self, inode: &Inode) -> Result<Vec<u8>, FsError> {
        if !inode.has_blocks() {
            return Ok(inode.short_text());
        }
        match self.map(inode)?.first() {
            Some(&place) => Ok(self.content(place, inode.size)?.to_vec()),
            None => Ok(Vec::new()),
        }
    }
}
