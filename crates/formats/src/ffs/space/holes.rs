//! Counts the holes of a range of a file: what an allocation of all of it would need.

use crate::ffs::ondisk::fields::u32_at;
use crate::ffs::ondisk::format::address_offset;
use crate::ffs::ondisk::geometry::Fragment;
use crate::ffs::ondisk::inode::{DIRECT, INDIRECT, Inode};
use crate::ffs::space::map;
use crate::ffs::volume::Volume;
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Indirect blocks that a count looks at; what lies below others counts as allocated.
const MOST_INDIRECT: u32 = 48;

struct Count<'a> {
    tx: &'a mut dyn Tx,
    vol: &'a Volume,
    from: u64,
    to: u64,
    looked: u32,
}

/// Blocks of `from..to` that have no address. In a file with very many indirect blocks, fewer.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn count(
    tx: &mut dyn Tx,
    vol: &Volume,
    inode: &Inode,
    from: u64,
    to: u64,
) -> Result<u64, Stop> {
    let mut count = Count { tx, vol, from, to, looked: 0 };
    let direct = from..to.min(DIRECT as u64);
    let mut holes = direct.filter(|&index| inode.direct[index as usize] == 0).count() as u64;
    for level in 1..=INDIRECT {
        let (base, span) = map::tree(&vol.geometry, level);
        holes += count.tree(inode.indirect[level - 1], level, base, span)?;
    }
    Ok(holes)
}

impl Count<'_> {
    fn tree(&mut self, at: Fragment, level: usize, base: u64, span: u64) -> Result<u64, Stop> {
        let here = (base + span).min(self.to).saturating_sub(base.max(self.from));
        if here == 0 || at == 0 {
            return Ok(here);
        }
        if level == 0 || self.looked >= MOST_INDIRECT {
            return Ok(0);
        }
        self.looked += 1;
        let each = self.vol.geometry.addresses_per_block();
        let block = map::block_at(&self.vol.geometry, at)?;
        let page = self.tx.page(block, PageKind::Indirect)?;
        let below: Vec<Fragment> = (0..each).map(|n| u32_at(page, address_offset(n))).collect();
        let span = span / each as u64;
        let mut holes = 0;
        for (index, at) in below.into_iter().enumerate() {
            holes += self.tree(at, level - 1, base + index as u64 * span, span)?;
        }
        Ok(holes)
    }
}
