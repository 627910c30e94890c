//! The prover's own reader of FFS.

use super::inode_at;
use crate::files::names::Name;
use crate::files::tags::Cell;
use crate::files::tree::{Attrs, Body, Found, parse_text};
use crate::memo::{Content, Contents};
use bytes::Bytes;
use seekless_engine::disk::Disk;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_formats::FsError;
use seekless_formats::ffs::ondisk::entries;
use seekless_formats::ffs::ondisk::format::address_offset;
use seekless_formats::ffs::ondisk::inode::{DIRECT, INODE_BYTES, is_free};
use seekless_formats::ffs::{Geometry, Inode};
use seekless_fs::call::FileKind;
use seekless_fs::tx::SECTOR_CONTENT;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The bytes of an inode that is in use.
pub(super) fn inode(
    geometry: &Geometry,
    ino: u32,
    contents: &Contents,
    image: &[Content],
) -> Option<Vec<u8>> {
    if ino >= geometry.inodes() {
        return None;
    }
    let place = geometry.inode_place(ino);
    let block = place.block * u64::from(geometry.engine_blocks()) + (place.at / BLOCK_BYTES) as u64;
    let inode = inode_at(contents, image, block, place.at % BLOCK_BYTES, INODE_BYTES);
    (!is_free(&inode)).then_some(inode)
}

/// What the object with these bytes of an inode is.
pub(super) fn object(
    disk: &mut dyn Disk,
    geometry: &Rc<Geometry>,
    inode: &[u8],
) -> Result<Option<Found>, FsError> {
    let geometry = Rc::clone(geometry);
    Reader { disk, geometry, blocks: BTreeMap::new() }.object(&Inode::decode(inode))
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
