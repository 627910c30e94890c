//! Maps of files: from the index of a zone in its file to its number.
//!
//! An inode has seven addresses of data and one indirect zone of each of three levels.

use super::zones;
use crate::minix::inodes::{address_field, edit, outer};
use crate::minix::ondisk::geometry::{ADDRESS_BYTES, Geometry, Place, Zone};
use crate::minix::ondisk::inode::{DIRECT, Inode, LEVELS};
use crate::minix::volume::Volume;
use seekless_fs::call::Errno;
use seekless_fs::fields::u32_at;
use seekless_fs::tx::{Field, Need, PageKind, Role, Stop, Tx, Why};

/// The way to a zone of a file: an address of the inode, then one in each indirect zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The index among the addresses of the inode.
    pub slot: usize,
    /// The index in the indirect zone of each level, from the inode on; the first `levels` count.
    pub steps: [usize; LEVELS],
    /// Indirect zones on the way.
    pub levels: usize,
}

/// The way to a zone of a file; none behind what addresses reach.
pub fn way(geometry: &Geometry, index: u64) -> Option<Way> {
    if index < DIRECT as u64 {
        return Some(Way { slot: index as usize, steps: [0; LEVELS], levels: 0 });
    }
    let each = geometry.addresses() as u64;
    let mut rest = index - DIRECT as u64;
    let mut span = each;
    for levels in 1..=LEVELS {
        if rest < span {
            let mut steps = [0; LEVELS];
            for (step, below) in steps[..levels].iter_mut().zip((0..levels as u32).rev()) {
                *step = (rest / each.pow(below) % each) as usize;
            }
            return Some(Way { slot: DIRECT + levels - 1, steps, levels });
        }
        rest -= span;
        span *= each;
    }
    None
}

/// Where an indirect zone has an address.
pub fn entry_place(geometry: &Geometry, zone: Zone, entry: usize) -> Place {
    geometry.place_of(zone).plus(entry * ADDRESS_BYTES)
}

/// An address in an indirect zone.
fn entry(tx: &mut dyn Tx, geometry: &Geometry, zone: Zone, entry: usize) -> Result<Zone, Stop> {
    let place = entry_place(geometry, zone, entry);
    let (first, length) = place.sectors(ADDRESS_BYTES);
    let sector = tx.part(place.page, first, length, PageKind::Indirect)?;
    Ok(u32_at(sector, place.at - first))
}

/// Refuses an address that lies outside the data.
fn checked(geometry: &Geometry, zone: Zone) -> Result<Zone, Stop> {
    if zone == 0 || geometry.is_data(zone) { Ok(zone) } else { Err(Errno::Io.into()) }
}

/// The zone of a file at an index; 0 for a hole.
///
/// # Errors
/// [`Errno::Io`] for an address outside the data; those of [`Tx::page`].
pub fn address(tx: &mut dyn Tx, vol: &Volume, inode: &Inode, index: u64) -> Result<Zone, Stop> {
    let Some(way) = way(&vol.geometry, index) else { return Ok(0) };
    let mut zone = checked(&vol.geometry, inode.zones[way.slot])?;
    for &step in &way.steps[..way.levels] {
        if zone == 0 {
            return Ok(0);
        }
        zone = checked(&vol.geometry, entry(tx, &vol.geometry, zone, step)?)?;
    }
    Ok(zone)
}

/// The zone of a file at an index, allocated if there is none, and whether it is new.
///
/// # Errors
/// [`Errno::FBig`] behind what addresses reach; [`Stop::NoRoom`]; those of [`address`].
pub fn ensure(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (number, inode): (u32, &mut Inode),
    index: u64,
    kind: PageKind,
) -> Result<(Zone, bool), Stop> {
    let geometry = vol.geometry;
    let way = way(&geometry, index).ok_or(Errno::FBig)?;
    let mut wish = wish(tx, vol, inode, index)?;
    let mut slot = Slot::Inode(way.slot);
    for level in 0..=way.levels {
        let old = checked(&geometry, slot.get(tx, &geometry, inode)?)?;
        let is_last = level == way.levels;
        let zone = match old {
            0 => {
                let kind = if is_last { kind } else { PageKind::Indirect };
                let zone = zones::allocate(tx, vol, wish, kind)?;
                slot.set(tx, &geometry, (number, inode), zone)?;
                tx.belongs(geometry.place_of(zone).page, outer(number));
                if kind != PageKind::Data {
                    not_before(tx, slot.field(&geometry, number), geometry.field_of(zone));
                }
                wish = Some(zone + 1);
                zone
            }
            zone => zone,
        };
        if is_last {
            return Ok((zone, old == 0));
        }
        slot = Slot::Indirect(zone, way.steps[level]);
    }
    unreachable!("the last level returns")
}

/// Keeps a new address of metadata from the disk until the metadata is there. Without seals a check
/// would take what the zone held before for addresses or names.
fn not_before(tx: &mut dyn Tx, address: Field, content: Field) {
    if tx.guards_moves() {
        let need = Need { field: content, why: Why::Moved };
        tx.guard_moved(&[(address, &[0; ADDRESS_BYTES])], &[need], Role::Replaces);
    }
}

/// Behind the zone before, where there is one.
fn wish(tx: &mut dyn Tx, vol: &Volume, inode: &Inode, index: u64) -> Result<Option<Zone>, Stop> {
    let Some(before) = index.checked_sub(1) else { return Ok(None) };
    Ok(match address(tx, vol, inode, before)? {
        0 => None,
        zone => Some(zone + 1),
    })
}

/// Where an address lies.
#[derive(Clone, Copy, Debug)]
pub enum Slot {
    /// In the inode.
    Inode(usize),
    /// In an indirect zone.
    Indirect(Zone, usize),
}

impl Slot {
    /// The address.
    ///
    /// # Errors
    /// Those of [`Tx::page`].
    pub fn get(self, tx: &mut dyn Tx, geometry: &Geometry, inode: &Inode) -> Result<Zone, Stop> {
        match self {
            Slot::Inode(slot) => Ok(inode.zones[slot]),
            Slot::Indirect(zone, step) => entry(tx, geometry, zone, step),
        }
    }

    /// Its bytes.
    pub fn field(self, geometry: &Geometry, number: u32) -> Field {
        match self {
            Slot::Inode(slot) => address_field(geometry, number, slot),
            Slot::Indirect(zone, step) => entry_place(geometry, zone, step).field(ADDRESS_BYTES),
        }
    }

    /// Replaces the address. That of an inode is stored with the inode.
    ///
    /// # Errors
    /// Those of [`Tx::page`].
    pub fn set(
        self,
        tx: &mut dyn Tx,
        geometry: &Geometry,
        (number, inode): (u32, &mut Inode),
        to: Zone,
    ) -> Result<(), Stop> {
        match self {
            Slot::Inode(slot) => {
                inode.zones[slot] = to;
                Ok(())
            }
            Slot::Indirect(zone, step) => {
                let place = entry_place(geometry, zone, step);
                edit(tx, place, &to.to_le_bytes(), PageKind::Indirect)?;
                tx.belongs(place.page, outer(number));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minix::ondisk::superblock::Superblock;
    use proptest::prelude::*;

    fn geometry() -> Geometry {
        let superblock = Superblock {
            inodes: 64,
            imap_blocks: 1,
            zmap_blocks: 1,
            first_data: 8,
            log_zone_size: 0,
            max_size: u32::MAX,
            zones: 100,
            block_bytes: 1024,
        };
        Geometry::new(&superblock).expect("possible")
    }

    proptest! {
        /// The numbers of a way, put together again, are the index.
        #[test]
        fn a_way_leads_to_its_index(index in 0_u64..20_000_000) {
            let each = 256_u64;
            let Some(way) = way(&geometry(), index) else {
                prop_assert!(index >= 7 + each + each * each + each * each * each);
                return Ok(());
            };
            let before: u64 = (1..way.levels as u32).map(|level| each.pow(level)).sum();
            let steps = way.steps[..way.levels].iter();
            let within = steps.fold(0, |sum, &step| sum * each + step as u64);
            let found = match way.levels {
                0 => way.slot as u64,
                _ => 7 + before + within,
            };
            prop_assert_eq!(found, index);
        }
    }
}
