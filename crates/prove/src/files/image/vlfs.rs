//! The prover's own reader of VLFS, above a reader of its drive.

use crate::files::contract::damage::Damages;
use crate::files::names::Name;
use crate::files::tags::Cell;
use crate::files::tree::{Attrs, Body, Found, Shared, Tree, parse_text};
use seekless_engine::disk::Disk;
use seekless_engine::objects::{ATTRIBUTES, address, split};
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_formats::FsError;
use seekless_fs::call::{FileKind, ROOT};
use seekless_layouts::vlfs::reader::Reader;
use std::collections::BTreeMap;

/// Bytes of the entries of a chunk, and of an entry before its name.
const CHUNK_BYTES: usize = 504;
const HEAD_BYTES: usize = 8;

/// Calls with the objects of the drive on a medium, read as after a crash.
///
/// # Errors
/// There is no such drive, or it cannot be mounted.
pub(crate) fn objects<T>(
    disk: &mut dyn Disk,
    with: impl FnOnce(&mut dyn Disk) -> Result<T, FsError>,
) -> Result<T, FsError> {
    let opened = Reader::open(disk);
    let mut reader = opened.map_err(|error| FsError::BadVlfs(error.to_string()))?;
    with(&mut reader)
}

/// Everything that names lead to.
pub(super) fn tree(disk: &mut dyn Disk) -> Result<Tree, FsError> {
    objects(disk, |disk| {
        let mut objects = BTreeMap::new();
        let mut todo = vec![ROOT as u32];
        while let Some(number) = todo.pop() {
            if objects.contains_key(&number) {
                continue;
            }
            let Some(found) = object(disk, number)? else { continue };
            if let Body::Directory(names, _) = &found.body {
                todo.extend(names.values());
            }
            objects.insert(number, Shared::from(found));
        }
        Ok(Tree { objects, damages: Damages::NONE })
    })
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    (0..N).rev().fold(0, |all, index| all << 8 | u64::from(bytes[at + index]))
}

fn object(disk: &mut dyn Disk, object: u32) -> Result<Option<Found>, FsError> {
    if u64::from(object) >= disk.blocks() >> 31 {
        return Ok(None);
    }
    let bytes = disk.read(address(object, ATTRIBUTES), 1)?.to_bytes();
    let mode = number::<2>(&bytes, 0) as u16;
    let size = number::<8>(&bytes, 16);
    let kind = match mode >> 12 {
        1 => FileKind::Fifo,
        2 => FileKind::CharDevice,
        4 => FileKind::Directory,
        6 => FileKind::BlockDevice,
        8 => FileKind::File,
        10 => FileKind::Symlink,
        12 => FileKind::Socket,
        _ => return Ok(None),
    };
    let body = match kind {
        FileKind::File => file(disk, object, size)?,
        FileKind::Directory => directory(disk, object, size)?,
        FileKind::Symlink => {
            let text = disk.read(address(object, 0), 1)?.to_bytes();
            Body::Symlink(parse_text(&text[..(size as usize).min(BLOCK_BYTES)]))
        }
        _ => Body::Special,
    };
    let attrs = Attrs { mode: mode & 0o7777, uid: number::<4>(&bytes, 8) as u32 };
    let size = if kind == FileKind::Directory { 0 } else { size };
    let generation = number::<4>(&bytes, 56) as u32;
    Ok(Some(Found { generation, kind, attrs, size, body }))
}

fn file(disk: &mut dyn Disk, object: u32, size: u64) -> Result<Body, FsError> {
    let block_bytes = BLOCK_BYTES as u64;
    let mut cells = Vec::new();
    let mut from = 0;
    // Holes are zeros, and may be long.
    while let Some(next) = disk.next_data(address(object, from)) {
        let (found, within) = split(next);
        let index = u64::from(within);
        if found != object || index * block_bytes >= size {
            break;
        }
        from = within + 1;
        let bytes = disk.read(address(object, index as u32), 1)?.to_bytes();
        let left = (size - index * block_bytes).min(block_bytes) as usize;
        let first = index * (BLOCK_BYTES / SECTOR_BYTES) as u64;
        for (sector, bytes) in (first..).zip(bytes[..left].chunks(SECTOR_BYTES)) {
            let cell = Cell::read(bytes);
            if cell != Cell::Zeros {
                cells.push((sector as u32, cell));
            }
        }
    }
    Ok(Body::File(cells))
}

fn directory(disk: &mut dyn Disk, object: u32, size: u64) -> Result<Body, FsError> {
    let (mut names, mut strange) = (BTreeMap::new(), 0);
    for index in 0..size / BLOCK_BYTES as u64 {
        let bytes = disk.read(address(object, index as u32), 1)?.to_bytes();
        for chunk in bytes.chunks_exact(SECTOR_BYTES) {
            let mut at = 0;
            while at + HEAD_BYTES <= CHUNK_BYTES {
                let length = number::<2>(chunk, at + 4) as usize;
                let (leads, named) = (number::<4>(chunk, at) as u32, usize::from(chunk[at + 7]));
                let end = (at + HEAD_BYTES + named).min(CHUNK_BYTES);
                if leads != 0 {
                    match Name::parse(&chunk[at + HEAD_BYTES..end]) {
                        Some(name) => _ = names.insert(name, leads),
                        None => strange += 1,
                    }
                }
                if length < HEAD_BYTES {
                    break;
                }
                at += length;
            }
        }
    }
    Ok(Body::Directory(names, strange))
}
