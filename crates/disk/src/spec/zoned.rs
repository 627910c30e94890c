//! Rules of a host-managed shingled disk.

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
    /// Sequential zones that may be open at once.
    pub max_open: u32,
    /// Reads beyond the write pointer are answered with zeros; else they are errors.
    #[serde(default)]
    pub read_unwritten: bool,
}
