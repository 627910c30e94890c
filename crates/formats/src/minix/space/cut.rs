//! Freeing of the zones of a file from its end, in steps of bounded size.

use super::map::{Slot, entry_place};
use super::zones::{self, GivenUp};
use crate::minix::inodes::{edit, outer};
use crate::minix::ondisk::geometry::{ADDRESS_BYTES, Zone};
use crate::minix::ondisk::inode::{DIRECT, Inode, LEVELS};
use crate::minix::volume::Volume;
use seekless_fs::fields::u32_at;
use seekless_fs::tx::{Field, PageKind, Stop, Tx};

/// Zones that a step frees at most.
const MOST_ZONES: u32 = 256;
/// Pages of maps and addresses that a step touches at most. A transaction holds them all, and a
/// step that misses each of them still ends.
const MOST_PAGES: usize = 24;

/// What a step may still do.
#[derive(Debug)]
struct Budget {
    zones: u32,
    pages: Vec<u64>,
}

impl Budget {
    /// False if the step must end before it touches this page.
    fn touches(&mut self, page: u64) -> bool {
        if !self.pages.contains(&page) {
            self.pages.push(page);
        }
        self.pages.len() <= MOST_PAGES
    }

    /// False if the step must end before it frees a zone of which this page has the bit.
    fn frees(&mut self, page: u64) -> bool {
        self.zones = self.zones.saturating_sub(1);
        self.zones > 0 && self.touches(page)
    }
}

/// How far the zones below an address have gone.
enum Gone {
    /// All of them, and the zone that led to them.
    All,
    /// All from the wanted index on; some stay before it.
    Enough,
    /// Those from this index on: the step has come to its end.
    From(u64),
}

/// What a step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The zones of the file from this index on are gone.
    pub reached: u64,
}

/// Frees the zones of a file from an index on, as many as a step may, from the end. The inode is
/// changed and not stored.
///
/// After a step that has freed zones nothing of the file is read in the same transaction: those of
/// a damaged file may be among them, and what the cache held of them is forgotten.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn end(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (number, inode): (u32, &mut Inode),
    from: u64,
) -> Result<Step, Stop> {
    let budget = Budget { zones: MOST_ZONES, pages: Vec::new() };
    let names = inode.is_directory();
    let (path, freed) = (Vec::new(), Vec::new());
    let mut cut = Cut { tx, vol, number, names, from, budget, path, freed };
    let each = cut.vol.geometry.addresses() as u64;
    let first_of = |slot: usize| match slot.checked_sub(DIRECT) {
        None => slot as u64,
        Some(level) => DIRECT as u64 + (1..=level as u32).map(|n| each.pow(n)).sum::<u64>(),
    };
    for slot in (0..DIRECT + LEVELS).rev() {
        let (first, level) = (first_of(slot), slot.saturating_sub(DIRECT - 1));
        let span = each.pow(level as u32);
        let zone = inode.zones[slot];
        if first + span <= from {
            break;
        }
        if zone == 0 {
            continue;
        }
        let field = Slot::Inode(slot).field(&cut.vol.geometry, number);
        match cut.tree(zone, level as u32, first, field)? {
            Gone::All => inode.zones[slot] = 0,
            Gone::Enough => {}
            Gone::From(reached) => return cut.finish(reached),
        }
    }
    cut.finish(from)
}

struct Cut<'a> {
    tx: &'a mut dyn Tx,
    vol: &'a mut Volume,
    number: u32,
    /// It is a directory.
    names: bool,
    from: u64,
    budget: Budget,
    /// Indirect zones that lead to the present one.
    path: Vec<Zone>,
    /// Zones that go, those below another one before it.
    freed: Vec<GivenUp>,
}

impl Cut<'_> {
    /// Frees the zones that go.
    fn finish(self, reached: u64) -> Result<Step, Stop> {
        let Cut { tx, vol, freed, .. } = self;
        for given_up in freed {
            zones::free(tx, vol, given_up)?;
        }
        Ok(Step { reached })
    }

    /// Frees what an address leads to, from the end.
    fn tree(&mut self, zone: Zone, level: u32, first: u64, former: Field) -> Result<Gone, Stop> {
        let geometry = self.vol.geometry;
        if self.path.contains(&zone) {
            self.vol.meets(format!("zone {zone} leads to itself"));
            return Ok(Gone::All);
        }
        let first_below = self.freed.len();
        if level > 0 && geometry.is_data(zone) {
            self.path.push(zone);
            let gone = self.below(zone, level, first)?;
            self.path.pop();
            if !matches!(gone, Gone::All) {
                return Ok(gone);
            }
        }
        let map = geometry.zmap();
        let bit = if geometry.is_data(zone) { geometry.bit_of(zone) } else { 0 };
        // A zone of addresses goes with the last of those below it.
        let may = self.budget.frees(geometry.place_of(map.first + bit / map.zone_bits).page);
        if !may && level == 0 {
            return Ok(Gone::From(first + 1));
        }
        // What lies below is out of reach without this address.
        self.freed[first_below..].iter_mut().for_each(|below| below.former = former);
        let is_metadata = level > 0 || self.names;
        self.freed.push(GivenUp { zone, is_metadata, former });
        Ok(Gone::All)
    }

    fn below(&mut self, zone: Zone, level: u32, first: u64) -> Result<Gone, Stop> {
        let geometry = self.vol.geometry;
        let each = geometry.addresses();
        let span = (each as u64).pow(level - 1);
        let place = geometry.place_of(zone);
        if !self.budget.touches(place.page) {
            return Ok(Gone::From(first + span * each as u64));
        }
        let length = geometry.zone_bytes();
        let bytes = self.tx.part(place.page, place.at, length, PageKind::Indirect)?.to_vec();
        let mut stays = false;
        for entry in (0..each).rev() {
            let below = u32_at(&bytes, entry * ADDRESS_BYTES);
            let index = first + entry as u64 * span;
            if index + span <= self.from {
                stays = true;
                break;
            }
            if below == 0 {
                continue;
            }
            let place = entry_place(&geometry, zone, entry);
            match self.tree(below, level - 1, index, place.field(ADDRESS_BYTES))? {
                Gone::All => {
                    edit(self.tx, place, &[0; ADDRESS_BYTES], PageKind::Indirect)?;
                    self.tx.belongs(place.page, outer(self.number));
                }
                Gone::Enough => stays = true,
                gone => return Ok(gone),
            }
        }
        // What lies before the wanted index may be all holes: the indirect zone stays then.
        Ok(if stays || first < self.from { Gone::Enough } else { Gone::All })
    }
}
