//! Repair: rounds of check and of changes, one transaction for each finding, until a check finds
//! nothing. So a cut leaves a part of the repair, whole.
//!
//! What no name leads to is given up; there is no `lost+found`. Without a root directory nothing
//! can be told from what is free, so such a file system is not repaired.

use super::check::check;
use super::finding::{BadEntry, Finding};
use crate::error::FsError;
use crate::report::{self, Repaired};
use crate::tree::chunk;
use crate::vlfs::numbers::own_of;
use crate::vlfs::ondisk::attributes::Inode;
use crate::vlfs::ondisk::slice::Slice;
use crate::vlfs::ondisk::{ObjectNr, all_of, attributes_of, block_of, kinds};
use seekless_engine::disk::Disk;
use seekless_engine::objects::{member_of, slice_of};
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::tx::SECTOR_CONTENT;

/// Rounds at most. What a round takes away may leave the next one objects without a name, a level
/// of directories at a time.
const MOST_ROUNDS: u32 = 64;

/// Repairs all that a check finds.
///
/// # Errors
/// Those of [`check`]; [`FsError::NotRepaired`] without a root directory, or if findings remain.
pub fn repair(disk: &mut dyn Disk) -> Result<Repaired, FsError> {
    let mut repaired = Repaired::default();
    for _ in 0..MOST_ROUNDS {
        let found = check(disk)?;
        if found.list.is_empty() {
            return Ok(repaired);
        }
        if found.list.iter().any(|one| matches!(one, Finding::NoRoot { .. })) {
            return Err(FsError::NotRepaired { left: found.list.len() as u64 });
        }
        for finding in &found.list {
            repaired.lost.extend(lost(finding));
            fix(disk, finding)?;
        }
        let boxed = |one| Box::new(one) as Box<dyn report::Finding>;
        repaired.list.extend(found.list.into_iter().map(boxed));
    }
    match check(disk)?.list.len() {
        0 => Ok(repaired),
        left => Err(FsError::NotRepaired { left: left as u64 }),
    }
}

fn fix(disk: &mut dyn Disk, finding: &Finding) -> Result<(), FsError> {
    match *finding {
        Finding::NoRoot { .. } => Ok(()),
        // Its names go in the next round, and the bits of its number.
        Finding::Unreadable { object } | Finding::Attributes { object, .. } => {
            give_up(disk, object)
        }
        Finding::BadSlice { object } => {
            let mut all = Transaction::new();
            all.cut(attributes_of(object)..attributes_of(object) + 1);
            Ok(disk.transact(all)?)
        }
        Finding::LostNames { dir, block } => {
            let mut all = Transaction::new();
            all.cut(block_of(dir, block)..block_of(dir, block) + 1);
            Ok(disk.transact(all)?)
        }
        Finding::BadChunk { dir, at } => set(disk, dir, at, &[0; SECTOR_CONTENT]),
        Finding::Entry { dir, at, .. } => remove_name(disk, dir, at),
        Finding::WrongKind { dir, at, object, .. } => {
            let inode = inode(disk, object)?;
            let kind = inode.kind().map_or(0, kinds::number);
            set(disk, dir, at + 6, &[kind])
        }
        Finding::WrongParent { object, right, .. } => {
            change(disk, object, |inode| inode.parent = right)
        }
        Finding::WrongLinks { object, right, .. } => {
            change(disk, object, |inode| inode.links = right)
        }
        Finding::Nameless { object, .. } => {
            give_up(disk, object)?;
            mark(disk, object, |slice, bit| {
                slice.used &= !bit;
                slice.unnamed &= !bit;
            })
        }
        Finding::Unmarked { object } => mark(disk, object, |slice, bit| slice.used |= bit),
        Finding::Leaked { object } => mark(disk, object, |slice, bit| slice.used &= !bit),
        Finding::Noted { object, unnamed } => mark(disk, object, |slice, bit| match unnamed {
            true => slice.unnamed |= bit,
            false => slice.unnamed &= !bit,
        }),
    }
}

fn give_up(disk: &mut dyn Disk, object: ObjectNr) -> Result<(), FsError> {
    let mut all = Transaction::new();
    all.cut(all_of(object));
    Ok(disk.transact(all)?)
}

fn inode(disk: &mut dyn Disk, object: ObjectNr) -> Result<Inode, FsError> {
    Ok(Inode::decode(&disk.read(attributes_of(object), 1)?.to_bytes()))
}

fn change(
    disk: &mut dyn Disk,
    object: ObjectNr,
    change: impl FnOnce(&mut Inode),
) -> Result<(), FsError> {
    let mut inode = inode(disk, object)?;
    change(&mut inode);
    let mut all = Transaction::new();
    all.patch(attributes_of(object), 0, &inode.encode());
    Ok(disk.transact(all)?)
}

fn mark(
    disk: &mut dyn Disk,
    object: ObjectNr,
    change: impl FnOnce(&mut Slice, u128),
) -> Result<(), FsError> {
    let own = attributes_of(own_of(slice_of(object)));
    let mut slice = Slice::decode(&disk.read(own, 1)?.to_bytes()).unwrap_or_default();
    change(&mut slice, 1 << member_of(object));
    slice.used |= 1;
    let mut all = Transaction::new();
    all.patch(own, 0, &slice.encode());
    Ok(disk.transact(all)?)
}

/// Changes bytes of a directory.
fn set(disk: &mut dyn Disk, dir: ObjectNr, at: u64, bytes: &[u8]) -> Result<(), FsError> {
    let (block, within) = (at / BLOCK_BYTES as u64, at as usize % BLOCK_BYTES);
    let mut all = Transaction::new();
    all.patch(block_of(dir, block), within, bytes);
    Ok(disk.transact(all)?)
}

fn remove_name(disk: &mut dyn Disk, dir: ObjectNr, at: u64) -> Result<(), FsError> {
    let first = at - at % SECTOR_BYTES as u64;
    let block = block_of(dir, at / BLOCK_BYTES as u64);
    let bytes = disk.read(block, 1)?.to_bytes();
    let within = first as usize % BLOCK_BYTES;
    let chunk = &bytes[within..within + SECTOR_CONTENT];
    // An earlier finding of this round may have made the chunk empty.
    let Ok(Some(gone)) = chunk::remove(chunk, (at - first) as usize) else { return Ok(()) };
    let mut all = Transaction::new();
    for (offset, bytes) in [Some(gone.clear), gone.before].into_iter().flatten() {
        all.patch(block, within + offset, &bytes);
    }
    Ok(disk.transact(all)?)
}

/// What a repair of a finding loses that may have been a file.
fn lost(finding: &Finding) -> Option<String> {
    match finding {
        Finding::Unreadable { object } => {
            Some(format!("object {object}, whose attributes cannot be read"))
        }
        Finding::Attributes { object, why } => Some(format!("object {object}: {why}")),
        Finding::Nameless { object, links, size } if *links > 0 => {
            Some(format!("object {object} of {size} bytes had no name, and is given up"))
        }
        Finding::LostNames { dir, block } => {
            Some(format!("the names in block {block} of directory {dir}"))
        }
        Finding::BadChunk { dir, at } => Some(format!("the names at byte {at} of directory {dir}")),
        Finding::Entry { dir, name, why, .. } if *why != BadEntry::Twice => {
            Some(format!("the name `{name}` in directory {dir}, which {why}"))
        }
        _ => None,
    }
}
