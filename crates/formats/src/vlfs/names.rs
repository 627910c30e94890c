//! Directories: names in chunks of a sector, with an index in memory once there are several blocks.
//!
//! A chunk that was never written is empty. Neither `.` nor `..` is stored: the attributes of a
//! directory name the one above it. Directories grow by blocks and never shrink, and entries do not
//! move, so the offset of an entry serves as a cookie of listings.

use super::ondisk::attributes::Inode;
use super::ondisk::{MOST_DIRECTORY_BLOCKS, ObjectNr, block_of, blocks_for, kinds};
use super::volume::Volume;
use crate::tree::chunk::{self, Damaged};
use crate::tree::index;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::call::{Errno, FileKind, Ino};
use seekless_fs::tx::{Field, PageKind, SECTOR_CONTENT, Stop, Tx};
use std::ops::{ControlFlow, Range};

/// Blocks that are read together.
const AHEAD: u64 = 48;

/// A directory and its attributes.
pub type Dir<'a> = (ObjectNr, &'a Inode);

/// An entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub object: ObjectNr,
    /// The number of its kind.
    pub kind: u8,
    /// Offset of the entry in the directory.
    pub at: u64,
}

/// Where the chunk that holds an offset of a directory lies: its block, and its first byte there.
fn place_of(dir: ObjectNr, at: u64) -> (u64, usize) {
    let within = at as usize % BLOCK_BYTES;
    (block_of(dir, at / BLOCK_BYTES as u64), within - within % SECTOR_BYTES)
}

/// A chunk that was never written, as its entries read.
const EMPTY: [u8; SECTOR_CONTENT] = {
    let mut bytes = [0; SECTOR_CONTENT];
    let length = (SECTOR_CONTENT as u16).to_le_bytes();
    (bytes[4], bytes[5]) = (length[0], length[1]);
    bytes
};

/// The content of a chunk.
fn content(tx: &mut dyn Tx, dir: ObjectNr, at: u64) -> Result<&[u8], Stop> {
    let (block, within) = place_of(dir, at);
    Ok(filled(tx.part(block, within, SECTOR_BYTES, PageKind::Directory)?))
}

/// The entries of a sector.
fn filled(sector: &[u8]) -> &[u8] {
    let is_empty = sector[..chunk::HEADER] == [0; chunk::HEADER]
        && sector[..SECTOR_CONTENT].iter().all(|&byte| byte == 0);
    if is_empty { &EMPTY } else { &sector[..SECTOR_CONTENT] }
}

fn blocks(dir: Dir<'_>) -> Result<u64, Stop> {
    let blocks = blocks_for(dir.1.size);
    if blocks > MOST_DIRECTORY_BLOCKS { Err(Errno::Io.into()) } else { Ok(blocks) }
}

/// Shows the chunks of some blocks, with the offset of each, until `look` breaks off.
fn scan<T>(
    tx: &mut dyn Tx,
    dir: ObjectNr,
    range: Range<u64>,
    mut look: impl FnMut(u64, &[u8]) -> Result<ControlFlow<T>, Stop>,
) -> Result<Option<T>, Stop> {
    for index in range.clone() {
        let page = match tx.page(block_of(dir, index), PageKind::Directory) {
            Ok(page) => page,
            Err(stop) => {
                for ahead in index + 1..range.end.min(index + AHEAD) {
                    tx.expect(block_of(dir, ahead), PageKind::Directory);
                }
                return Err(stop);
            }
        };
        for (number, sector) in page.chunks_exact(SECTOR_BYTES).enumerate() {
            let at = index * BLOCK_BYTES as u64 + (number * SECTOR_BYTES) as u64;
            if let ControlFlow::Break(found) = look(at, filled(sector))? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// True if the directory has an index that covers it, after building it if that is worth it.
fn indexed(tx: &mut dyn Tx, vol: &mut Volume, dir: Dir<'_>) -> Result<bool, Stop> {
    let blocks = blocks(dir)?;
    if blocks < 2 {
        return Ok(false);
    }
    let ino = Ino::from(dir.0);
    let covered = vol.names().begin(ino).covered;
    for block in covered..blocks {
        let (mut names, mut rooms) = (Vec::new(), Vec::new());
        scan(tx, dir.0, block..blocks.min(block + AHEAD), |at, chunk| {
            if at / BLOCK_BYTES as u64 > block {
                return Ok(ControlFlow::Break(()));
            }
            for entry in chunk::entries(chunk) {
                let entry = entry?;
                if entry.ino != 0 {
                    names.push((index::hash(entry.name), at + entry.at as u64));
                }
            }
            rooms.push(((at / SECTOR_BYTES as u64) as u32, chunk::room(chunk)? as u16));
            Ok(ControlFlow::Continue(()))
        })?;
        vol.names().grown(names.len());
        let index = vol.names().begin(ino);
        names.into_iter().for_each(|(hash, at)| index.set_name(hash, at, true));
        rooms.into_iter().for_each(|(chunk, room)| _ = index.set_room(chunk, room));
        index.covered = block + 1;
    }
    Ok(true)
}

fn found(at: u64, entry: &chunk::Entry<'_>) -> Found {
    Found { object: entry.ino, kind: entry.kind, at: at + entry.at as u64 }
}

/// The entry of a name.
///
/// # Errors
/// Those of [`Tx::page`]; [`Errno::Io`] if the name may stand in a damaged chunk.
pub fn find(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: Dir<'_>,
    name: &[u8],
) -> Result<Option<Found>, Stop> {
    match indexed(tx, vol, dir) {
        Ok(true) => return find_by_index(tx, vol, dir.0, name),
        // The index of a damaged directory would miss names.
        Err(Stop::Refused(_)) => vol.forget(Ino::from(dir.0)),
        not => {
            not?;
        }
    }
    let mut damage = None;
    let blocks = blocks(dir)?;
    let found = scan(tx, dir.0, 0..blocks, |at, chunk| match chunk::find(chunk, name) {
        Ok(Some(entry)) => Ok(ControlFlow::Break(found(at, &entry))),
        Ok(None) => Ok(ControlFlow::Continue(())),
        Err(Damaged) => {
            damage = Some(Damaged);
            Ok(ControlFlow::Continue(()))
        }
    })?;
    match (found, damage) {
        (None, Some(damaged)) => Err(damaged.into()),
        (found, _) => Ok(found),
    }
}

fn find_by_index(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: ObjectNr,
    name: &[u8],
) -> Result<Option<Found>, Stop> {
    let mut after = 0;
    loop {
        let index = vol.names().begin(Ino::from(dir));
        let Some(at) = index.place(index::hash(name), after) else { return Ok(None) };
        let first = at - at % SECTOR_BYTES as u64;
        let entry = chunk::entry(content(tx, dir, first)?, (at - first) as usize)?;
        if entry.ino != 0 && entry.name == name {
            return Ok(Some(found(first, &entry)));
        }
        after = at + 1;
    }
}

/// True if a directory has no names.
///
/// # Errors
/// Those of [`find`].
pub fn is_empty(tx: &mut dyn Tx, vol: &mut Volume, dir: Dir<'_>) -> Result<bool, Stop> {
    if indexed(tx, vol, dir)? {
        return Ok(vol.names().begin(Ino::from(dir.0)).is_empty());
    }
    let blocks = blocks(dir)?;
    let other = scan(tx, dir.0, 0..blocks, |_, chunk| {
        for entry in chunk::entries(chunk) {
            if entry?.ino != 0 {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(other.is_none())
}

/// The offset of a chunk with room for a name.
fn room(tx: &mut dyn Tx, vol: &mut Volume, dir: Dir<'_>, need: usize) -> Result<Option<u64>, Stop> {
    if indexed(tx, vol, dir)? {
        let chunk = vol.names().begin(Ino::from(dir.0)).chunk_with(need);
        return Ok(chunk.map(|chunk| u64::from(chunk) * SECTOR_BYTES as u64));
    }
    let blocks = blocks(dir)?;
    scan(tx, dir.0, 0..blocks, |at, chunk| {
        let fits = chunk::has_room(chunk, need)?;
        Ok(if fits { ControlFlow::Break(at) } else { ControlFlow::Continue(()) })
    })
}

/// Where a name leads.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The object.
    pub object: ObjectNr,
    /// Its kind.
    pub kind: FileKind,
}

/// Adds a name that is not there. The directory may grow; the caller stores its attributes.
/// Returns where the name stands.
///
/// # Errors
/// [`Errno::NoSpc`] if the directory is as long as it may be; those of [`find`].
pub fn add(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (dir, inode): (ObjectNr, &mut Inode),
    name: &[u8],
    target: Target,
) -> Result<Field, Stop> {
    let at = match room(tx, vol, (dir, inode), chunk::space(name.len()))? {
        Some(at) => at,
        None => grow(tx, vol, (dir, inode))?,
    };
    let kind = kinds::number(target.kind);
    let added = chunk::add(content(tx, dir, at)?, target.object, kind, name)?.ok_or(Errno::Io)?;
    let (block, within) = place_of(dir, at);
    let (offset, bytes) = &added.entry;
    tx.set(block, within + offset, bytes);
    if let Some((offset, bytes)) = &added.before {
        tx.set(block, within + offset, bytes);
    }
    tx.belongs(block, Ino::from(dir));
    if let Some(index) = vol.index(Ino::from(dir)) {
        index.set_name(index::hash(name), at + added.at as u64, true);
        vol.names().grown(1);
    }
    note_room(tx, vol, dir, at)?;
    Ok(Field::new(block, within + added.at, chunk::HEADER))
}

/// Notes in the index what room a chunk has now.
fn note_room(tx: &mut dyn Tx, vol: &mut Volume, dir: ObjectNr, at: u64) -> Result<(), Stop> {
    if let Some(index) = vol.index(Ino::from(dir)) {
        let room = chunk::room(content(tx, dir, at)?)?;
        index.set_room((at / SECTOR_BYTES as u64) as u32, room as u16);
    }
    Ok(())
}

/// Adds a block, of which nothing is written. Returns its offset.
fn grow(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (dir, inode): (ObjectNr, &mut Inode),
) -> Result<u64, Stop> {
    let blocks = blocks((dir, inode))?;
    if blocks == MOST_DIRECTORY_BLOCKS {
        return Err(Errno::NoSpc.into());
    }
    tx.hole(block_of(dir, blocks), PageKind::Directory);
    let at = blocks * BLOCK_BYTES as u64;
    inode.size = at + BLOCK_BYTES as u64;
    if let Some(index) = vol.index(Ino::from(dir))
        && index.covered == blocks
    {
        let first = (at / SECTOR_BYTES as u64) as u32;
        let chunks = (BLOCK_BYTES / SECTOR_BYTES) as u32;
        for chunk in first..first + chunks {
            index.set_room(chunk, SECTOR_CONTENT as u16);
        }
        index.covered = blocks + 1;
    }
    Ok(at)
}

/// Removes a name, and returns where it stood.
///
/// # Errors
/// Those of [`find`].
pub fn remove(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: ObjectNr,
    name: &[u8],
    found: Found,
) -> Result<Field, Stop> {
    let at = found.at - found.at % SECTOR_BYTES as u64;
    let offset = (found.at - at) as usize;
    let gone = chunk::remove(content(tx, dir, at)?, offset)?.ok_or(Errno::Io)?;
    let (block, within) = place_of(dir, at);
    for (offset, bytes) in [Some(gone.clear), gone.before].into_iter().flatten() {
        tx.set(block, within + offset, &bytes);
    }
    tx.belongs(block, Ino::from(dir));
    if let Some(index) = vol.index(Ino::from(dir)) {
        index.set_name(index::hash(name), found.at, false);
    }
    note_room(tx, vol, dir, at)?;
    Ok(Field::new(block, within + offset, chunk::HEADER))
}

/// Makes an entry lead to another object, and returns where it stands.
///
/// # Errors
/// Those of [`find`].
pub fn replace(
    tx: &mut dyn Tx,
    dir: ObjectNr,
    found: Found,
    target: Target,
) -> Result<Field, Stop> {
    let at = found.at - found.at % SECTOR_BYTES as u64;
    let offset = (found.at - at) as usize;
    let entry = chunk::entry(content(tx, dir, at)?, offset)?;
    if entry.ino != found.object {
        return Err(Errno::Io.into());
    }
    let kind = kinds::number(target.kind);
    let bytes = chunk::encode(target.object, entry.length, kind, entry.name);
    let (block, within) = place_of(dir, at);
    tx.set(block, within + offset, &bytes[..chunk::HEADER]);
    tx.belongs(block, Ino::from(dir));
    Ok(Field::new(block, within + offset, chunk::HEADER))
}

/// The entries of some blocks from an offset on, in order, as long as `take` returns true for them.
///
/// # Errors
/// Those of [`find`].
pub fn list(
    tx: &mut dyn Tx,
    dir: Dir<'_>,
    from: u64,
    most_blocks: u64,
    mut take: impl FnMut(Found, &[u8]) -> bool,
) -> Result<(), Stop> {
    let first = from / BLOCK_BYTES as u64;
    let end = blocks(dir)?.min(first.saturating_add(most_blocks));
    scan(tx, dir.0, first..end, |at, chunk| {
        if at + SECTOR_BYTES as u64 <= from {
            return Ok(ControlFlow::Continue(()));
        }
        for entry in chunk::entries(chunk) {
            let entry = entry?;
            let found = found(at, &entry);
            if entry.ino != 0 && found.at >= from && !take(found, entry.name) {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
    .map(|_| ())
}
