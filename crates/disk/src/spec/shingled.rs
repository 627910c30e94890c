//! A drive-managed shingled disk: what it does on its own behind an ordinary interface.

use super::Spec;
use serde::{Deserialize, Serialize};

/// A drive-managed shingled disk. Tracks of a band overlap, so a band is written as a whole. Other
/// writes go to a log on the platter, the persistent cache. The disk cleans when it is idle or the
/// cache is full: it reads a band, merges what the cache holds of it, and writes it again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shingled {
    /// Sectors of 512 bytes in a band.
    pub band_sectors: u32,
    /// Sectors of the persistent cache: the last ones of the zones, behind those that the disk
    /// offers.
    pub cache_sectors: u64,
    /// Pieces of consecutive sectors that the map of the cache can name.
    pub cache_writes: u32,
    /// After this long without a command the disk begins to clean.
    pub idle_ms: f64,
    /// Writes that continue one another go to their bands once they are so many sectors.
    pub stream_sectors: u32,
}

impl Spec {
    /// Sectors that the zones or patterns hold, also those that the disk does not offer.
    pub(crate) fn mapped_sectors(&self) -> u64 {
        match &self.pattern {
            Some(pattern) => pattern.sectors(),
            None => (0..self.zones.len()).map(|zone| self.zone_sectors(zone)).sum(),
        }
    }
}
