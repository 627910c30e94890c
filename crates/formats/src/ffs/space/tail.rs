//! Blocks of a file that come or grow: new ones, and tails that get more fragments.

use crate::ffs::inodes;
use crate::ffs::names::paths::Loser;
use crate::ffs::ondisk::format::Optimisation;
use crate::ffs::ondisk::geometry::Fragment;
use crate::ffs::ondisk::inode::{DIRECT, Inode, offset};
use crate::ffs::space::alloc::block::{self, Former, Wish};
use crate::ffs::space::alloc::fragment;
use crate::ffs::space::map::{self, Slot};
use crate::ffs::volume::Volume;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Credentials, Errno, Ino};
use seekless_fs::tx::{BlockNo, Field, Need, PageKind, SECTOR_CONTENT, Stop, Tx, Why};

/// A file that an operation extends.
#[derive(Debug)]
pub struct Growing<'a> {
    /// Its number.
    pub ino: Ino,
    /// Its inode, which the caller writes back.
    pub inode: &'a mut Inode,
    /// Who pays.
    pub who: Credentials,
    /// What its blocks hold.
    pub kind: PageKind,
}

impl Growing<'_> {
    fn add_sectors(&mut self, vol: &Volume, fragments: u32) {
        let each = (vol.geometry.fragment_bytes() / SECTOR_BYTES) as u32;
        self.inode.sectors = self.inode.sectors.saturating_add(fragments * each);
    }

    /// Notes that fresh fragments are of this file, and what its inode needs of them.
    fn got(&self, tx: &mut dyn Tx, vol: &mut Volume, (at, count): (Fragment, u32), slot: Slot) {
        tx.belongs(vol.geometry.block_of(at), self.ino);
        vol.paths.claimed(self.ino, at, count, vol.geometry.fragments_per_block());
        if self.kind == PageKind::Data {
            tx.content(block::content(vol, at, count), false);
        }
        if !tx.guards() {
            return;
        }
        let needs = block::needs(vol, at, count, self.kind);
        match slot {
            Slot::Direct(_) => needs.into_iter().for_each(|need| vol.need(self.ino, need)),
            Slot::In(block, offset) => {
                map::guard_address(tx, vol, self.ino, (block, offset, 0), &needs);
            }
        }
    }

    /// Allocates a block of the file that is a hole, with `count` fragments of zeros.
    ///
    /// # Errors
    /// [`Stop::NoRoom`]; those of [`Tx::page`].
    pub fn add(
        &mut self,
        tx: &mut dyn Tx,
        vol: &mut Volume,
        slot: Slot,
        count: u32,
        wish: Wish,
    ) -> Result<Fragment, Stop> {
        let roomy = vol.optimisation == Optimisation::Time && self.inode.sectors > 0;
        let at = fragment::allocate(tx, vol, wish, count, roomy)?;
        let place = vol.geometry.place_of(at);
        let length = count as usize * vol.geometry.fragment_bytes();
        tx.fresh(place.block, self.kind, place.at, length);
        if length == tx.block_bytes() {
            tx.began(place.block);
        }
        map::set(tx, self.ino, self.inode, slot, at);
        self.got(tx, vol, (at, count), slot);
        self.add_sectors(vol, count);
        Ok(at)
    }

    /// Gives a tail more fragments, of zeros: in place, or by moving it.
    ///
    /// # Errors
    /// [`Stop::NoRoom`]; those of [`Tx::page`].
    pub fn extend(
        &mut self,
        tx: &mut dyn Tx,
        vol: &mut Volume,
        index: u64,
        (old, new): (u32, u32),
    ) -> Result<Fragment, Stop> {
        // Only direct blocks have tails.
        let slot = usize::try_from(index).ok().filter(|&n| n < DIRECT).ok_or(Errno::Io)?;
        let at = self.inode.direct[slot];
        if !vol.geometry.is_data(at, old) {
            return Err(Errno::Io.into());
        }
        let bytes = vol.geometry.fragment_bytes();
        let group = vol.geometry.group_of_fragment(at);
        let wish = Wish { who: self.who, at: None, group, blocks: 1 };
        let grown = (new - old) as usize * bytes;
        if fragment::extend(tx, vol, wish, at, (old, new))? {
            let place = vol.geometry.place_of(at + old);
            tx.fresh(place.block, self.kind, place.at, grown);
            self.got(tx, vol, (at + old, new - old), Slot::Direct(slot));
            self.add_sectors(vol, new - old);
            return Ok(at);
        }
        let from = vol.geometry.place_of(at);
        let kept = old as usize * bytes;
        let field = Field::new(from.block, from.at, kept);
        if self.kind == PageKind::Directory && tx.is_guarded(field) {
            // The disk would show the names at their new place too early.
            return Err(Stop::Guarded(field));
        }
        let number = vol.number(self.ino)?;
        let address = inodes::part(vol, number, offset::DIRECT + 4 * slot, 4);
        let is_ordered = is_ordered(tx, from.block, address);
        let content = tx.part(from.block, from.at, kept, self.kind)?.to_vec();
        let roomy = vol.optimisation == Optimisation::Time;
        let to = fragment::allocate(tx, vol, wish, new, roomy)?;
        let place = vol.geometry.place_of(to);
        tx.fresh(place.block, self.kind, place.at, new as usize * bytes);
        if new as usize * bytes == tx.block_bytes() {
            tx.began(place.block);
        }
        copy(tx, self.kind, (place.block, place.at), &content);
        if self.kind == PageKind::Directory {
            // Long before the inode, which leads away from the old place.
            tx.goes_early(place.block);
            vol.paths.body(place.block, self.ino);
        }
        self.got(tx, vol, (to, new), Slot::Direct(slot));
        if self.kind == PageKind::Data {
            // The disk may have it at the old place.
            tx.content(Field::new(place.block, place.at, kept), true);
        }
        if is_ordered {
            // What the file had is on the disk at the old place.
            let field = Field::new(place.block, place.at, kept);
            vol.need(self.ino, Need { field, why: Why::Moved });
        }
        self.inode.direct[slot] = to;
        self.add_sectors(vol, new - old);
        let former = Former { field: address, exact: true };
        if planted(PlantedBug::FragmentMoveFreesOld) {
            vol.change_owed(|owed| owed.fragments += u64::from(old));
            block::release(tx, vol, at, old)?;
        } else if is_ordered {
            block::leave(tx, vol, (at, old), former)?;
        } else {
            block::free(tx, vol, (at, old), former)?;
        }
        vol.paths.freed(Loser { ino: self.ino, deep: false }, at, old);
        Ok(to)
    }

    /// Before the file grows: makes its tail what it must be at the new size.
    ///
    /// # Errors
    /// [`Stop::NoRoom`]; those of [`Tx::page`].
    pub fn grow_tail(&mut self, tx: &mut dyn Tx, vol: &mut Volume, size: u64) -> Result<(), Stop> {
        let blocks = self.inode.size_blocks(&vol.geometry);
        if size <= self.inode.size || blocks == 0 || blocks > DIRECT as u64 {
            return Ok(());
        }
        let index = blocks - 1;
        if self.inode.direct[index as usize] == 0 {
            return Ok(());
        }
        let old = self.inode.block_fragments(index, &vol.geometry);
        let after = Inode { size, ..self.inode.clone() };
        let new = after.block_fragments(index, &vol.geometry);
        if new > old {
            self.extend(tx, vol, index, (old, new))?;
        }
        Ok(())
    }
}

/// True if the policy orders the move of a tail from a block, to which an address leads. What was
/// never written is not on the disk, unless it is at an older place.
fn is_ordered(tx: &dyn Tx, from: BlockNo, address: Field) -> bool {
    let is_on_disk = || !tx.is_new(from) || tx.is_guarded(address);
    tx.guards() || tx.guards_moves() && is_on_disk()
}

/// Copies content into a fresh place; of sealed sectors all but the seals.
fn copy(tx: &mut dyn Tx, kind: PageKind, (block, at): (u64, usize), content: &[u8]) {
    if !kind.is_sealed() {
        tx.set(block, at, content);
        return;
    }
    for (number, sector) in content.chunks(SECTOR_BYTES).enumerate() {
        let to = at + number * SECTOR_BYTES;
        tx.set(block, to, &sector[..SECTOR_CONTENT]);
    }
}
