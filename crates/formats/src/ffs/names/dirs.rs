//! Directories: find, add, change and remove names, with an index once there are several blocks.
//!
//! A directory grows by fragments, then by blocks, formatted as empty chunks throughout, and never
//! shrinks. An entry stays at its offset, so that serves as the cookie of listings.

use crate::ffs::inodes;
use crate::ffs::names::arrivals;
use crate::ffs::ondisk::entries;
use crate::ffs::ondisk::geometry::Place;
use crate::ffs::ondisk::inode::{DIRECT, Inode};
use crate::ffs::space::free;
use crate::ffs::space::map;
use crate::ffs::space::tail::Growing;
use crate::ffs::volume::Volume;
use crate::tree::chunk::{self, Damaged};
use crate::tree::index;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Credentials, Errno, Ino};
use seekless_fs::tx::{Field, Need, PageKind, Role, SECTOR_CONTENT, Stop, Tx};
use smallvec::SmallVec;

/// Bytes of the number of the inode, with which an entry begins.
const INO_BYTES: usize = 4;
/// Offset of the length in an entry.
const LENGTH_AT: usize = 4;
/// Offset of the kind in an entry.
const KIND_AT: usize = 6;

/// Blocks that are read together when an index is built.
const READ_AHEAD: u64 = 48;

impl From<Damaged> for Stop {
    fn from(_: Damaged) -> Stop {
        Errno::Io.into()
    }
}

/// An entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub ino: Ino,
    /// Its type byte, as in [`entries`].
    pub kind: u8,
    /// Offset of the entry in the directory.
    pub at: u64,
}

/// A directory and its inode.
pub type Dir<'a> = (Ino, &'a Inode);

/// Where the chunk that holds an offset of a directory lies.
fn chunk_place(tx: &mut dyn Tx, vol: &Volume, dir: Dir<'_>, at: u64) -> Result<Place, Stop> {
    let block_bytes = vol.geometry.block_bytes() as u64;
    let address = map::address(tx, vol, dir.1, at / block_bytes)?;
    if address == 0 {
        return Err(Errno::Io.into());
    }
    let place = vol.geometry.place_of(address);
    let within = (at % block_bytes) as usize / SECTOR_BYTES * SECTOR_BYTES;
    let at = place.at + within;
    if at + SECTOR_BYTES > vol.geometry.block_bytes() {
        return Err(Errno::Io.into());
    }
    Ok(Place { at, ..place })
}

/// The content of a chunk.
fn content(tx: &mut dyn Tx, place: Place) -> Result<&[u8], Stop> {
    let sector = tx.part(place.block, place.at, SECTOR_BYTES, PageKind::Directory)?;
    Ok(&sector[..SECTOR_CONTENT])
}

/// Blocks of a directory.
fn blocks(vol: &Volume, dir: Dir<'_>) -> u64 {
    dir.1.size_blocks(&vol.geometry)
}

/// What a scan does with a damaged chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// Ends with the error.
    Stops,
    /// Looks at the other chunks, and ends with the error if they give no result.
    Passes,
}

/// Calls `look` with each chunk of the blocks `range`, and the number of the chunk, until it gives
/// a result.
fn scan<T>(
    tx: &mut dyn Tx,
    vol: &Volume,
    dir: Dir<'_>,
    range: std::ops::Range<u64>,
    damage: Damage,
    mut look: impl FnMut(u64, &[u8]) -> Result<Option<T>, Stop>,
) -> Result<Option<T>, Stop> {
    let mut failed = None;
    let per_block = vol.geometry.sectors_per_block() as u64;
    let chunks = dir.1.size / SECTOR_BYTES as u64;
    for block in range {
        let first = block * per_block;
        let place = chunk_place(tx, vol, dir, first * SECTOR_BYTES as u64)?;
        let numbers = first..chunks.min(first + per_block);
        let length = (numbers.end - first) as usize * SECTOR_BYTES;
        if place.at + length > vol.geometry.block_bytes() {
            return Err(Errno::Io.into());
        }
        match tx.part(place.block, place.at, length, PageKind::Directory) {
            Err(Stop::Refused(_)) => {}
            Err(stop) => return Err(stop),
            Ok(part) => {
                for (number, sector) in numbers.zip(part.chunks_exact(SECTOR_BYTES)) {
                    if let Some(found) = look(number, &sector[..SECTOR_CONTENT])? {
                        return Ok(Some(found));
                    }
                }
                continue;
            }
        }
        // A chunk is damaged: one by one.
        for number in numbers {
            let at = place.at + (number - first) as usize * SECTOR_BYTES;
            match content(tx, Place { at, ..place }) {
                Ok(chunk) => {
                    if let Some(found) = look(number, chunk)? {
                        return Ok(Some(found));
                    }
                }
                Err(stop @ Stop::Refused(_)) if damage == Damage::Passes => failed = Some(stop),
                Err(stop) => return Err(stop),
            }
        }
    }
    failed.map_or(Ok(None), Err)
}

/// True if the directory has an index that covers it, after building it if that is worth it.
fn indexed(tx: &mut dyn Tx, vol: &mut Volume, dir: Dir<'_>) -> Result<bool, Stop> {
    let blocks = blocks(vol, dir);
    if blocks < 2 {
        return Ok(false);
    }
    let covered = vol.names().begin(dir.0).covered;
    if covered < blocks {
        vol.build_index(dir.0);
        for block in covered..blocks {
            if let Err(stop) = build(tx, vol, dir, block) {
                expect(tx, vol, dir, block + 1..blocks.min(block + READ_AHEAD));
                return Err(stop);
            }
        }
    }
    Ok(true)
}

/// Adds a block of the directory to its index.
fn build(tx: &mut dyn Tx, vol: &mut Volume, dir: Dir<'_>, block: u64) -> Result<(), Stop> {
    let mut names = Vec::new();
    let mut rooms = Vec::new();
    scan(tx, vol, dir, block..block + 1, Damage::Stops, |number, chunk| {
        for entry in chunk::entries(chunk) {
            let entry = entry?;
            if entry.ino != 0 {
                let at = number * SECTOR_BYTES as u64 + entry.at as u64;
                names.push((index::hash(entry.name), at));
            }
        }
        rooms.push((number as u32, chunk::room(chunk)? as u16));
        Ok(None::<()>)
    })?;
    vol.names().grown(names.len());
    let index = vol.names().begin(dir.0);
    for (hash, at) in names {
        index.set_name(hash, at, true);
    }
    for (chunk, room) in rooms {
        index.set_room(chunk, room);
    }
    index.covered = block + 1;
    Ok(())
}

/// Notes blocks of a directory that will be wanted.
fn expect(tx: &mut dyn Tx, vol: &Volume, dir: Dir<'_>, blocks: std::ops::Range<u64>) {
    for block in blocks {
        let Ok(address) = map::address(tx, vol, dir.1, block) else { return };
        if address != 0 {
            tx.expect(vol.geometry.block_of(address), PageKind::Directory);
        }
    }
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
        Ok(true) => return find_by_index(tx, vol, dir, name),
        // The index of a damaged directory would miss names.
        Err(Stop::Refused(_)) => vol.names().drop_index(dir.0),
        not => {
            not?;
        }
    }
    scan(tx, vol, dir, 0..blocks(vol, dir), Damage::Passes, |number, chunk| {
        Ok(chunk::find(chunk, name)?.map(|entry| found(number, entry)))
    })
}

fn found(number: u64, entry: chunk::Entry<'_>) -> Found {
    let at = number * SECTOR_BYTES as u64 + entry.at as u64;
    Found { ino: Ino::from(entry.ino), kind: entry.kind, at }
}

fn find_by_index(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: Dir<'_>,
    name: &[u8],
) -> Result<Option<Found>, Stop> {
    let mut after = 0;
    loop {
        let places = vol.names().begin(dir.0);
        let Some(at) = places.place(index::hash(name), after) else { return Ok(None) };
        let place = chunk_place(tx, vol, dir, at)?;
        let within = at as usize % SECTOR_BYTES;
        match chunk::entry(content(tx, place)?, within)? {
            entry if entry.ino != 0 && entry.name == name => {
                return Ok(Some(found(at / SECTOR_BYTES as u64, entry)));
            }
            _ => after = at + 1,
        }
    }
}

/// True if the directory has no names but `.` and `..`.
///
/// # Errors
/// Those of [`find`].
pub fn is_empty(tx: &mut dyn Tx, vol: &mut Volume, dir: Dir<'_>) -> Result<bool, Stop> {
    if indexed(tx, vol, dir)? {
        return Ok(vol.names().begin(dir.0).len() <= 2);
    }
    let other = scan(tx, vol, dir, 0..blocks(vol, dir), Damage::Stops, |_, chunk| {
        for entry in chunk::entries(chunk) {
            let entry = entry?;
            if entry.ino != 0 && !entries::is_dots(entry.name) {
                return Ok(Some(()));
            }
        }
        Ok(None)
    })?;
    Ok(other.is_none())
}

/// The number of a chunk with room for a name.
fn room(tx: &mut dyn Tx, vol: &mut Volume, dir: Dir<'_>, need: usize) -> Result<Option<u64>, Stop> {
    if indexed(tx, vol, dir)? {
        return Ok(vol.names().begin(dir.0).chunk_with(need).map(u64::from));
    }
    scan(tx, vol, dir, 0..blocks(vol, dir), Damage::Stops, |number, chunk| {
        Ok(chunk::has_room(chunk, need)?.then_some(number))
    })
}

/// A name that is added, or the object that a name gets.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The object.
    pub ino: u32,
    /// Its type byte.
    pub kind: u8,
    /// What must be on the disk before the name leads to it.
    pub needs: &'a [Need],
}

/// Adds a name that is not there, and returns where it leads to its object. The directory may grow;
/// the caller writes its inode back.
///
/// # Errors
/// [`Stop::NoRoom`]; those of [`find`].
pub fn add(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (dir, inode): (Ino, &mut Inode),
    name: &[u8],
    Entry { ino, kind, needs }: Entry<'_>,
    who: Credentials,
) -> Result<Field, Stop> {
    let number = match room(tx, vol, (dir, inode), chunk::space(name.len()))? {
        Some(number) => number,
        None => grow(tx, vol, (dir, inode), who)?,
    };
    let at = number * SECTOR_BYTES as u64;
    let place = chunk_place(tx, vol, (dir, inode), at)?;
    let added = chunk::add(content(tx, place)?, ino, kind, name)?.ok_or(Errno::Io)?;
    let (offset, bytes) = &added.entry;
    let field = Field::new(place.block, place.at + offset, INO_BYTES);
    let guarded = old_slot(tx, place, &added)?;
    if let Some((offset, bytes)) = &added.before {
        tx.set(place.block, place.at + offset, bytes);
    }
    tx.set(place.block, place.at + offset, bytes);
    let mut needs: SmallVec<[Need; 4]> = SmallVec::from_slice(needs);
    // The same name may still be leaving another place: the directory never shows it twice. A place
    // within this one changes together with it.
    let (hash, own) = (index::hash(name), guarded.as_ref().map_or(field, |(slot, _)| *slot));
    needs.extend(arrivals::others_gone(tx, vol, (dir, hash), own)?);
    match guarded {
        Some((slot, old)) => tx.guard(&[(slot, &old)], &needs, Role::Replaces),
        None => tx.guard(&[(field, &[0; INO_BYTES])], &needs, Role::Replaces),
    }
    tx.belongs(place.block, dir);
    vol.names_change(Ino::from(ino), dir);
    vol.set_name(dir, index::hash(name), at + added.at as u64, true);
    note_room(tx, vol, dir, place, number)?;
    Ok(field)
}

/// Bytes of an entry, and what they were.
type OldSlot = (Field, SmallVec<[u8; 64]>);

/// The bytes of the free entry in whose place a new one comes, if some of them wait for something:
/// the disk may still show the entry before, and must not show it with the new name.
fn old_slot(tx: &mut dyn Tx, place: Place, added: &chunk::Added) -> Result<Option<OldSlot>, Stop> {
    let length = chunk::entry(content(tx, place)?, added.at).map_or(0, |entry| entry.length);
    if added.before.is_some() || length == 0 {
        return Ok(None);
    }
    let slot = Field::new(place.block, place.at + added.at, length);
    if !tx.is_guarded(slot) || planted(PlantedBug::MergedGuardedRemoval) {
        return Ok(None);
    }
    let old = &content(tx, place)?[added.at..added.at + length];
    Ok(Some((slot, SmallVec::from_slice(old))))
}

/// Notes in the index what room a chunk has now.
fn note_room(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: Ino,
    place: Place,
    number: u64,
) -> Result<(), Stop> {
    if vol.names().get(dir).is_some() {
        let room = chunk::room(content(tx, place)?)?;
        vol.set_room(dir, number as u32, room as u16);
    }
    Ok(())
}

/// Adds empty chunks: a fragment of them while the directory is small, then a block. Returns the
/// number of the first one.
fn grow(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (dir, inode): (Ino, &mut Inode),
    who: Credentials,
) -> Result<u64, Stop> {
    let block_bytes = vol.geometry.block_bytes() as u64;
    free::behind_end(tx, vol, (dir, inode))?;
    let old = inode.size;
    let kind = PageKind::Directory;
    let index = old / block_bytes;
    let unit =
        if index < DIRECT as u64 { vol.geometry.fragment_bytes() as u64 } else { block_bytes };
    let size = (old + 1).next_multiple_of(unit);
    if !old.is_multiple_of(block_bytes) {
        Growing { ino: dir, inode, who, kind }.grow_tail(tx, vol, size)?;
    } else {
        let wish = map::wish(tx, vol, (dir, inode), index, 1, who)?;
        let slot = map::slot(tx, vol, dir, inode, index, wish)?;
        let count = (unit / vol.geometry.fragment_bytes() as u64) as u32;
        Growing { ino: dir, inode, who, kind }.add(tx, vol, slot, count, wish)?;
    }
    inode.size = size;
    inodes::body_changes(tx, vol, dir)?;
    let covers = vol.names().get(dir).is_some_and(|i| i.covered == old.div_ceil(block_bytes));
    for at in (old..size).step_by(SECTOR_BYTES) {
        let place = chunk_place(tx, vol, (dir, inode), at)?;
        tx.set(place.block, place.at, &chunk::empty());
        if covers {
            vol.set_room(dir, (at / SECTOR_BYTES as u64) as u32, SECTOR_CONTENT as u16);
        }
    }
    if covers {
        vol.set_covered(dir, size.div_ceil(block_bytes));
    }
    Ok(old / SECTOR_BYTES as u64)
}

/// Removes the name of an entry, and returns where it led to its object.
///
/// # Errors
/// Those of [`find`].
pub fn remove(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: Dir<'_>,
    name: &[u8],
    found: Found,
) -> Result<Field, Stop> {
    let place = chunk_place(tx, vol, dir, found.at)?;
    let within = found.at as usize % SECTOR_BYTES;
    let gone = chunk::remove(content(tx, place)?, within)?.ok_or(Errno::Io)?;
    let field = Field::new(place.block, place.at + within, INO_BYTES);
    // Old bytes that the disk may still show must stay those of an entry.
    let own = tx.is_guarded(field);
    let joins = gone.before.filter(|(at, _)| {
        let head = Field::new(place.block, place.at + at - LENGTH_AT, chunk::HEADER);
        !own && !tx.is_guarded(head)
    });
    let (offset, bytes) = gone.clear;
    tx.set(place.block, place.at + offset, &bytes);
    tx.guard(&[(field, &(found.ino as u32).to_le_bytes())], &[], Role::Replaces);
    if let Some((offset, bytes)) = joins {
        tx.set(place.block, place.at + offset, &bytes);
    }
    arrivals::departs(tx, vol, (dir.0, index::hash(name)), field)?;
    removed(tx, vol, dir, name, found)?;
    Ok(field)
}

/// Removes the name of an entry once something else is on the disk, and returns where it led to its
/// object. The place is not joined to its predecessor: until then the disk shows the old entry.
///
/// # Errors
/// Those of [`find`].
pub fn remove_after(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: Dir<'_>,
    name: &[u8],
    found: Found,
    needs: &[Need],
) -> Result<Field, Stop> {
    let place = chunk_place(tx, vol, dir, found.at)?;
    let within = found.at as usize % SECTOR_BYTES;
    let chunk = content(tx, place)?;
    let length = chunk::entry(chunk, within)?.length;
    let old: SmallVec<[u8; 64]> = SmallVec::from_slice(&chunk[within..within + length]);
    tx.set(place.block, place.at + within, &[0; INO_BYTES]);
    let all = Field::new(place.block, place.at + within, length);
    tx.guard(&[(all, &old)], needs, Role::Removes);
    let field = Field::new(place.block, place.at + within, INO_BYTES);
    arrivals::departs(tx, vol, (dir.0, index::hash(name)), field)?;
    removed(tx, vol, dir, name, found)?;
    Ok(field)
}

/// A name has been removed.
fn removed(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: Dir<'_>,
    name: &[u8],
    found: Found,
) -> Result<(), Stop> {
    let place = chunk_place(tx, vol, dir, found.at)?;
    tx.belongs(place.block, dir.0);
    // The volume may hold the name when another object has the inode: its sync removes it.
    vol.names_change(found.ino, dir.0);
    vol.set_name(dir.0, index::hash(name), found.at, false);
    note_room(tx, vol, dir.0, place, found.at / SECTOR_BYTES as u64)
}

/// Makes an entry name another object, and returns where it leads to that.
///
/// # Errors
/// Those of [`find`].
pub fn replace(
    tx: &mut dyn Tx,
    vol: &Volume,
    dir: Dir<'_>,
    found: Found,
    Entry { ino, kind, needs }: Entry<'_>,
) -> Result<Field, Stop> {
    let place = chunk_place(tx, vol, dir, found.at)?;
    let within = found.at as usize % SECTOR_BYTES;
    let entry = chunk::entry(content(tx, place)?, within)?;
    if Ino::from(entry.ino) != found.ino {
        return Err(Errno::Io.into());
    }
    let (length, hash) = ((entry.length as u16).to_le_bytes(), index::hash(entry.name));
    let (old, old_kind) = (entry.ino.to_le_bytes(), [entry.kind]);
    let number = ino.to_le_bytes();
    let head = [number[0], number[1], number[2], number[3], length[0], length[1], kind];
    tx.set(place.block, place.at + within, &head);
    let field = Field::new(place.block, place.at + within, INO_BYTES);
    let kind = Field::new(place.block, place.at + within + KIND_AT, 1);
    // The name may be so new that it waits itself for another place to lose it: this change takes
    // over from that one.
    let mut needs: SmallVec<[Need; 4]> = SmallVec::from_slice(needs);
    needs.extend(arrivals::others_gone(tx, vol, (dir.0, hash), field)?);
    tx.guard(&[(field, &old), (kind, &old_kind)], &needs, Role::Replaces);
    tx.belongs(place.block, dir.0);
    Ok(field)
}

/// Writes the first fragment of a new directory: `.`, `..` and empty chunks.
pub fn init(tx: &mut dyn Tx, vol: &Volume, place: Place, own: u32, parent: u32, kind: u8) {
    let dots = [(0, own, 12, &b"."[..]), (12, parent, SECTOR_CONTENT - 12, b"..")];
    for (at, ino, length, name) in dots {
        let bytes = chunk::encode(ino, length, kind, name);
        tx.set(place.block, place.at + at, &bytes);
    }
    for number in 1..vol.geometry.fragment_bytes() / SECTOR_BYTES {
        let at = place.at + number * SECTOR_BYTES;
        tx.set(place.block, at, &chunk::empty());
    }
}

/// The entries behind an offset, in order, as long as `take` returns true for them.
///
/// # Errors
/// Those of [`find`].
pub fn list(
    tx: &mut dyn Tx,
    vol: &Volume,
    dir: Dir<'_>,
    from: u64,
    most_blocks: u64,
    mut take: impl FnMut(Found, &[u8]) -> bool,
) -> Result<(), Stop> {
    let first = from / vol.geometry.block_bytes() as u64;
    let end = blocks(vol, dir).min(first.saturating_add(most_blocks));
    let chunk_from = from / SECTOR_BYTES as u64;
    let scanned = scan(tx, vol, dir, first..end, Damage::Stops, |number, chunk| {
        if number < chunk_from {
            return Ok(None);
        }
        for entry in chunk::entries(chunk) {
            let entry = entry?;
            let found = found(number, entry);
            if entry.ino != 0 && found.at >= from && !take(found, entry.name) {
                return Ok(Some(()));
            }
        }
        Ok(None)
    });
    if scanned.is_err() {
        expect(tx, vol, dir, first..end);
    }
    scanned.map(|_| ())
}

/// The parent of a directory.
///
/// # Errors
/// Those of [`find`].
pub fn parent(tx: &mut dyn Tx, vol: &mut Volume, dir: Dir<'_>) -> Result<Ino, Stop> {
    if let Some(parent) = vol.parent(dir.0) {
        return Ok(parent);
    }
    let up = parent_entry(tx, vol, dir)?;
    vol.learn_parent(dir.0, up.ino);
    Ok(up.ino)
}

/// The entry `..`, which stands in the first chunk.
///
/// # Errors
/// Those of [`find`].
pub fn parent_entry(tx: &mut dyn Tx, vol: &Volume, dir: Dir<'_>) -> Result<Found, Stop> {
    let place = chunk_place(tx, vol, dir, 0)?;
    let entry = chunk::find(content(tx, place)?, b"..")?.ok_or(Errno::Io)?;
    Ok(found(0, entry))
}
