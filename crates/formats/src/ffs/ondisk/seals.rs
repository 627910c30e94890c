//! The seals of FFS as the cache sets and checks them.

use crate::ffs::ondisk::seal::{SealKind, Sealer, counter};
use seekless_fs::core::Seals;
use seekless_fs::tx::PageKind;

impl Seals for Sealer {
    fn is_right(&self, sector: u64, kind: PageKind, bytes: &[u8]) -> bool {
        SealKind::of_page(kind).is_none_or(|kind| self.is_whole(bytes, sector, kind))
    }

    fn set(&self, sector: u64, kind: PageKind, bytes: &mut [u8]) {
        if let Some(kind) = SealKind::of_page(kind) {
            let next = counter(bytes).wrapping_add(1);
            Sealer::set(self, bytes, sector, kind, next);
        }
    }
}
