//! Repair: rounds of check and of changes, one for each finding, until a check finds nothing.
//!
//! What no name leads to is freed, as `fsck.minix -a` does; there is no `lost+found`. The first
//! owner of a zone keeps it. The maps and the counts are made anew from what names lead to. Without
//! a root directory nothing can be told from what is free, so such a file system is not repaired.

use super::check::{Findings, check_store};
use super::finding::{Finding, Slot};
use super::store::Store;
use crate::error::FsError;
use crate::minix::ondisk::entry::{self, ENTRY_BYTES, NUMBER_BYTES};
use crate::minix::ondisk::geometry::{Map, Place, Zone, load};
use crate::minix::ondisk::inode::{DIRECT, Inode, ROOT_INODE};
use crate::report::{self, Repaired};
use seekless_engine::disk::Disk;
use seekless_fs::fields::put;
use std::collections::BTreeSet;

/// Rounds at most. What a round frees may leave the next one leaks, and those are the end of it.
const MOST_ROUNDS: u32 = 16;

/// Repairs all that a check finds.
///
/// # Errors
/// Those of [`load`]; [`FsError::NotRepaired`] without a root directory, or if findings remain;
/// [`FsError::BadMinix`] if the medium cannot read metadata; errors of the volume.
pub fn repair(disk: &mut dyn Disk) -> Result<Repaired, FsError> {
    let geometry = load(disk)?;
    let mut store = Store::new(disk, geometry);
    let mut repaired = Repaired::default();
    for _ in 0..MOST_ROUNDS {
        let found = check_store(&mut store)?;
        if found.list.is_empty() {
            return Ok(repaired);
        }
        refuse(&found)?;
        Fixer { store: &mut store, found: &found, taken: BTreeSet::new() }
            .fix_all(&mut repaired)?;
        store.write_back()?;
        let boxed = |one| Box::new(one) as Box<dyn report::Finding>;
        repaired.list.extend(found.list.into_iter().map(boxed));
    }
    match check_store(&mut store)?.list.len() {
        0 => Ok(repaired),
        left => Err(FsError::NotRepaired { left: left as u64 }),
    }
}

/// Refuses what a repair would make worse.
fn refuse(found: &Findings) -> Result<(), FsError> {
    for finding in &found.list {
        match finding {
            Finding::NoRoot { .. } => {
                return Err(FsError::NotRepaired { left: found.list.len() as u64 });
            }
            Finding::Unreadable { page } => {
                return Err(FsError::BadMinix(format!(
                    "the medium cannot read block {page} of the volume; copy what can be read"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

struct Fixer<'f, 'd> {
    store: &'f mut Store<'d>,
    found: &'f Findings,
    /// Zones that this round has given to directories.
    taken: BTreeSet<Zone>,
}

impl Fixer<'_, '_> {
    fn fix_all(&mut self, repaired: &mut Repaired) -> Result<(), FsError> {
        for finding in &self.found.list {
            if let Some(lost) = lost(finding) {
                repaired.lost.push(lost);
            }
            self.fix(finding)?;
        }
        Ok(())
    }

    fn fix(&mut self, finding: &Finding) -> Result<(), FsError> {
        match *finding {
            Finding::Unreadable { .. } | Finding::NoRoot { .. } => Ok(()),
            Finding::TooLarge { ino, most, .. } => self.change(ino, |inode| inode.size = most),
            Finding::DirectorySize { ino, right, .. } => {
                self.change(ino, |inode| inode.size = right)
            }
            Finding::BadAddress { slot, .. }
            | Finding::BehindEnd { slot, .. }
            | Finding::Duplicate { slot, .. } => match slot {
                Slot::Inode(ino, index) => self.change(ino, |inode| inode.zones[index] = 0),
                Slot::Indirect(place) => self.store.set(place, &[0; NUMBER_BYTES]),
            },
            Finding::Entry { place, .. } | Finding::DirectoryTwice { place, .. } => {
                self.store.set(place, &[0; NUMBER_BYTES])
            }
            Finding::BadDots { ino, parent } => self.dots(ino, parent),
            Finding::WrongParent { right, place, .. } => {
                self.store.set(place, &right.to_le_bytes())
            }
            Finding::WrongLinks { ino, right, .. } => self.change(ino, |inode| inode.links = right),
            Finding::Nameless { ino, .. } => {
                self.store.set_inode(ino, &Inode::default())?;
                self.mark(self.store.geometry.imap(), ino, false)
            }
            Finding::UnmarkedInode { ino } => self.mark(self.store.geometry.imap(), ino, true),
            Finding::UnmarkedZones { zone, count } => self.mark_zones(zone, count, true),
            Finding::Leaked { zone, count } => self.mark_zones(zone, count, false),
        }
    }

    fn change(&mut self, ino: u32, change: impl FnOnce(&mut Inode)) -> Result<(), FsError> {
        let mut inode = self.store.inode(ino)?;
        change(&mut inode);
        self.store.set_inode(ino, &inode)
    }

    fn mark(&mut self, map: Map, bit: u32, used: bool) -> Result<(), FsError> {
        let zone = self.store.geometry.place_of(map.first + bit / map.zone_bits);
        let bit = bit % map.zone_bits;
        let place = zone.plus(bit as usize / 8);
        let byte = self.store.bytes(place, 1)?[0];
        let mask = 1 << (bit % 8);
        self.store.set(place, &[if used { byte | mask } else { byte & !mask }])
    }

    fn mark_zones(&mut self, zone: Zone, count: u32, used: bool) -> Result<(), FsError> {
        let geometry = self.store.geometry;
        for zone in zone..zone + count {
            if used || !self.taken.contains(&zone) {
                self.mark(geometry.zmap(), geometry.bit_of(zone), used)?;
            }
        }
        Ok(())
    }

    /// Gives a directory its first two entries, in a new zone if it has none.
    fn dots(&mut self, ino: u32, parent: u32) -> Result<(), FsError> {
        let geometry = self.store.geometry;
        let mut inode = self.store.inode(ino)?;
        let mut first = inode.zones[0];
        if !geometry.is_data(first) {
            let zones = geometry.first_data()..geometry.zones();
            let is_free = |&zone: &Zone| !self.found.used.has(zone) && !self.taken.contains(&zone);
            let Some(free) = zones.into_iter().find(is_free) else {
                // Without a zone it cannot be a directory. Its name goes in the next round.
                return match ino {
                    ROOT_INODE => Err(FsError::NotRepaired { left: self.found.list.len() as u64 }),
                    _ => self.store.set_inode(ino, &Inode::default()),
                };
            };
            self.taken.insert(free);
            self.store.set(geometry.place_of(free), &vec![0; geometry.zone_bytes()])?;
            self.mark(geometry.zmap(), geometry.bit_of(free), true)?;
            (inode.zones[0], first) = (free, free);
        }
        inode.size = inode.size.max(2 * ENTRY_BYTES as u32);
        self.store.set_inode(ino, &inode)?;
        let mut dots = [0; 2 * ENTRY_BYTES];
        put(&mut dots, 0, &entry::encode(ino, b"."));
        put(&mut dots, ENTRY_BYTES, &entry::encode(parent, b".."));
        let place: Place = geometry.place_of(first);
        self.store.set(place, &dots)
    }
}

/// What a repair of a finding loses that may have been a file.
fn lost(finding: &Finding) -> Option<String> {
    match finding {
        Finding::Nameless { ino, links, size } if *links > 0 => {
            Some(format!("inode {ino} of {size} bytes had no name, and is freed"))
        }
        Finding::Duplicate { ino, zone, slot } | Finding::BadAddress { ino, zone, slot } => {
            let what = match slot {
                Slot::Inode(_, index) if *index >= DIRECT => "the addresses in zone",
                _ => "zone",
            };
            Some(format!("inode {ino} has a hole where it had {what} {zone}"))
        }
        Finding::TooLarge { ino, most, .. } => Some(format!("inode {ino} is cut to {most} bytes")),
        Finding::Entry { dir, name, why, .. } => {
            Some(format!("the name `{name}` in directory {dir}, which {why}"))
        }
        Finding::BadDots { ino, .. } => {
            Some(format!("what directory {ino} had in place of `.` and `..`"))
        }
        _ => None,
    }
}
