//! `SEEK_DATA` and `SEEK_HOLE`: by the addresses of a file, in steps.

use crate::ffs::inodes;
use crate::ffs::ondisk::fields::u32_at;
use crate::ffs::ondisk::format::address_offset;
use crate::ffs::ondisk::inode::{DIRECT, INDIRECT, Inode};
use crate::ffs::space::map;
use crate::ffs::volume::Volume;
use seekless_fs::call::{Errno, Ino, SeekWhat};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Indirect blocks that a step looks at.
const MOST_INDIRECT: u32 = 48;

/// What a step has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// The place.
    At(u64),
    /// Nothing before this place: call again with it.
    From(u64),
}

/// Looks for data or a hole from a place on.
///
/// # Errors
/// [`Errno::NxIo`] behind the end, and if no data follow; [`Errno::IsDir`], [`Errno::Inval`],
/// [`Errno::Stale`]; those of [`Tx::page`].
pub fn seek(
    tx: &mut dyn Tx,
    vol: &Volume,
    ino: Ino,
    at: u64,
    what: SeekWhat,
) -> Result<Sought, Stop> {
    let inode = inodes::file(tx, vol, ino)?;
    if at >= inode.size {
        return Err(Errno::NxIo.into());
    }
    let block_bytes = vol.geometry.block_bytes() as u64;
    let end = inode.size_blocks(&vol.geometry);
    let mut search = Search { tx, vol, end, wants_data: what == SeekWhat::Data, looked: 0 };
    let first = at / block_bytes;
    let sought = match search.file(&inode, first)? {
        Some(Sought::At(index)) => Sought::At(at.max(index * block_bytes)),
        Some(Sought::From(index)) => Sought::From(at.max(index * block_bytes)),
        None if what == SeekWhat::Hole => Sought::At(inode.size),
        None => return Err(Errno::NxIo.into()),
    };
    Ok(match sought {
        Sought::At(at) => Sought::At(at.min(inode.size)),
        more => more,
    })
}

struct Search<'a> {
    tx: &'a mut dyn Tx,
    vol: &'a Volume,
    /// Blocks of the file.
    end: u64,
    wants_data: bool,
    looked: u32,
}

impl Search<'_> {
    /// The first block of the file from `first` on that is wanted.
    fn file(&mut self, inode: &Inode, first: u64) -> Result<Option<Sought>, Stop> {
        for index in first..self.end.min(DIRECT as u64) {
            if (inode.direct[index as usize] != 0) == self.wants_data {
                return Ok(Some(Sought::At(index)));
            }
        }
        for level in 1..=INDIRECT {
            let (base, span) = map::tree(&self.vol.geometry, level);
            if base >= self.end || base + span <= first {
                continue;
            }
            let at = inode.indirect[level - 1];
            if let Some(found) = self.tree(at, level, base, first)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The same below an address of a level; level 0 is data.
    fn tree(
        &mut self,
        at: u32,
        level: usize,
        base: u64,
        first: u64,
    ) -> Result<Option<Sought>, Stop> {
        let from = base.max(first);
        if at == 0 || level == 0 {
            return Ok(((at != 0) == self.wants_data).then_some(Sought::At(from)));
        }
        if self.looked >= MOST_INDIRECT {
            return Ok(Some(Sought::From(from)));
        }
        self.looked += 1;
        let each = self.vol.geometry.addresses_per_block();
        let span = (each as u64).pow(level as u32 - 1);
        let block = map::block_at(&self.vol.geometry, at)?;
        let page = self.tx.page(block, PageKind::Indirect)?;
        let addresses: Vec<u32> = (0..each).map(|n| u32_at(page, address_offset(n))).collect();
        for (index, at) in addresses.into_iter().enumerate() {
            let base = base + index as u64 * span;
            if base + span <= first {
                continue;
            }
            if base >= self.end {
                break;
            }
            if let Some(found) = self.tree(at, level - 1, base, first)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
