//! The third stage: visits each inode. It keeps what it has, gives up what lies behind its end, and
//! counts what it has and the names that lead to it; without a name it is deleted.

use super::walk::Walk;
use super::{STEP_PAGES, Stage, Visit, of};
use crate::ffs::inodes;
use crate::ffs::names::dirs::{self, Entry};
use crate::ffs::ondisk::entries::type_byte;
use crate::ffs::ondisk::format::{FIRST_INODE, LOG_INODE};
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode, is_free};
use crate::ffs::space::alloc::inode as inode_alloc;
use crate::ffs::space::free;
use crate::ffs::volume::Volume;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{FileKind, Ino, ROOT};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Inodes that a step frees at most whose table is not initialised.
const MOST_BEHIND: usize = 512;

/// A row of inodes of one group.
struct Row {
    /// Their numbers, and what uses them.
    inodes: Vec<(u32, Option<Inode>)>,
    /// The inode behind it.
    end: u32,
}

/// What becomes of the links of an inode.
#[derive(Clone, Copy)]
enum Right {
    /// They stay.
    Stays,
    /// They are right, once so many are gone.
    Exact(u16),
    /// It has no name, and is to be deleted.
    Goes,
}

/// What a visit has come to.
enum Came {
    /// To the end of the inode.
    End(Right),
    /// It goes on in another step.
    To(Visit),
}

/// Visits the inodes of one block of the table, or as many of them as a step may.
pub(super) fn step(tx: &mut dyn Tx, vol: &mut Volume) -> Result<Option<Ino>, Stop> {
    let from = of(vol).next;
    if from >= vol.geometry.inodes() {
        let first = of(vol).part.start;
        of(vol).begin(Stage::Space, first);
        return Ok(None);
    }
    let row = row(tx, vol, from)?;
    let (mut end, mut at) = (row.end, of(vol).visit);
    let (mut pages, mut directories, mut nameless) = (STEP_PAGES, 0, None);
    let (mut numbers, mut links, mut exact) = (0, 0, Vec::new());
    for (ino, inode) in row.inodes {
        // The inode that a visit of several steps was at may be another one now.
        let begun = std::mem::take(&mut at);
        let Some(inode) = inode else {
            directories += u32::from(vol.is_leaving_directory(ino));
            numbers += u64::from(free_number(tx, vol, ino)?);
            continue;
        };
        let visit = if ino == from { begun } else { Visit::default() };
        match visit_one(tx, vol, (ino, &inode), visit, &mut pages)? {
            Came::To(next) => {
                (end, at) = (ino, next);
                break;
            }
            Came::End(right) => {
                directories += u32::from(inode.kind() == Some(FileKind::Directory));
                match right {
                    Right::Stays => {}
                    Right::Exact(count) => {
                        links += u64::from(count);
                        exact.push(ino);
                    }
                    Right::Goes => {
                        (end, nameless) = (ino + 1, Some(Ino::from(ino)));
                        break;
                    }
                }
            }
        }
    }
    count_directories(vol, (from, end), directories);
    let reclaim = of(vol);
    reclaim.done.inodes += numbers + u64::from(nameless.is_some());
    reclaim.done.links += links;
    exact.into_iter().for_each(|ino| reclaim.exact.insert(ino));
    (reclaim.next, reclaim.visit) = (end, at);
    Ok(nameless)
}

/// The inodes from one on, to the end of their block.
fn row(tx: &mut dyn Tx, vol: &mut Volume, from: u32) -> Result<Row, Stop> {
    let geometry = &vol.geometry;
    let (per_group, per_block) = (geometry.sizes().inodes_per_group, geometry.inodes_per_block());
    let group = geometry.group_of_inode(from);
    let (first, index) = (group * per_group, from % per_group);
    let mark = vol.group(group).initialised;
    if index >= mark {
        return Ok(behind_mark(vol, from, first + per_group));
    }
    let block = geometry.inode_place(from).block;
    for ahead in 1..8.min((mark - index).div_ceil(per_block)) {
        tx.expect(block + u64::from(ahead), PageKind::Inodes);
    }
    let end = first + (index / per_block + 1) * per_block;
    let page = tx.page(block, PageKind::Inodes)?;
    let inodes = (from..end).map(|ino| {
        let at = geometry.inode_place(ino).at;
        let bytes = &page[at..at + INODE_BYTES];
        (ino, (!is_free(bytes)).then(|| Inode::decode(bytes)))
    });
    Ok(Row { inodes: inodes.collect(), end })
}

/// Numbers in use of which the table is not initialised: nothing has used them.
fn behind_mark(vol: &mut Volume, from: u32, end: u32) -> Row {
    let marks = &of(vol).inodes;
    let mut next = from;
    let mut inodes = Vec::new();
    while let Some(ino) = marks.next(next, end) {
        if inodes.len() == MOST_BEHIND {
            return Row { inodes, end: ino };
        }
        inodes.push((ino, None));
        next = ino + 1;
    }
    Row { inodes, end }
}

/// Frees the number of an inode that is marked as used, and is not. True if it is such a one.
fn free_number(tx: &mut dyn Tx, vol: &mut Volume, ino: u32) -> Result<bool, Stop> {
    if ino < FIRST_INODE || !of(vol).inodes.has(ino) {
        return Ok(false);
    }
    vol.change_owed(|owed| owed.inodes += 1);
    inode_alloc::release(tx, vol, ino, false)?;
    Ok(true)
}

fn visit_one(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (number, old): (u32, &Inode),
    Visit { at, count }: Visit,
    pages: &mut usize,
) -> Result<Came, Stop> {
    let ino = Ino::from(number);
    let mut new = old.clone();
    let mut fragments = count;
    let mut next = None;
    if old.has_blocks() {
        if at == 0 {
            free::behind_end(tx, vol, (ino, &mut new))?;
        }
        let mut walk =
            Walk { tx, vol: &*vol, inode: &new, from: at, pages: *pages, runs: Vec::new() };
        next = walk.run()?;
        *pages = walk.pages;
        for (at, count) in walk.runs {
            fragments += u64::from(count);
            of(vol).fragments.remove(at..at.saturating_add(count));
        }
    }
    if let Some(next) = next {
        inodes::put(tx, vol, ino, old, &new)?;
        if at == 0 {
            of(vol).watch(ino);
        }
        return Ok(Came::To(Visit { at: next, count: fragments }));
    }
    if at == 0 || of(vol).undisturbed() {
        let each = (vol.geometry.fragment_bytes() / SECTOR_BYTES) as u64;
        new.sectors = u32::try_from(fragments * each).unwrap_or(u32::MAX);
    } else {
        of(vol).again = true;
    }
    let right = count_names(vol, number, &mut new);
    inodes::put(tx, vol, ino, old, &new)?;
    if new.kind() == Some(FileKind::Directory) {
        lead_up(tx, vol, number, &new)?;
    }
    Ok(Came::End(right))
}

/// Makes the link count of an inode that of its names.
fn count_names(vol: &mut Volume, number: u32, inode: &mut Inode) -> Right {
    let reclaim = of(vol);
    let is_deleted = reclaim.unnamed.contains(&Ino::from(number));
    if !reclaim.inodes.has(number) || number == LOG_INODE || is_deleted {
        return Right::Stays;
    }
    let is_directory = inode.kind() == Some(FileKind::Directory);
    if !is_directory && reclaim.exact.has(number) {
        return Right::Stays;
    }
    let is_root = Ino::from(number) == ROOT;
    let named = match is_directory {
        true => is_root || reclaim.names.parent(number).is_some(),
        false => reclaim.names.count(number) > 0,
    };
    if is_directory && reclaim.names.has_several(number) {
        // An operation may have moved it from a directory that was read to one that was not.
        let moved = reclaim.touched.has(number);
        (reclaim.again, reclaim.two_names) = (reclaim.again | moved, reclaim.two_names | !moved);
        return Right::Stays;
    }
    let right = match is_directory {
        _ if !named => 0,
        true => {
            let surplus = reclaim.surplus.get(&number).copied().unwrap_or(0);
            inode.links.saturating_sub(u16::try_from(surplus).unwrap_or(0))
        }
        false => u16::try_from(reclaim.names.count(number)).unwrap_or(u16::MAX),
    };
    if reclaim.touched.has(number) {
        if is_directory && named && inode.links <= right {
            return Right::Stays;
        }
        // A name may have gone after it was counted.
        reclaim.again = true;
        return Right::Stays;
    }
    if named && inode.links <= right {
        return Right::Exact(0);
    }
    let loses = inode.links.saturating_sub(right);
    inode.links = right;
    if named {
        return Right::Exact(loses);
    }
    // What a directory without a name leads to keeps its count until that is gone.
    (reclaim.again, reclaim.names_go) =
        (reclaim.again | is_directory, reclaim.names_go | is_directory);
    Right::Goes
}

/// Makes `..` of a directory lead to its parent. A rename that was cut off may have left the name
/// there alone: the other one was in a directory that is gone.
fn lead_up(tx: &mut dyn Tx, vol: &mut Volume, number: u32, inode: &Inode) -> Result<(), Stop> {
    let reclaim = of(vol);
    let Some(parent) = reclaim.names.parent(number) else { return Ok(()) };
    if !reclaim.ups.contains_key(&number) || !reclaim.inodes.has(number) {
        return Ok(());
    }
    if reclaim.touched.has(number) {
        reclaim.again = true;
        return Ok(());
    }
    let dir = (Ino::from(number), inode);
    let up = dirs::parent_entry(tx, vol, dir)?;
    if up.ino != Ino::from(parent) {
        let kind = type_byte(FileKind::Directory);
        dirs::replace(tx, vol, dir, up, Entry { ino: parent, kind, needs: &[] })?;
        vol.set_parent(dir.0, Some(Ino::from(parent)));
    }
    Ok(())
}

/// Counts the directories of a group, which its header may have wrong.
fn count_directories(vol: &mut Volume, (from, end): (u32, u32), directories: u32) {
    let group = vol.geometry.group_of_inode(from);
    if !of(vol).part.contains(&group) || end == from {
        return;
    }
    let first = group * vol.geometry.sizes().inodes_per_group;
    vol.change_group(group, |g| {
        g.recounted += directories;
        g.recounted_to = end - first;
    });
}
