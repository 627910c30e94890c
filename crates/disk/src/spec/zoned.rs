//! Rules of a host-managed shingled disk.

use super::Spec;
use serde::{Deserialize, Serialize};

/// A host-managed shingled disk: zones that are written in order only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zoned {
    /// Sectors of 512 bytes in a zone.
    pub zone_sectors: u64,
    /// Zones at the beginning that may be written anywhere.
    #[serde(default)]
    pub conventional_zones: u32,
    /// Sequential zones that are open at once. If a write opens one more, the disk closes another
    /// one by itself.
    pub max_open: u32,
    /// Sequential zones that may be written in part at once, open or closed; without limit by
    /// default. ZNS devices have such a limit and refuse writes beyond it. ZBC and ZAC have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u32>,
    /// Reads beyond the write pointer are answered with zeros; else they are errors.
    #[serde(default)]
    pub read_unwritten: bool,
}

impl Zoned {
    /// The rules of a part of a disk that has so many zones in place of `all`: the same share of
    /// them is conventional, rounded up, and at least one is not.
    pub(super) fn part(self, zones: u64, all: u64) -> Zoned {
        let share = (u64::from(self.conventional_zones) * zones).div_ceil(all.max(1));
        let conventional = share.min(zones.saturating_sub(1)).min(self.conventional_zones.into());
        Zoned { conventional_zones: conventional as u32, ..self }
    }
}

impl Spec {
    /// Zones of a shingled disk, the last one perhaps shorter.
    pub(super) fn zone_count(&self, zoned: &Zoned) -> u64 {
        self.capacity_sectors().div_ceil(zoned.zone_sectors.max(1))
    }
}
