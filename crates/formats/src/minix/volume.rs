//! What a mount knows in memory: counts of free space, where to search, and zones that are not to
//! be used again yet.
//!
//! An operation that stops leaves it as it was: changes are noted and taken back by
//! [`Volume::roll_back`]. All of it but [`Volume::held`] can be read again from the volume.

use super::ondisk::geometry::{Geometry, Zone};
use seekless_fs::cow::CowMap;
use seekless_fs::cow::CowSet;
use seekless_fs::tx::BlockNo;
use std::collections::BTreeSet;

/// Which of the two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// That of inodes.
    Inodes,
    /// That of zones.
    Zones,
}

/// Where a search for something free begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rotors {
    inode: u32,
    zone: u32,
}

/// How to take back a change.
#[derive(Clone, Copy, Debug)]
enum Undo {
    /// A zone of a map has so many free bits more or less.
    Free((Which, u32), i32),
    /// A zone was held, or let go.
    Held(Zone, bool),
}

/// The volume, as far as a mount knows it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Where things lie.
    pub geometry: Geometry,
    /// Free bits of each zone of a map that has some.
    free: CowMap<(Which, u32), u32>,
    /// All of them: inodes, zones.
    all_free: [u64; 2],
    rotors: Rotors,
    /// Free zones that something on the disk may still lead to: no data may go there yet.
    held: CowSet<Zone>,
    /// Directories above others, as lookups have found them.
    parents: CowMap<u32, u32>,
    new_parents: Vec<(u32, Option<u32>)>,
    /// Pages of the maps that cannot be read.
    closed: BTreeSet<BlockNo>,
    /// What contradicts itself, if anything was met.
    damage: Option<String>,
    undo: Vec<Undo>,
    old_rotors: Rotors,
}

impl Volume {
    /// A volume of which no map is loaded.
    pub fn new(geometry: Geometry) -> Volume {
        Volume {
            geometry,
            free: CowMap::default(),
            all_free: [0; 2],
            rotors: Rotors::default(),
            held: CowSet::default(),
            parents: CowMap::default(),
            new_parents: Vec::new(),
            closed: BTreeSet::new(),
            damage: None,
            undo: Vec::new(),
            old_rotors: Rotors::default(),
        }
    }

    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.free.share(|_| {});
        self.held.share();
        self.parents.share(|_| {});
    }

    /// The operation has succeeded.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.old_rotors = self.rotors;
        for (dir, parent) in std::mem::take(&mut self.new_parents) {
            match parent {
                Some(parent) => _ = self.parents.insert(dir, parent),
                None => _ = self.parents.remove(&dir),
            }
        }
    }

    /// The operation has stopped.
    pub fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Free(zone, by) => self.add_free(zone, -by),
                Undo::Held(zone, true) => _ = self.held.remove(&zone),
                Undo::Held(zone, false) => _ = self.held.insert(zone),
            }
        }
        self.rotors = self.old_rotors;
        self.new_parents.clear();
    }

    fn add_free(&mut self, zone: (Which, u32), by: i32) {
        let all = &mut self.all_free[zone.0 as usize];
        *all = all.saturating_add_signed(i64::from(by));
        let left = self.free.get(&zone).copied().unwrap_or(0).saturating_add_signed(by);
        match left {
            0 => _ = self.free.remove(&zone),
            left => _ = self.free.insert(zone, left),
        }
    }

    /// A zone of a map has free bits, as the mount has found it.
    pub fn load(&mut self, zone: (Which, u32), free: u32) {
        self.add_free(zone, free as i32);
    }

    /// A zone of a map has more free bits, or fewer.
    pub fn change_free(&mut self, zone: (Which, u32), by: i32) {
        self.undo.push(Undo::Free(zone, by));
        self.add_free(zone, by);
    }

    /// Free bits of a zone of a map.
    pub fn free_in(&self, zone: (Which, u32)) -> u32 {
        self.free.get(&zone).copied().unwrap_or(0)
    }

    /// Free bits of a map, without those of zones that are held.
    pub fn free(&self, which: Which) -> u64 {
        self.all_free[which as usize]
    }

    /// The bit with which a search begins.
    pub fn rotor(&self, which: Which) -> u32 {
        match which {
            Which::Inodes => self.rotors.inode,
            Which::Zones => self.rotors.zone,
        }
    }

    /// The next search begins here.
    pub fn set_rotor(&mut self, which: Which, bit: u32) {
        match which {
            Which::Inodes => self.rotors.inode = bit,
            Which::Zones => self.rotors.zone = bit,
        }
    }

    /// A zone is free, and no data may go there until [`Volume::let_go`].
    pub fn hold(&mut self, zone: Zone) {
        if self.held.insert(zone) {
            self.undo.push(Undo::Held(zone, true));
        }
    }

    /// Data may go there. False if the zone was not held.
    pub fn let_go(&mut self, zone: Zone) -> bool {
        let was_held = self.held.remove(&zone);
        if was_held {
            self.undo.push(Undo::Held(zone, false));
        }
        was_held
    }

    /// True if no data may go there.
    pub fn is_held(&self, zone: Zone) -> bool {
        self.held.contains(&zone)
    }

    /// Zones that are held.
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// The directory above another one, if an operation has found it.
    pub fn parent(&self, dir: u32) -> Option<u32> {
        self.parents.get(&dir).copied()
    }

    /// A directory has this one above it, or is gone.
    pub fn set_parent(&mut self, dir: u32, parent: Option<u32>) {
        self.new_parents.push((dir, parent));
    }

    /// A page of the maps cannot be read: nothing is allocated there. False if that is known.
    pub fn close(&mut self, page: BlockNo) -> bool {
        let is_new = self.closed.insert(page);
        if is_new {
            self.meets(format!("the maps in block {page} of the volume cannot be read"));
        }
        is_new
    }

    /// True if a page of the maps cannot be read.
    pub fn is_closed(&self, page: BlockNo) -> bool {
        self.closed.contains(&page)
    }

    /// Something contradicts itself. The first of such things is kept.
    pub fn meets(&mut self, damage: String) {
        self.damage.get_or_insert(damage);
    }

    /// What contradicts itself, if anything was met.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minix::ondisk::superblock::Superblock;

    fn volume() -> Volume {
        let superblock = Superblock {
            inodes: 64,
            imap_blocks: 1,
            zmap_blocks: 1,
            first_data: 8,
            log_zone_size: 0,
            max_size: 1 << 30,
            zones: 100,
            block_bytes: 1024,
        };
        Volume::new(Geometry::new(&superblock).expect("possible"))
    }

    #[test]
    fn an_operation_that_stops_leaves_nothing_behind() {
        let mut volume = volume();
        volume.load((Which::Zones, 0), 10);
        volume.hold(20);
        volume.set_parent(3, Some(2));
        volume.commit();
        volume.change_free((Which::Zones, 0), -10);
        assert_eq!((volume.free(Which::Zones), volume.free_in((Which::Zones, 0))), (0, 0));
        assert!(volume.let_go(20) && !volume.let_go(20));
        volume.hold(21);
        volume.set_rotor(Which::Zones, 9);
        volume.set_parent(3, None);
        volume.roll_back();
        assert_eq!((volume.free(Which::Zones), volume.free_in((Which::Zones, 0))), (10, 10));
        assert!(volume.is_held(20) && !volume.is_held(21));
        assert_eq!((volume.rotor(Which::Zones), volume.parent(3)), (0, Some(2)));
    }
}
