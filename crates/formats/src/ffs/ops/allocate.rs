//! `fallocate`: allocates blocks, or makes holes.

use super::attr::content_changed;
use super::truncate::zero;
use super::{STEP_BLOCKS, space, write};
use crate::ffs::inodes;
use crate::ffs::ondisk::inode::{Inode, PREALLOCATED};
use crate::ffs::space::tail::Growing;
use crate::ffs::space::{free, holes, map};
use crate::ffs::volume::Volume;
use seekless_fs::call::{AllocateHow, Credentials, Errno, Ino};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// How far a step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The end of the range.
    End,
    /// Call again with the range from this place on.
    At(u64),
}

/// Does one step of what is asked for, in the bytes `from..end` of a file.
///
/// # Errors
/// [`Errno::Inval`] for an empty range, [`Errno::FBig`], [`Errno::IsDir`], [`Errno::Stale`];
/// [`Stop::NoRoom`]; those of [`Tx::page`].
pub fn allocate(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    ino: Ino,
    (from, end): (u64, u64),
    how: AllocateHow,
) -> Result<Reached, Stop> {
    let old = inodes::file(tx, vol, ino)?;
    if from >= end {
        return Err(Errno::Inval.into());
    }
    let grows = !matches!(how, AllocateHow::Punch | AllocateHow::Zero { keep_size: true });
    if grows && end > vol.geometry.most_file_bytes() {
        return Err(Errno::FBig.into());
    }
    let mut new = old.clone();
    let file = (ino, &mut new);
    let reached = match how {
        AllocateHow::Extend => extend(tx, vol, who, file, (from, end))?,
        AllocateHow::KeepSize => keep_size(tx, vol, who, file, (from, end))?,
        AllocateHow::Punch => punch(tx, vol, file, (from, end))?,
        AllocateHow::Zero { keep_size } => {
            let reached = punch(tx, vol, (ino, &mut new), (from, end))?;
            if reached == Reached::End && !keep_size && end > new.size {
                let kind = PageKind::Data;
                free::behind_end(tx, vol, (ino, &mut new))?;
                Growing { ino, inode: &mut new, who, kind }.grow_tail(tx, vol, end)?;
                new.size = end;
            }
            reached
        }
    };
    content_changed(tx, &mut new, who);
    inodes::put(tx, vol, ino, &old, &new)?;
    if new.size != old.size {
        tx.writes_at_once(inodes::field(vol, vol.number(ino)?));
    }
    Ok(reached)
}

/// The end of a step that begins at a place.
fn step_end(vol: &Volume, from: u64, end: u64) -> u64 {
    let block_bytes = vol.geometry.block_bytes() as u64;
    end.min((from / block_bytes + STEP_BLOCKS).saturating_mul(block_bytes))
}

/// Refuses at once what cannot succeed at the end, because a call that fails changes nothing. It
/// counts free blocks only, with those for indirect blocks and a tail that moves.
fn check_room(
    tx: &mut dyn Tx,
    vol: &Volume,
    who: Credentials,
    inode: &Inode,
    (from, end): (u64, u64),
) -> Result<(), Stop> {
    let block_bytes = vol.geometry.block_bytes() as u64;
    let (first, last) = (from / block_bytes, end.div_ceil(block_bytes));
    let holes = holes::count(tx, vol, inode, first, last)?;
    if holes == 0 && end <= inode.size {
        return Ok(());
    }
    let each = vol.geometry.addresses_per_block() as u64;
    let needs = holes + holes / each + 4;
    let fragments = needs * u64::from(vol.geometry.fragments_per_block());
    let blocks: u64 = vol.groups().iter().map(|group| u64::from(group.free_blocks)).sum();
    if needs > blocks || fragments > space::available(vol, who) {
        return Err(Stop::NoRoom);
    }
    Ok(())
}

fn extend(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    (ino, inode): (Ino, &mut Inode),
    (from, end): (u64, u64),
) -> Result<Reached, Stop> {
    check_room(tx, vol, who, inode, (from, end))?;
    let until = step_end(vol, from, end);
    write::fill(tx, vol, who, (ino, inode), (from, until), None)?;
    Ok(reached(until, end))
}

fn reached(until: u64, end: u64) -> Reached {
    if until < end { Reached::At(until) } else { Reached::End }
}

/// Allocates whole blocks; the tail becomes one, too, because a tail follows from the size.
fn keep_size(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    (ino, inode): (Ino, &mut Inode),
    (from, end): (u64, u64),
) -> Result<Reached, Stop> {
    check_room(tx, vol, who, inode, (from, end))?;
    let block_bytes = vol.geometry.block_bytes() as u64;
    let size = inode.size;
    if end > size && inode.flags & PREALLOCATED == 0 {
        free::behind_end(tx, vol, (ino, inode))?;
        let whole = size.next_multiple_of(block_bytes);
        let kind = PageKind::Data;
        Growing { ino, inode, who, kind }.grow_tail(tx, vol, whole)?;
        inode.flags |= PREALLOCATED;
    }
    let until = step_end(vol, from, end);
    write::fill(tx, vol, who, (ino, inode), (from, until), None)?;
    inode.size = size;
    Ok(reached(until, end))
}

/// Frees the whole blocks of a range, and zeroes what it has of others.
fn punch(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (ino, inode): (Ino, &mut Inode),
    (from, end): (u64, u64),
) -> Result<Reached, Stop> {
    let block_bytes = vol.geometry.block_bytes() as u64;
    let most = vol.geometry.most_file_bytes();
    let end = end.min(most);
    if from >= end {
        return Ok(Reached::End);
    }
    let first = from.div_ceil(block_bytes);
    let mut last = end / block_bytes;
    if end >= inode.size {
        // Nothing of the block that holds the end of the file stays.
        last = last.max(inode.size_blocks(&vol.geometry));
    }
    if first < last {
        let reached = free::range(tx, vol, (ino, inode), first, last)?;
        if reached > first {
            return Ok(Reached::At(from));
        }
    }
    let head = (from, end.min(first * block_bytes));
    let tail = (from.max(last * block_bytes), end);
    for (from, to) in [head, tail] {
        if from < to {
            zero_bytes(tx, vol, (ino, inode), (from, to))?;
        }
        if head == tail {
            break;
        }
    }
    Ok(Reached::End)
}

/// Zeroes bytes within one block of a file.
fn zero_bytes(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (ino, inode): (Ino, &Inode),
    (from, to): (u64, u64),
) -> Result<(), Stop> {
    let block_bytes = vol.geometry.block_bytes() as u64;
    let index = from / block_bytes;
    let at = map::address(tx, vol, inode, index)?;
    if at == 0 {
        return Ok(());
    }
    let has = inode.block_fragments(index, &vol.geometry) as usize;
    let start = index * block_bytes;
    let to = ((to - start) as usize).min(has * vol.geometry.fragment_bytes());
    zero(tx, vol, (ino, at), ((from - start) as usize, to))
}
