//! The state of the zones of a host-managed shingled disk, and the requests it allows.
//!
//! The rules are those of ZBC and ZAC: a sequential zone is written at its write pointer only,
//! conventional zones are free, and a zone becomes empty as a whole.
//!
//! The number of open zones is limited. Only writes open zones here. If a write would exceed the
//! limit, the disk closes another zone, as these standards define. (INSUFFICIENT ZONE RESOURCES is
//! for zones that were opened by command, which it may not close.) A closed zone keeps its write
//! pointer, and a write opens it again; closing costs no time here. So a host cannot tell which of
//! the partly written zones are closed, and this is not stored. A second limit, as ZNS has it, is
//! for partly written zones, open or closed: beyond it a write to an empty zone is refused.

use crate::spec::Zoned;
use seekless_engine::io::ZoneRule;
use std::collections::{BTreeMap, BTreeSet};

/// The zones of a disk. Only zones that were written take memory.
#[derive(Clone, Debug)]
pub struct Zones {
    rules: Zoned,
    sectors: u64,
    /// Sectors written in each zone that is neither empty nor full: it is open or closed.
    active: BTreeMap<u64, u64>,
    full: BTreeSet<u64>,
}

impl Zones {
    /// Empty zones on a disk of so many sectors.
    pub fn new(rules: Zoned, sectors: u64) -> Zones {
        Zones { rules, sectors, active: BTreeMap::new(), full: BTreeSet::new() }
    }

    fn zone(&self, lbn: u64) -> Option<u64> {
        let zone = lbn / self.rules.zone_sectors;
        (zone >= u64::from(self.rules.conventional_zones)).then_some(zone)
    }

    fn size(&self, zone: u64) -> u64 {
        self.rules.zone_sectors.min(self.sectors - zone * self.rules.zone_sectors)
    }

    /// The write pointer of a sequential zone, as a sector number of the disk.
    pub fn pointer(&self, zone: u64) -> u64 {
        let written = match self.full.contains(&zone) {
            true => self.size(zone),
            false => self.active.get(&zone).copied().unwrap_or(0),
        };
        zone * self.rules.zone_sectors + written
    }

    /// Zones that are written in part.
    pub fn active(&self) -> u32 {
        self.active.len() as u32
    }

    /// Open zones: the partly written ones, up to the limit.
    pub fn open(&self) -> u32 {
        self.active().min(self.rules.max_open)
    }

    /// A write: moves the write pointer if it is allowed.
    ///
    /// # Errors
    /// A violation; the state is then unchanged.
    pub fn write(&mut self, lbn: u64, sectors: u64) -> Result<(), ZoneRule> {
        let first = lbn / self.rules.zone_sectors;
        let last = (lbn + sectors.max(1) - 1) / self.rules.zone_sectors;
        let Some(zone) = self.zone(lbn) else {
            // A write over the end of the last conventional zone crosses a boundary.
            return match self.zone(lbn + sectors.max(1) - 1) {
                Some(_) => Err(ZoneRule::WriteBoundary),
                None => Ok(()),
            };
        };
        if first != last {
            return Err(ZoneRule::WriteBoundary);
        }
        if lbn != self.pointer(zone) {
            return Err(ZoneRule::UnalignedWrite);
        }
        let most = self.rules.max_active.unwrap_or(u32::MAX);
        if !self.active.contains_key(&zone) && self.active() >= most {
            return Err(ZoneRule::TooManyOpen);
        }
        let written = lbn + sectors - zone * self.rules.zone_sectors;
        if written == self.size(zone) {
            self.active.remove(&zone);
            self.full.insert(zone);
        } else {
            self.active.insert(zone, written);
        }
        Ok(())
    }

    /// A read.
    ///
    /// # Errors
    /// Sectors that were not written, unless the rules allow them; sectors of two zones of which
    /// one is sequential.
    pub fn read(&self, lbn: u64, sectors: u64) -> Result<(), ZoneRule> {
        let end = lbn + sectors;
        let Some(zone) = self.zone(end.max(1) - 1) else { return Ok(()) };
        if self.rules.read_unwritten {
            return Ok(());
        }
        if lbn / self.rules.zone_sectors != zone {
            return Err(ZoneRule::ReadBoundary);
        }
        if end > self.pointer(zone) {
            return Err(ZoneRule::ReadInvalid);
        }
        Ok(())
    }

    /// RESET WRITE POINTER for all sequential zones of a range: they are empty again. Conventional
    /// zones have no pointer; any part of them may be trimmed.
    ///
    /// # Errors
    /// A sequential zone of which the range has a part only; the state is then unchanged.
    pub fn reset(&mut self, lbn: u64, sectors: u64) -> Result<(), ZoneRule> {
        let size = self.rules.zone_sectors;
        let end = lbn + sectors;
        let first = (lbn / size).max(u64::from(self.rules.conventional_zones));
        let zones = first..end.div_ceil(size).max(first);
        let whole = |zone: u64| lbn <= zone * size && zone * size + self.size(zone) <= end;
        // Zones between the first and the last are whole.
        let ends = [zones.start, zones.end.saturating_sub(1)];
        if !zones.is_empty() && !ends.into_iter().all(whole) {
            return Err(ZoneRule::PartialReset);
        }
        let active: Vec<u64> = self.active.range(zones.clone()).map(|(&zone, _)| zone).collect();
        let full: Vec<u64> = self.full.range(zones).copied().collect();
        for zone in active.into_iter().chain(full) {
            self.active.remove(&zone);
            self.full.remove(&zone);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Zoned = Zoned {
        zone_sectors: 64,
        conventional_zones: 1,
        max_open: 2,
        max_active: None,
        read_unwritten: false,
    };

    #[test]
    fn a_write_that_opens_one_zone_too_many_closes_another() {
        let mut zones = Zones::new(RULES, 64 * 5);
        for zone in 1..5 {
            assert_eq!(zones.write(64 * zone, 8), Ok(()));
        }
        assert_eq!((zones.open(), zones.active()), (2, 4));
        // A closed zone continues at its write pointer.
        for zone in 1..5 {
            assert_eq!(zones.write(64 * zone, 8), Err(ZoneRule::UnalignedWrite));
            assert_eq!(zones.write(64 * zone + 8, 56), Ok(()));
        }
        assert_eq!((zones.open(), zones.active()), (0, 0));
    }

    #[test]
    fn sequential_zones_are_written_in_order() {
        let mut zones = Zones::new(Zoned { max_active: Some(2), ..RULES }, 64 * 5);
        assert_eq!(zones.write(8, 8), Ok(()));
        assert_eq!(zones.write(60, 8), Err(ZoneRule::WriteBoundary));
        assert_eq!(zones.write(72, 8), Err(ZoneRule::UnalignedWrite));
        assert_eq!(zones.write(64, 8), Ok(()));
        assert_eq!(zones.read(64, 8), Ok(()));
        assert_eq!(zones.read(64, 9), Err(ZoneRule::ReadInvalid));
        assert_eq!(zones.write(128, 8), Ok(()));
        assert_eq!(zones.write(192, 8), Err(ZoneRule::TooManyOpen));
        assert_eq!(zones.write(72, 56), Ok(()));
        assert_eq!((zones.open(), zones.pointer(1)), (1, 128));
        assert_eq!(zones.write(192, 8), Ok(()));
        assert!(zones.write(64, 8).is_err());
        assert_eq!(zones.reset(64, 32), Err(ZoneRule::PartialReset));
        assert_eq!(zones.reset(0, 65), Err(ZoneRule::PartialReset));
        assert_eq!(zones.pointer(1), 128);
        assert_eq!(zones.reset(32, 96), Ok(()), "of a conventional zone any part");
        assert_eq!((zones.pointer(1), zones.pointer(2)), (64, 136));
        assert_eq!(zones.reset(0, 64 * 5), Ok(()));
        assert_eq!(zones.open(), 0);
    }
}
