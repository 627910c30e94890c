//! Check: walks all names from the root, counts what they lead to, and compares that with the maps
//! and the counts. It writes nothing.
//!
//! Phase 2 walks, and each zone gets its first owner. Phase 3 finds inodes that are in use and have
//! no name. Phase 4 compares counts of names, phase 5 the maps.
//!
//! Nothing of the format says whether the file system was unmounted, so every check is a whole one.

mod names;

use super::finding::{Finding, MOST_FINDINGS, Slot};
use super::store::Store;
use crate::error::FsError;
use crate::minix::ondisk::geometry::{ADDRESS_BYTES, Geometry, Map, Zone, load};
use crate::minix::ondisk::inode::{DIRECT, Inode, ROOT_INODE};
use crate::report::{self, Checked};
use seekless_engine::disk::Disk;
use seekless_fs::fields::u32_at;

/// A set of numbers.
#[derive(Clone, Debug, Default)]
pub struct Bits(Vec<u64>);

impl Bits {
    fn new(count: u64) -> Bits {
        Bits(vec![0; count.div_ceil(64) as usize])
    }

    /// True if a number is in the set.
    pub fn has(&self, number: u32) -> bool {
        self.0[number as usize / 64] >> (number % 64) & 1 == 1
    }

    /// Adds a number. False if it was in the set.
    fn insert(&mut self, number: u32) -> bool {
        let (word, bit) = (&mut self.0[number as usize / 64], 1 << (number % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn len(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// What a check has found.
#[derive(Debug)]
pub struct Findings {
    /// Phase by phase.
    pub list: Vec<Finding>,
    /// There were more than a check lists.
    pub cut: bool,
    /// Inodes that names lead to.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Zones in use, of data and of addresses, counted from zone 0.
    pub used: Bits,
}

impl From<Findings> for Checked {
    fn from(found: Findings) -> Checked {
        let boxed = |one| Box::new(one) as Box<dyn report::Finding>;
        Checked {
            fragments: found.used.len(),
            list: found.list.into_iter().map(boxed).collect(),
            cut: found.cut,
            // There is no mark that says otherwise.
            unmounted: true,
            recovers: false,
            inodes: found.inodes,
            directories: found.directories,
            superblocks: 1,
            journal: None,
        }
    }
}

/// Looks for damage.
///
/// # Errors
/// Those of [`load`], and errors of the volume.
pub fn check(disk: &mut dyn Disk) -> Result<Findings, FsError> {
    let geometry = load(disk)?;
    check_store(&mut Store::new(disk, geometry))
}

/// The same, over a store that may have changes.
///
/// # Errors
/// Errors of the volume.
pub(super) fn check_store(store: &mut Store<'_>) -> Result<Findings, FsError> {
    let geometry = store.geometry;
    let numbers = geometry.inodes() as usize + 1;
    let mut check = Check {
        store,
        geometry,
        list: Vec::new(),
        cut: false,
        used: Bits::new(u64::from(geometry.zones())),
        names: vec![0; numbers],
        seen: Bits::new(numbers as u64),
        directories: 0,
        inodes: 0,
    };
    check.run()?;
    let Check { list, cut, used, directories, inodes, .. } = check;
    Ok(Findings { list, cut, inodes, directories, used })
}

struct Check<'c, 'd> {
    store: &'c mut Store<'d>,
    geometry: Geometry,
    list: Vec<Finding>,
    cut: bool,
    /// Zones with an owner.
    used: Bits,
    /// Names of each inode.
    names: Vec<u32>,
    /// Inodes that names lead to.
    seen: Bits,
    directories: u64,
    inodes: u64,
}

/// The object of which zones are taken.
#[derive(Clone, Copy)]
struct Owner {
    ino: u32,
    /// Zones up to its size.
    end: u64,
    /// What is wrong with them is noted.
    notes: bool,
}

impl Check<'_, '_> {
    fn add(&mut self, finding: Finding) {
        match self.list.len() < MOST_FINDINGS {
            true => self.list.push(finding),
            false => self.cut = true,
        }
    }

    fn run(&mut self) -> Result<(), FsError> {
        let root = self.store.inode(ROOT_INODE)?;
        match root.is_directory() {
            true => self.walk()?,
            false => self.add(Finding::NoRoot { mode: root.mode }),
        }
        let imap = self.map(self.geometry.imap())?;
        self.nameless(&imap)?;
        self.links()?;
        self.inode_map(&imap);
        let zmap = self.map(self.geometry.zmap())?;
        self.zone_map(&zmap);
        let unreadable: Vec<u64> = self.store.unreadable().collect();
        for page in unreadable {
            self.add(Finding::Unreadable { page });
        }
        self.list.sort_by_key(report::Finding::phase);
        Ok(())
    }

    /// The bits of a map.
    fn map(&mut self, map: Map) -> Result<Bits, FsError> {
        let mut bits = Bits::new(u64::from(map.bits).next_multiple_of(u64::from(map.zone_bits)));
        let words = map.zone_bits as usize / 64;
        for zone in 0..map.zones() {
            let bytes = self.store.zone(map.first + zone)?;
            let at = zone as usize * words;
            for (word, bytes) in bits.0[at..at + words].iter_mut().zip(bytes.chunks_exact(8)) {
                *word = seekless_fs::fields::u64_at(bytes, 0);
            }
        }
        Ok(bits)
    }

    /// Takes the zones of an inode. What is wrong with them is noted if a name leads to it.
    fn claim(&mut self, number: u32, inode: &Inode, notes: bool) -> Result<(), FsError> {
        if !inode.has_zones() {
            return Ok(());
        }
        let end = self.geometry.size_zones(u64::from(inode.size));
        let owner = Owner { ino: number, end, notes };
        let mut first = 0;
        for (index, &zone) in inode.zones.iter().enumerate() {
            let level = index.saturating_sub(DIRECT - 1) as u32;
            self.address(owner, Slot::Inode(number, index), (zone, level), first)?;
            first += self.span(level);
        }
        Ok(())
    }

    /// Zones of a file that an address leads to at most.
    fn span(&self, level: u32) -> u64 {
        (self.geometry.addresses() as u64).pow(level)
    }

    /// Takes what an address leads to, which is the part of the file from a zone on.
    fn address(
        &mut self,
        owner: Owner,
        slot: Slot,
        (zone, level): (Zone, u32),
        first: u64,
    ) -> Result<(), FsError> {
        let Owner { ino, end, notes } = owner;
        if zone == 0 {
            return Ok(());
        }
        if notes && first >= end {
            // A file that grows would show what lies there.
            self.add(Finding::BehindEnd { ino, zone, slot });
            return Ok(());
        }
        if !self.geometry.is_data(zone) {
            if notes {
                self.add(Finding::BadAddress { ino, zone, slot });
            }
            return Ok(());
        }
        if !self.used.insert(zone) {
            if notes {
                self.add(Finding::Duplicate { ino, zone, slot });
            }
            return Ok(());
        }
        if level == 0 {
            return Ok(());
        }
        let place = self.geometry.place_of(zone);
        let bytes = self.store.zone(zone)?.to_vec();
        for entry in 0..self.geometry.addresses() {
            let zone = u32_at(&bytes, entry * ADDRESS_BYTES);
            let slot = Slot::Indirect(place.plus(entry * ADDRESS_BYTES));
            let first = first + entry as u64 * self.span(level - 1);
            self.address(owner, slot, (zone, level - 1), first)?;
        }
        Ok(())
    }

    /// Inodes that are in use and have no name. Their zones are not free while they are not.
    fn nameless(&mut self, imap: &Bits) -> Result<(), FsError> {
        for ino in 1..=self.geometry.inodes() {
            if !imap.has(ino) || self.seen.has(ino) {
                continue;
            }
            let inode = self.store.inode(ino)?;
            self.add(Finding::Nameless { ino, links: inode.links, size: inode.size });
            self.claim(ino, &inode, false)?;
        }
        Ok(())
    }

    fn links(&mut self) -> Result<(), FsError> {
        for ino in 1..=self.geometry.inodes() {
            if !self.seen.has(ino) {
                continue;
            }
            let stored = self.store.inode(ino)?.links;
            let right = u16::try_from(self.names[ino as usize]).unwrap_or(u16::MAX);
            if stored != right {
                self.add(Finding::WrongLinks { ino, stored, right });
            }
        }
        Ok(())
    }

    fn inode_map(&mut self, imap: &Bits) {
        for ino in 1..=self.geometry.inodes() {
            if self.seen.has(ino) && !imap.has(ino) {
                self.add(Finding::UnmarkedInode { ino });
            }
        }
    }

    /// Runs of zones of which the bits are wrong.
    fn zone_map(&mut self, zmap: &Bits) {
        let mut run: Option<(bool, Zone, u32)> = None;
        for zone in self.geometry.first_data()..=self.geometry.zones() {
            let wrong = (zone < self.geometry.zones()).then(|| {
                let (is_used, is_marked) =
                    (self.used.has(zone), zmap.has(self.geometry.bit_of(zone)));
                (is_used != is_marked).then_some(is_used)
            });
            let wrong = wrong.flatten();
            match (&mut run, wrong) {
                (Some((is_used, _, count)), Some(same)) if *is_used == same => *count += 1,
                _ => {
                    if let Some((is_used, zone, count)) = run.take() {
                        self.add(match is_used {
                            true => Finding::UnmarkedZones { zone, count },
                            false => Finding::Leaked { zone, count },
                        });
                    }
                    run = wrong.map(|is_used| (is_used, zone, 1));
                }
            }
        }
    }
}
