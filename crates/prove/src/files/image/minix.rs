//! The prover's own reader of Minix.

use super::inode_at;
use crate::files::names::Name;
use crate::files::tags::Cell;
use crate::files::tree::{Attrs, Body, Found, parse_text};
use crate::memo::{Content, Contents};
use bytes::Bytes;
use seekless_engine::disk::Disk;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_formats::FsError;
use seekless_formats::minix::{Geometry, Inode};
use seekless_fs::call::FileKind;
use std::collections::BTreeMap;

/// Bytes of an inode.
const INODE_BYTES: usize = 64;
/// Bytes of an entry of a directory, and of the number in front of its name.
const ENTRY_BYTES: usize = 64;
const NUMBER_BYTES: usize = 4;
/// Addresses of data in an inode.
const DIRECT: usize = 7;

/// Calls name the root by 2, the format by 1.
fn swapped(number: u32) -> u32 {
    match number {
        1 => 2,
        2 => 1,
        other => other,
    }
}

/// The bytes of an inode that is in use.
pub(super) fn inode(
    geometry: &Geometry,
    ino: u32,
    contents: &Contents,
    image: &[Content],
) -> Option<Vec<u8>> {
    let number = swapped(ino);
    if number == 0 || number > geometry.inodes() {
        return None;
    }
    let place = geometry.inode_place(number);
    let inode = inode_at(contents, image, place.page, place.at, INODE_BYTES);
    Inode::decode(&inode).kind().map(|_| inode)
}

/// What the object with these bytes of an inode is.
pub(super) fn object(
    disk: &mut dyn Disk,
    geometry: Geometry,
    inode: &[u8],
) -> Result<Option<Found>, FsError> {
    Reader { disk, geometry }.object(&Inode::decode(inode))
}

struct Reader<'d> {
    disk: &'d mut dyn Disk,
    geometry: Geometry,
}

impl Reader<'_> {
    fn object(&mut self, inode: &Inode) -> Result<Option<Found>, FsError> {
        let Some(kind) = inode.kind() else { return Ok(None) };
        let body = match kind {
            FileKind::File => self.file(inode)?,
            FileKind::Directory => self.directory(inode)?,
            FileKind::Symlink => Body::Symlink(parse_text(&self.text(inode)?)),
            _ => Body::Special,
        };
        let size = if kind == FileKind::Directory { 0 } else { u64::from(inode.size) };
        let attrs = Attrs { mode: inode.mode & 0o7777, uid: u32::from(inode.uid) };
        // Nothing on the disk tells objects apart that had the same inode.
        Ok(Some(Found { generation: 1, kind, attrs, size, body }))
    }

    fn zone(&mut self, zone: u32) -> Result<Bytes, FsError> {
        let bytes = self.geometry.zone_bytes();
        let at = zone as usize * bytes;
        let block = self.disk.read((at / BLOCK_BYTES) as u64, 1)?.to_bytes();
        Ok(block.slice(at % BLOCK_BYTES..at % BLOCK_BYTES + bytes))
    }

    /// The zones of an inode before its end: index in the file, and number.
    fn map(&mut self, inode: &Inode) -> Result<Vec<(u64, u32)>, FsError> {
        let end = u64::from(inode.size).div_ceil(self.geometry.zone_bytes() as u64);
        let (mut out, mut first) = (Vec::new(), 0);
        for (slot, &zone) in inode.zones.iter().enumerate() {
            let level = (slot + 1).saturating_sub(DIRECT) as u32;
            self.below((zone, level), (first, end), &mut out)?;
            first += (self.geometry.addresses() as u64).pow(level);
        }
        Ok(out)
    }

    fn below(
        &mut self,
        (zone, level): (u32, u32),
        (first, end): (u64, u64),
        out: &mut Vec<(u64, u32)>,
    ) -> Result<(), FsError> {
        if first >= end || !self.geometry.is_data(zone) {
            return Ok(());
        }
        if level == 0 {
            out.push((first, zone));
            return Ok(());
        }
        let bytes = self.zone(zone)?;
        let span = (self.geometry.addresses() as u64).pow(level - 1);
        for (entry, word) in (0..).zip(bytes.chunks_exact(NUMBER_BYTES)) {
            let zone = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.below((zone, level - 1), (first + entry * span, end), out)?;
        }
        Ok(())
    }

    /// The bytes of a zone that lie before the end of its file.
    fn content(&mut self, (index, zone): (u64, u32), size: u32) -> Result<Bytes, FsError> {
        let bytes = self.zone(zone)?;
        let left = u64::from(size) - index * bytes.len() as u64;
        Ok(bytes.slice(..usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())))
    }

    fn file(&mut self, inode: &Inode) -> Result<Body, FsError> {
        let in_zone = (self.geometry.zone_bytes() / SECTOR_BYTES) as u64;
        let mut cells = Vec::new();
        for place in self.map(inode)? {
            let bytes = self.content(place, inode.size)?;
            for (sector, bytes) in (place.0 * in_zone..).zip(bytes.chunks(SECTOR_BYTES)) {
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
            for entry in bytes.chunks_exact(ENTRY_BYTES) {
                let number = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
                let name = &entry[NUMBER_BYTES..];
                let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                let name = &name[..length];
                if number == 0 || name == b"." || name == b".." {
                    continue;
                }
                match Name::parse(name) {
                    Some(name) => _ = names.insert(name, swapped(number)),
                    None => strange += 1,
                }
            }
        }
        Ok(Body::Directory(names, strange))
    }

    fn text(&mut self, inode: &Inode) -> Result<Vec<u8>, FsError> {
        match self.map(inode)?.first() {
            Some(&place) => Ok(self.content(place, inode.size)?.to_vec()),
            None => Ok(Vec::new()),
        }
    }
}
