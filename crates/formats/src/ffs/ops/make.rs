//! `make`: new files, directories, symbolic links and special files.

use crate::ffs::inodes;
use crate::ffs::names::arrivals;
use crate::ffs::names::dirs::{self, Entry};
use crate::ffs::ondisk::entries::type_byte;
use crate::ffs::ondisk::format::MOST_LINKS;
use crate::ffs::ondisk::inode::{DIRECT, Inode, SHORT_SYMLINK, type_bits};
use crate::ffs::space::alloc::inode as inode_alloc;
use crate::ffs::space::map::{self, Slot};
use crate::ffs::space::tail::Growing;
use crate::ffs::volume::Volume;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_fs::call::{
    Attr, Credentials, Errno, FileKind, Ino, MOST_NAME, MOST_SYMLINK, New, Timestamp,
};
use seekless_fs::tx::{Field, Need, PageKind, Stop, Tx, Why};
use smallvec::{SmallVec, smallvec};

/// What is made.
#[derive(Clone, Copy, Debug)]
pub struct Make<'a> {
    /// In this directory.
    pub dir: Ino,
    /// With this name.
    pub name: &'a [u8],
    /// Its kind.
    pub what: &'a New,
    /// Its permissions; the umask has been applied.
    pub mode: u16,
}

/// Makes an object.
///
/// # Errors
/// [`Errno::Exist`], [`Errno::NoEnt`], [`Errno::NotDir`], [`Errno::MLink`],
/// [`Errno::NameTooLong`]; [`Stop::NoRoom`]; those of [`Tx::page`].
pub fn make(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    make: Make<'_>,
) -> Result<Attr, Stop> {
    let Make { dir, name, what, .. } = make;
    let old_dir = inodes::directory(tx, vol, dir)?;
    check(&make, &old_dir)?;
    if dirs::find(tx, vol, (dir, &old_dir), name)?.is_some() {
        return Err(Errno::Exist.into());
    }
    let kind = what.kind();
    let (number, before) = inode_alloc::allocate(tx, vol, dir, kind)?;
    let ino = Ino::from(number);
    let mut inode = new_inode(tx.now(), who, &make, &old_dir);
    inode.generation = generation(before.generation, tx.now());
    fill(tx, vol, who, (ino, &mut inode), &make)?;
    inodes::init(tx, vol, ino, &inode)?;
    let mut new_dir = Inode { mtime: tx.now(), ctime: tx.now(), ..old_dir.clone() };
    let why = Why::Link;
    let mut needs: SmallVec<[Need; 2]> = smallvec![Need { field: inodes::field(vol, number), why }];
    if kind == FileKind::Directory {
        new_dir.links += 1;
        vol.set_parent(ino, Some(dir));
        if !planted(PlantedBug::ParentCountLate) {
            needs.push(Need { field: inodes::links_field(vol, dir)?, why });
        }
    }
    if planted(PlantedBug::EntryBeforeInode) {
        needs.remove(0);
    }
    let entry = Entry { ino: number, kind: type_byte(kind), needs: &needs };
    let entry = dirs::add(tx, vol, (dir, &mut new_dir), name, entry, who)?;
    if kind == FileKind::Directory && tx.guards() {
        arrivals::arrives(tx, vol, ino, entry)?;
    }
    inodes::put(tx, vol, dir, &old_dir, &new_dir)?;
    added(tx, vol, (dir, &old_dir, &new_dir), entry)?;
    Ok(inodes::attr(ino, &inode))
}

/// A name was added: it is written at once, and so is the directory if it has grown for it.
pub(super) fn added(
    tx: &mut dyn Tx,
    vol: &Volume,
    (dir, old, new): (Ino, &Inode, &Inode),
    entry: Field,
) -> Result<(), Stop> {
    tx.writes_at_once(entry);
    if old.sectors != new.sectors {
        tx.writes_at_once(inodes::field(vol, vol.number(dir)?));
    }
    Ok(())
}

fn check(make: &Make<'_>, dir: &Inode) -> Result<(), Errno> {
    if make.name.len() > MOST_NAME {
        return Err(Errno::NameTooLong);
    }
    match make.what {
        New::Directory if dir.links >= MOST_LINKS => Err(Errno::MLink),
        New::Symlink(text) if text.is_empty() => Err(Errno::NoEnt),
        New::Symlink(text) if text.len() > MOST_SYMLINK => Err(Errno::NameTooLong),
        _ => Ok(()),
    }
}

/// A generation that differs from the last one, also if a crash has lost that.
fn generation(old: u32, now: Timestamp) -> u32 {
    if planted(PlantedBug::GenerationKept) {
        return old.max(1);
    }
    let mixed = (now as u64 ^ u64::from(old).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let new = (mixed >> 32) as u32;
    if new == old || new == 0 { old.wrapping_add(1).max(1) } else { new }
}

fn new_inode(now: Timestamp, who: Credentials, make: &Make<'_>, dir: &Inode) -> Inode {
    let kind = make.what.kind();
    let inherits = dir.mode & super::attr::SET_GID != 0;
    let mut mode = make.mode & 0o7777;
    if inherits && kind == FileKind::Directory {
        mode |= super::attr::SET_GID;
    }
    Inode {
        mode: type_bits(kind) | mode,
        links: if kind == FileKind::Directory { 2 } else { 1 },
        uid: who.uid,
        gid: if inherits { dir.gid } else { who.gid },
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        ..Inode::default()
    }
}

/// Gives the object the content it has from the start.
fn fill(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    (ino, inode): (Ino, &mut Inode),
    make: &Make<'_>,
) -> Result<(), Stop> {
    match make.what {
        New::Directory => directory(tx, vol, who, (ino, inode), make.dir),
        New::Symlink(text) if text.len() <= SHORT_SYMLINK => {
            inode.size = text.len() as u64;
            let mut area = [0; SHORT_SYMLINK];
            area[..text.len()].copy_from_slice(text);
            for (index, word) in area.chunks_exact(4).enumerate() {
                let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                match index.checked_sub(DIRECT) {
                    None => inode.direct[index] = word,
                    Some(index) => inode.indirect[index] = word,
                }
            }
            Ok(())
        }
        New::Symlink(text) => long_symlink(tx, vol, who, (ino, inode), text),
        New::CharDevice(number) | New::BlockDevice(number) => {
            inode.direct[0] = *number;
            Ok(())
        }
        New::File | New::Fifo | New::Socket => Ok(()),
    }
}

fn directory(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    (ino, inode): (Ino, &mut Inode),
    parent: Ino,
) -> Result<(), Stop> {
    let wish = map::wish(tx, vol, (ino, inode), 0, 1, who)?;
    let kind = PageKind::Directory;
    let at = Growing { ino, inode, who, kind }.add(tx, vol, Slot::Direct(0), 1, wish)?;
    inode.size = vol.geometry.fragment_bytes() as u64;
    let place = vol.geometry.place_of(at);
    let code = type_byte(FileKind::Directory);
    dirs::init(tx, vol, place, ino as u32, parent as u32, code);
    Ok(())
}

fn long_symlink(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    (ino, inode): (Ino, &mut Inode),
    text: &[u8],
) -> Result<(), Stop> {
    let wish = map::wish(tx, vol, (ino, inode), 0, 1, who)?;
    inode.size = text.len() as u64;
    let count = inode.block_fragments(0, &vol.geometry);
    let kind = PageKind::Data;
    let at = Growing { ino, inode, who, kind }.add(tx, vol, Slot::Direct(0), count, wish)?;
    let place = vol.geometry.place_of(at);
    tx.set(place.block, place.at, text);
    // The text is the object, not content that may come later.
    let field = Field::new(place.block, place.at, text.len());
    tx.content(field, true);
    vol.need(ino, Need { field, why: Why::Content });
    Ok(())
}
