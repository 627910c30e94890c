//! Frees blocks of a file from its end backwards, in bounded steps.
//!
//! A step ends when it has touched as many indirect blocks or bitmaps as it may. What it has not
//! reached is unchanged, and what it has reached is free with no address left, so each step is
//! consistent by itself.

#[cfg(test)]
mod tests;

use crate::ffs::inodes;
use crate::ffs::names::paths::Loser;
use crate::ffs::ondisk::fields::u32_at;
use crate::ffs::ondisk::format::{SECTOR_ADDRESSES, address_offset};
use crate::ffs::ondisk::geometry::Fragment;
use crate::ffs::ondisk::inode::{DIRECT, INDIRECT, Inode, PREALLOCATED, offset};
use crate::ffs::space::alloc::block::{self, Former};
use crate::ffs::space::map;
use crate::ffs::volume::Volume;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Errno, Ino};
use seekless_fs::tx::{BlockNo, Field, Need, PageKind, Role, Stop, Tx, Why};
use smallvec::SmallVec;

/// Indirect blocks that a step touches at most.
const MOST_INDIRECT: usize = 24;
/// Blocks of bitmaps that a step touches at most.
const MOST_MAPS: usize = 24;
/// Blocks that a step frees at most.
const MOST_FREED: usize = 8192;
/// The same where a log has a record of each.
const MOST_LOGGED: usize = 2048;

/// A step of freeing.
struct Step<'a> {
    tx: &'a mut dyn Tx,
    vol: &'a mut Volume,
    ino: Ino,
    from: u64,
    to: u64,
    indirect: usize,
    maps: SmallVec<[BlockNo; MOST_MAPS]>,
    freed: usize,
    sectors: u32,
    /// Where the size of the file stands, if it falls: cleared addresses wait for it.
    size: Option<Field>,
    /// What is to be freed, and where its address was.
    extents: Vec<(Fragment, u32, Field)>,
    /// Where addresses were cleared in indirect blocks.
    cleared: Vec<Field>,
    /// The block of the file behind which all is done, if the step ended early.
    stopped: Option<u64>,
}

/// Frees the blocks `from..to` of a file, as many as one step may. Returns the block from which on
/// all is done: `from` at the end. The caller writes the inode back.
///
/// # Errors
/// Those of [`Tx::page`]; [`Errno::Io`] if an address is damaged.
pub fn range(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    file: (Ino, &mut Inode),
    from: u64,
    to: u64,
) -> Result<u64, Stop> {
    Ok(step(tx, vol, file, (from, to), None)?.0)
}

/// The same for all blocks from one on, of a file that becomes shorter: the disk has the lower size
/// before it has holes there.
///
/// # Errors
/// Those of [`range`].
pub fn end(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    file: (Ino, &mut Inode),
    from: u64,
) -> Result<u64, Stop> {
    let size = inodes::part(vol, vol.number(file.0)?, offset::SIZE, offset::SECTORS - offset::SIZE);
    Ok(step(tx, vol, file, (from, u64::MAX), Some(size))?.0)
}

/// The block from which on all is done, and where addresses were cleared in indirect blocks.
fn step(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (ino, inode): (Ino, &mut Inode),
    (from, to): (u64, u64),
    size: Option<Field>,
) -> Result<(u64, Vec<Field>), Stop> {
    let number = vol.number(ino)?;
    let mut step = Step {
        tx,
        vol,
        ino,
        from,
        to,
        indirect: 0,
        maps: SmallVec::new(),
        freed: 0,
        sectors: 0,
        size,
        extents: Vec::new(),
        cleared: Vec::new(),
        stopped: None,
    };
    for level in (1..=INDIRECT).rev() {
        let (base, span) = map::tree(&step.vol.geometry, level);
        let at = inode.indirect[level - 1];
        if at == 0 || base >= to || base + span <= from {
            continue;
        }
        let root = inodes::part(step.vol, number, offset::INDIRECT + 4 * (level - 1), 4);
        if step.tree(at, level, base, root)? {
            step.free(at, step.vol.geometry.fragments_per_block(), root, true)?;
            inode.indirect[level - 1] = 0;
        }
        if step.stopped.is_some() {
            break;
        }
    }
    if step.stopped.is_none() {
        step.direct(number, inode)?;
    }
    for (at, count, field) in std::mem::take(&mut step.extents) {
        block::free(step.tx, step.vol, (at, count), Former { field, exact: true })?;
    }
    // After a crash the count may be too low.
    inode.sectors = inode.sectors.saturating_sub(step.sectors);
    Ok((step.stopped.unwrap_or(from), step.cleared))
}

/// Before a file grows: frees what a crash has left behind its end. Writes that are ordered bring
/// an address before the size that covers it. The disk has no greater size before it has none of
/// those addresses: the file would show what was never acknowledged.
///
/// # Errors
/// Those of [`range`].
pub fn behind_end(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (ino, inode): (Ino, &mut Inode),
) -> Result<(), Stop> {
    if !vol.may_have_more(ino) || inode.flags & PREALLOCATED != 0 {
        return Ok(());
    }
    let before = inode.clone();
    let from = inode.size_blocks(&vol.geometry).max(DIRECT as u64);
    let mut cleared = Vec::new();
    loop {
        let (reached, fields) = step(tx, vol, (ino, inode), (from, u64::MAX), None)?;
        cleared.extend(fields);
        if reached == from {
            break;
        }
    }
    if *inode == before && cleared.is_empty() {
        vol.has_no_more(ino);
    }
    if tx.guards() && !cleared.is_empty() {
        let needs: Vec<Need> =
            cleared.into_iter().map(|field| Need { field, why: Why::Address }).collect();
        inodes::keep_space(tx, vol, (ino, &before), &needs)?;
    }
    Ok(())
}

impl Step<'_> {
    /// Frees one extent, of which the address stands in a field: of an indirect block if it is
    /// `deep`.
    fn free(&mut self, at: Fragment, count: u32, field: Field, deep: bool) -> Result<(), Stop> {
        if count == 0 || !self.vol.geometry.is_data(at, count) {
            return Err(Errno::Io.into());
        }
        self.note_map(at);
        self.extents.push((at, count, field));
        self.vol.paths.freed(Loser { ino: self.ino, deep }, at, count);
        self.freed += 1;
        self.sectors += count * (self.vol.geometry.fragment_bytes() / SECTOR_BYTES) as u32;
        Ok(())
    }

    fn note_map(&mut self, at: Fragment) {
        let map = self.vol.geometry.fragment_bit(at).block;
        if !self.maps.contains(&map) {
            self.maps.push(map);
        }
    }

    fn is_full(&self) -> bool {
        let most = if self.tx.takes_groups() { MOST_LOGGED } else { MOST_FREED };
        self.indirect >= MOST_INDIRECT || self.maps.len() >= MOST_MAPS || self.freed >= most
    }

    fn direct(&mut self, number: u32, inode: &mut Inode) -> Result<(), Stop> {
        let end = self.to.min(DIRECT as u64);
        for index in (self.from..end).rev() {
            let at = inode.direct[index as usize];
            if at == 0 {
                continue;
            }
            // Twelve blocks: they always fit in the step.
            let field = inodes::part(self.vol, number, offset::DIRECT + 4 * index as usize, 4);
            self.free(at, inode.block_fragments(index, &self.vol.geometry), field, false)?;
            inode.direct[index as usize] = 0;
        }
        Ok(())
    }

    /// Frees what lies in the range below an indirect block, of which the address stands in
    /// `field`; true if no address is left in it.
    fn tree(&mut self, at: Fragment, level: usize, base: u64, field: Field) -> Result<bool, Stop> {
        let each = self.vol.geometry.addresses_per_block();
        let span = (each as u64).pow(level as u32 - 1);
        let block = map::block_at(&self.vol.geometry, at)?;
        let page = self.tx.page(block, PageKind::Indirect)?;
        let old: Vec<Fragment> = (0..each).map(|n| u32_at(page, address_offset(n))).collect();
        self.indirect += 1;
        self.expect_maps(&old, level);
        let mut new = old.clone();
        let freed = self.extents.len();
        for index in (0..each).rev() {
            let first = base + index as u64 * span;
            if old[index] == 0 || first >= self.to || first + span <= self.from {
                continue;
            }
            if self.is_full() {
                self.stopped = Some((first + span).min(self.to));
                break;
            }
            let entry = Field::new(block, address_offset(index), 4);
            if level == 1 || self.tree(old[index], level - 1, first, entry)? {
                self.free(old[index], self.vol.geometry.fragments_per_block(), entry, true)?;
                new[index] = 0;
            }
            if self.stopped.is_some() {
                break;
            }
        }
        let is_empty = new.iter().all(|&at| at == 0);
        if is_empty {
            // The block goes as a whole: its addresses go with the one that leads to it.
            self.extents[freed..].iter_mut().for_each(|extent| extent.2 = field);
        } else {
            self.clear(block, &old, &new);
        }
        Ok(is_empty)
    }

    /// Reads the bitmaps together that freeing these addresses needs.
    fn expect_maps(&mut self, addresses: &[Fragment], level: usize) {
        let mut last = None;
        for &at in addresses.iter().rev().filter(|&&at| at != 0 && level == 1) {
            if at >= self.vol.geometry.fragments() {
                continue;
            }
            let group = self.vol.geometry.group_of_fragment(at);
            if last != Some(group) {
                last = Some(group);
                block::expect(self.tx, self.vol, at);
            }
        }
    }

    /// Writes back the addresses that were cleared, sector by sector.
    fn clear(&mut self, block: BlockNo, old: &[Fragment], new: &[Fragment]) {
        for sector in 0..old.len() / SECTOR_ADDRESSES {
            let range = sector * SECTOR_ADDRESSES..(sector + 1) * SECTOR_ADDRESSES;
            let differ = |n: &usize| old[*n] != new[*n];
            let Some(first) = range.clone().find(differ) else { continue };
            let last = range.rev().find(differ).unwrap_or(first);
            let bytes: Vec<u8> = new[first..=last].iter().flat_map(|at| at.to_le_bytes()).collect();
            self.tx.set(block, address_offset(first), &bytes);
            self.cleared.push(Field::new(block, address_offset(first), bytes.len()));
            let size = self.size.map(|field| Need { field, why: Why::Link });
            let role = if size.is_some() { Role::Clears } else { Role::Replaces };
            for index in (first..=last).filter(|&n| old[n] != new[n]) {
                let field = Field::new(block, address_offset(index), 4);
                self.tx.guard(&[(field, &old[index].to_le_bytes())], size.as_slice(), role);
            }
            self.tx.belongs(block, self.ino);
        }
    }
}
