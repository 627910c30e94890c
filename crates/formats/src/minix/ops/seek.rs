//! `SEEK_DATA` and `SEEK_HOLE`: by the addresses of a file, in steps.

use crate::minix::inodes;
use crate::minix::ondisk::geometry::{ADDRESS_BYTES, Zone};
use crate::minix::ondisk::inode::{DIRECT, Inode};
use crate::minix::volume::Volume;
use seekless_fs::call::{Errno, Ino, SeekWhat};
use seekless_fs::fields::u32_at;
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Indirect zones that a step looks at.
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
/// [`Errno::Stale`]; [`Errno::Io`] for an address outside the data; those of [`Tx::page`].
pub fn seek(
    tx: &mut dyn Tx,
    vol: &Volume,
    ino: Ino,
    at: u64,
    what: SeekWhat,
) -> Result<Sought, Stop> {
    let (_, inode) = inodes::file(tx, vol, ino)?;
    let size = u64::from(inode.size);
    if at >= size {
        return Err(Errno::NxIo.into());
    }
    let zone_bytes = vol.geometry.zone_bytes() as u64;
    let end = vol.geometry.size_zones(size);
    let mut search = Search { tx, vol, end, wants_data: what == SeekWhat::Data, looked: 0 };
    Ok(match search.file(&inode, at / zone_bytes)? {
        Some(Sought::At(index)) => Sought::At(at.max(index * zone_bytes).min(size)),
        Some(Sought::From(index)) => Sought::From(at.max(index * zone_bytes)),
        None if what == SeekWhat::Hole => Sought::At(size),
        None => return Err(Errno::NxIo.into()),
    })
}

struct Search<'a> {
    tx: &'a mut dyn Tx,
    vol: &'a Volume,
    /// Zones of the file.
    end: u64,
    wants_data: bool,
    looked: u32,
}

impl Search<'_> {
    /// The first zone of the file from `first` on that is wanted.
    fn file(&mut self, inode: &Inode, first: u64) -> Result<Option<Sought>, Stop> {
        let each = self.vol.geometry.addresses() as u64;
        let mut base = 0;
        for (slot, &zone) in inode.zones.iter().enumerate() {
            let level = slot.saturating_sub(DIRECT - 1) as u32;
            let span = each.pow(level);
            if base < self.end
                && base + span > first
                && let Some(found) = self.tree(zone, level, base, first)?
            {
                return Ok(Some(found));
            }
            base += span;
        }
        Ok(None)
    }

    /// The same below an address of a level; level 0 is data.
    fn tree(
        &mut self,
        zone: Zone,
        level: u32,
        base: u64,
        first: u64,
    ) -> Result<Option<Sought>, Stop> {
        let from = base.max(first);
        if zone == 0 || level == 0 {
            return Ok(((zone != 0) == self.wants_data).then_some(Sought::At(from)));
        }
        if !self.vol.geometry.is_data(zone) {
            return Err(Errno::Io.into());
        }
        if self.looked >= MOST_INDIRECT {
            return Ok(Some(Sought::From(from)));
        }
        self.looked += 1;
        let each = self.vol.geometry.addresses();
        let span = (each as u64).pow(level - 1);
        let (place, length) = (self.vol.geometry.place_of(zone), self.vol.geometry.zone_bytes());
        let bytes = self.tx.part(place.page, place.at, length, PageKind::Indirect)?.to_vec();
        for entry in 0..each {
            let base = base + entry as u64 * span;
            if base + span <= first {
                continue;
            }
            if base >= self.end {
                break;
            }
            let below = u32_at(&bytes, entry * ADDRESS_BYTES);
            if let Some(found) = self.tree(below, level - 1, base, first)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
