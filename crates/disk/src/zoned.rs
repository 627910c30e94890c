//! What a host-managed shingled disk allows: the state of its zones.
//!
//! The rules are those of ZBC and ZAC: a sequential zone is written at its write pointer only, at
//! most so many zones are open, conventional zones are free. Violations have the standard's names.

use crate::spec::Zoned;
use std::collections::BTreeMap;

/// A violation, as the standard calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// A write that does not begin at the write pointer.
    #[error(
        "zone {zone}: UNALIGNED WRITE COMMAND: sector {lbn} is not the write pointer {pointer}"
    )]
    UnalignedWrite {
        /// The zone.
        zone: u64,
        /// First sector of the write.
        lbn: u64,
        /// Where a write must begin.
        pointer: u64,
    },
    /// A write that reaches beyond its zone.
    #[error("zone {zone}: WRITE BOUNDARY VIOLATION")]
    WriteBoundary {
        /// The zone.
        zone: u64,
    },
    /// A read beyond the write pointer.
    #[error("zone {zone}: ATTEMPT TO READ INVALID DATA")]
    ReadInvalid {
        /// The zone.
        zone: u64,
    },
    /// A read that leaves a sequential zone.
    #[error("zone {zone}: READ BOUNDARY VIOLATION")]
    ReadBoundary {
        /// The zone.
        zone: u64,
    },
    /// Too many zones are open.
    #[error("zone {zone}: INSUFFICIENT ZONE RESOURCES: {open} zones are open")]
    TooManyOpen {
        /// The zone.
        zone: u64,
        /// Zones open.
        open: u32,
    },
}

/// The zones of a disk. Only zones that were written take memory.
#[derive(Clone, Debug)]
pub struct Zones {
    rules: Zoned,
    sectors: u64,
    /// Sectors written in each zone that is neither empty nor full.
    open: BTreeMap<u64, u64>,
    /// Zones that are full: ranges would be shorter, but a set is enough.
    full: std::collections::BTreeSet<u64>,
}

impl Zones {
    /// Empty zones on a disk of so many sectors.
    pub fn new(rules: Zoned, sectors: u64) -> Zones {
        Zones { rules, sectors, open: BTreeMap::new(), full: std::collections::BTreeSet::new() }
    }

    fn zone(&self, lbn: u64) -> Option<u64> {
        let zone = lbn / self.rules.zone_sectors;
        (zone >= u64::from(self.rules.conventional_zones)).then_some(zone)
    }

    fn size(&self, zone: u64) -> u64 {
        self.rules.zone_sectors.min(self.sectors - zone * self.rules.zone_sectors)
    }

    /// The write pointer of a sequential zone as a sector of the disk.
    pub fn pointer(&self, zone: u64) -> u64 {
        let written = match self.full.contains(&zone) {
            true => self.size(zone),
            false => self.open.get(&zone).copied().unwrap_or(0),
        };
        zone * self.rules.zone_sectors + written
    }

    /// Zones that are open.
    pub fn open(&self) -> u32 {
        self.open.len() as u32
    }

    /// A write: moves the write pointer if it is allowed.
    ///
    /// # Errors
    /// A violation; nothing has changed then.
    pub fn write(&mut self, lbn: u64, sectors: u64) -> Result<(), ZoneError> {
        let first = lbn / self.rules.zone_sectors;
        let last = (lbn + sectors.max(1) - 1) / self.rules.zone_sectors;
        let Some(zone) = self.zone(lbn) else {
            // A write over the end of the last conventional zone is one over a boundary.
            return match self.zone(lbn + sectors.max(1) - 1) {
                Some(zone) => Err(ZoneError::WriteBoundary { zone }),
                None => Ok(()),
            };
        };
        if first != last {
            return Err(ZoneError::WriteBoundary { zone });
        }
        let pointer = self.pointer(zone);
        if lbn != pointer {
            return Err(ZoneError::UnalignedWrite { zone, lbn, pointer });
        }
        if !self.open.contains_key(&zone) && self.open() >= self.rules.max_open {
            return Err(ZoneError::TooManyOpen { zone, open: self.open() });
        }
        let written = lbn + sectors - zone * self.rules.zone_sectors;
        if written == self.size(zone) {
            self.open.remove(&zone);
            self.full.insert(zone);
        } else {
            self.open.insert(zone, written);
        }
        Ok(())
    }

    /// A read.
    ///
    /// # Errors
    /// Sectors that were not written, unless the rules allow them; sectors of two zones of which
    /// one is sequential.
    pub fn read(&self, lbn: u64, sectors: u64) -> Result<(), ZoneError> {
        let end = lbn + sectors;
        let Some(zone) = self.zone(end.max(1) - 1) else { return Ok(()) };
        if self.rules.read_unwritten {
            return Ok(());
        }
        if lbn / self.rules.zone_sectors != zone {
            return Err(ZoneError::ReadBoundary { zone });
        }
        if end > self.pointer(zone) {
            return Err(ZoneError::ReadInvalid { zone });
        }
        Ok(())
    }

    /// RESET WRITE POINTER: the zone is empty again.
    pub fn reset(&mut self, zone: u64) {
        self.open.remove(&zone);
        self.full.remove(&zone);
    }

    /// FINISH ZONE: nothing more can be written.
    pub fn finish(&mut self, zone: u64) {
        self.open.remove(&zone);
        self.full.insert(zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_zones_are_written_in_order() {
        let rules =
            Zoned { zone_sectors: 64, conventional_zones: 1, max_open: 2, read_unwritten: false };
        let mut zones = Zones::new(rules, 64 * 5);
        assert_eq!(zones.write(8, 8), Ok(()));
        assert_eq!(zones.write(60, 8), Err(ZoneError::WriteBoundary { zone: 1 }));
        let unaligned = ZoneError::UnalignedWrite { zone: 1, lbn: 72, pointer: 64 };
        assert_eq!(zones.write(72, 8), Err(unaligned));
        assert_eq!(zones.write(64, 8), Ok(()));
        assert_eq!(zones.read(64, 8), Ok(()));
        assert_eq!(zones.read(64, 9), Err(ZoneError::ReadInvalid { zone: 1 }));
        assert_eq!(zones.write(128, 8), Ok(()));
        assert_eq!(zones.write(192, 8), Err(ZoneError::TooManyOpen { zone: 3, open: 2 }));
        assert_eq!(zones.write(72, 56), Ok(()));
        assert_eq!((zones.open(), zones.pointer(1)), (1, 128));
        assert_eq!(zones.write(192, 8), Ok(()));
        assert!(zones.write(64, 8).is_err());
        zones.reset(1);
        assert_eq!(zones.pointer(1), 64);
    }
}
