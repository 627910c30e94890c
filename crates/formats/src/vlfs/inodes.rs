//! Attributes of objects: reading, storing, making and giving up.

use super::ondisk::attributes::{Inode, differences};
use super::ondisk::{ObjectNr, all_of, attributes_of, blocks_for};
use super::volume::Volume;
use seekless_engine::objects::ATTRIBUTE_BYTES;
use seekless_engine::units::{BLOCK_SECTORS, SECTOR_BYTES};
use seekless_fs::call::{Attr, Errno, FileKind, Ino};
use seekless_fs::tx::{Field, PageKind, Stop, Tx};

/// The number of an object that calls name.
///
/// # Errors
/// [`Errno::Stale`].
pub fn number(vol: &Volume, ino: Ino) -> Result<ObjectNr, Stop> {
    vol.number(ino).ok_or(Errno::Stale.into())
}

/// The attributes of an object, whatever they are.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn raw(tx: &mut dyn Tx, object: ObjectNr) -> Result<[u8; ATTRIBUTE_BYTES], Stop> {
    let part = tx.part(attributes_of(object), 0, SECTOR_BYTES, PageKind::Inodes)?;
    let mut bytes = [0; ATTRIBUTE_BYTES];
    bytes.copy_from_slice(&part[..ATTRIBUTE_BYTES]);
    Ok(bytes)
}

/// Stores attributes: the bytes that differ.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn store(tx: &mut dyn Tx, object: ObjectNr, new: &[u8; ATTRIBUTE_BYTES]) -> Result<(), Stop> {
    let old = raw(tx, object)?;
    for (at, bytes) in differences(&old, new) {
        tx.set(attributes_of(object), at, bytes);
    }
    Ok(())
}

/// An object that exists, and its number.
///
/// # Errors
/// [`Errno::Stale`] if there is none; those of [`Tx::page`].
pub fn get(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<(ObjectNr, Inode), Stop> {
    let object = number(vol, ino)?;
    let inode = Inode::decode(&raw(tx, object)?);
    match inode.kind() {
        Some(_) => Ok((object, inode)),
        None => Err(Errno::Stale.into()),
    }
}

/// A directory.
///
/// # Errors
/// [`Errno::NotDir`]; those of [`get`].
pub fn directory(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<(ObjectNr, Inode), Stop> {
    let (object, inode) = get(tx, vol, ino)?;
    if inode.is_directory() { Ok((object, inode)) } else { Err(Errno::NotDir.into()) }
}

/// A file.
///
/// # Errors
/// [`Errno::IsDir`], [`Errno::Inval`]; those of [`get`].
pub fn file(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<(ObjectNr, Inode), Stop> {
    let (object, inode) = get(tx, vol, ino)?;
    match inode.kind() {
        Some(FileKind::File) => Ok((object, inode)),
        Some(FileKind::Directory) => Err(Errno::IsDir.into()),
        _ => Err(Errno::Inval.into()),
    }
}

/// Stores the attributes of an object.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn put(tx: &mut dyn Tx, object: ObjectNr, inode: &Inode) -> Result<(), Stop> {
    store(tx, object, &inode.encode())
}

/// Stores the attributes of an object that there was not: the volume holds nothing there.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn put_new(tx: &mut dyn Tx, object: ObjectNr, inode: &Inode) -> Result<(), Stop> {
    tx.hole(attributes_of(object), PageKind::Inodes);
    put(tx, object, inode)
}

/// Gives up an object with all that it has.
pub fn give_up(tx: &mut dyn Tx, object: ObjectNr) {
    tx.cut(all_of(object));
}

/// Where the attributes lie, for those who wait for them.
pub fn field(object: ObjectNr) -> Field {
    Field::new(attributes_of(object), 0, ATTRIBUTE_BYTES)
}

/// The attributes as calls see them. The drive knows what space a file takes; they tell what the
/// size takes without holes.
pub fn attr(object: ObjectNr, inode: &Inode) -> Attr {
    let blocks = if inode.has_content() { blocks_for(inode.size) } else { 0 };
    Attr {
        ino: Ino::from(object),
        generation: inode.generation,
        kind: inode.kind().unwrap_or(FileKind::File),
        mode: inode.mode & 0o7777,
        links: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        sectors: blocks * BLOCK_SECTORS,
        device: inode.device,
        atime: inode.atime,
        mtime: inode.mtime,
        ctime: inode.ctime,
        btime: inode.btime,
    }
}
