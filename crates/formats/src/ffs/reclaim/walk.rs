//! The blocks that an inode has, in the order of the file, in bounded steps.

use crate::ffs::ondisk::fields::u32_at;
use crate::ffs::ondisk::format::address_offset;
use crate::ffs::ondisk::geometry::Fragment;
use crate::ffs::ondisk::inode::{DIRECT, INDIRECT, Inode};
use crate::ffs::space::map;
use crate::ffs::volume::Volume;
use seekless_fs::tx::{PageKind, Stop, Tx};

/// A walk over the blocks of an inode from one of them on.
pub(super) struct Walk<'w> {
    pub tx: &'w mut dyn Tx,
    pub vol: &'w Volume,
    pub inode: &'w Inode,
    /// The block of the file with which it begins.
    pub from: u64,
    /// Indirect blocks that it may still read.
    pub pages: usize,
    /// The runs of fragments that it has come to.
    pub runs: Vec<(Fragment, u32)>,
}

impl Walk<'_> {
    /// Walks; returns the block of the file where it goes on in another step.
    ///
    /// # Errors
    /// Those of [`Tx::page`]; an address that leads out of the data.
    pub fn run(&mut self) -> Result<Option<u64>, Stop> {
        for index in self.from..DIRECT as u64 {
            self.leaf(index, self.inode.direct[index as usize]);
        }
        for level in 1..=INDIRECT {
            let (base, span) = map::tree(&self.vol.geometry, level);
            let at = self.inode.indirect[level - 1];
            if at != 0
                && base + span > self.from
                && let Some(next) = self.tree(at, level, base)?
            {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    fn leaf(&mut self, index: u64, at: Fragment) {
        let count = self.inode.block_fragments(index, &self.vol.geometry);
        if at != 0 && count > 0 {
            self.runs.push((at, count));
        }
    }

    /// Walks below an indirect block, of which `base` is the first block of the file.
    fn tree(&mut self, at: Fragment, level: usize, base: u64) -> Result<Option<u64>, Stop> {
        let geometry = &self.vol.geometry;
        // Below a block of a higher level at least one of each lower level is read.
        if self.pages < level {
            return Ok(Some(base));
        }
        self.pages -= 1;
        if base >= self.from {
            self.runs.push((at, geometry.fragments_per_block()));
        }
        let each = geometry.addresses_per_block() as u64;
        let span = each.pow(level as u32 - 1);
        let block = map::block_at(geometry, at)?;
        let page = self.tx.page(block, PageKind::Indirect)?;
        let below: Vec<(u64, Fragment)> = (0..each)
            .map(|n| (base + n * span, u32_at(page, address_offset(n as usize))))
            .filter(|&(first, at)| at != 0 && first + span > self.from)
            .collect();
        if level == 1 {
            below.into_iter().for_each(|(index, at)| self.leaf(index, at));
            return Ok(None);
        }
        for &(_, at) in below.iter().take(self.pages) {
            self.tx.expect(map::block_at(geometry, at)?, PageKind::Indirect);
        }
        for (first, at) in below {
            if let Some(next) = self.tree(at, level - 1, first)? {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }
}
