//! Where sectors are: zones, the order in which tracks are filled, spares, defects.

use super::{Spec, is_default};
use seekless_engine::units::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

/// A range of cylinders with the same number of sectors on a track.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// First cylinder; by default the one behind the zone before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_cylinder: Option<u32>,
    /// Last cylinder; by default the one before the next zone or the last of the disk. Cylinders
    /// between two zones hold no data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_cylinder: Option<u32>,
    /// Sectors of 512 bytes on a track.
    pub sectors: u32,
    /// Skew from one track to the next in a cylinder, in sectors.
    pub track_skew: f64,
    /// Skew from the last track of a cylinder to the first of the next, in sectors.
    pub cylinder_skew: f64,
    /// Rotational position of the zone's first sector behind the index mark, in sectors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offset: f64,
    /// Sectors at the beginning of the zone that hold no data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub empty: u32,
    /// Spare sectors (tracks, where whole tracks are spared) in each area of [`Sparing`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub spares: u32,
    /// Defects that are slipped: sectors (tracks, where whole tracks are spared) counted from the
    /// zone's first, in ascending order. The sectors behind it move on by one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slips: Vec<u64>,
    /// Defects that are remapped, in the same numbering.
    #[serde(default, skip_serializing_if = "is_default")]
    pub defects: Vec<Defect>,
}

/// A defective sector (or track) and the spare one that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defect {
    /// The defective one, counted from the zone's first.
    pub at: u64,
    /// The spare one.
    pub spare: u64,
}

/// The order in which the tracks of a zone are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mapping {
    /// All heads of a cylinder, then the next cylinder.
    #[default]
    CylinderMajor,
    /// The same, but every second cylinder of a zone from the last head to the first, so that a
    /// change of cylinder keeps the head.
    AlternatingInZone,
    /// The same with every odd cylinder of the disk.
    Alternating,
    /// Bands of cylinders: all tracks of a band on one head, back on the next head, then the next
    /// band. Disks since about 2005.
    Serpentine {
        /// Cylinders in a band.
        band: u32,
    },
}

/// Where spares are, hence how far a slip moves the sectors behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sparing {
    /// At the end of the zone.
    #[default]
    Zone,
    /// At the end of the zone, beyond those that the slips use up.
    ZoneSlipToEnd,
    /// Whole tracks at the end of the zone.
    Tracks,
    /// At the end of each track.
    Track,
    /// At the end of each cylinder.
    Cylinder,
    /// At the end of each cylinder; slips move the rest of the zone.
    CylinderSlipToEnd,
    /// At the front of each cylinder.
    CylinderFront,
    /// At the front of each cylinder; slips move the rest of the zone.
    CylinderFrontSlipToEnd,
    /// None but what the slips use up at the end of the zone.
    End,
    /// At the end of each range of cylinders.
    Range {
        /// Cylinders in a range.
        cylinders: u32,
    },
}

/// Logical and physical sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SectorSize {
    /// Bytes of a sector as the host addresses it: 512 or 4096.
    pub logical: u32,
    /// Bytes of a sector on the platter: 512 or 4096. A write that covers one in part reads it
    /// first and takes another turn.
    pub physical: u32,
}

impl Default for SectorSize {
    fn default() -> SectorSize {
        SectorSize { logical: 512, physical: 512 }
    }
}

impl SectorSize {
    /// Sectors of 512 bytes in one that the host addresses.
    pub fn logical_sectors(self) -> u64 {
        u64::from(self.logical) / SECTOR_BYTES as u64
    }
}

/// A layout as a tree: nodes of entries, each of which repeats a track or another node along the
/// sectors and the cylinders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// Number of the node that is the whole disk.
    pub root: u32,
    /// Runs of sectors that are skipped, ascending by place.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slips: Vec<PatternSlip>,
    /// Runs of sectors that lie elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remaps: Vec<PatternRemap>,
    /// Tracks.
    pub tracks: Vec<PatternTrack>,
    /// Nodes.
    pub nodes: Vec<PatternNode>,
}

/// A track of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternTrack {
    /// First sector that holds data.
    pub first: u32,
    /// Last sector that holds data.
    pub last: u32,
    /// Sectors in a whole turn.
    pub sectors: u32,
}

/// A node of a pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternNode {
    /// Entries in ascending order of sectors.
    pub entries: Vec<PatternEntry>,
}

/// A part of a node: a child repeated. All numbers count from the node's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternEntry {
    /// First sector.
    pub lbn: u64,
    /// Sectors in one repetition.
    pub length: u64,
    /// Sectors in all repetitions.
    pub run: u64,
    /// First cylinder.
    pub cylinder: i64,
    /// Cylinders from one repetition to the next.
    pub cylinder_length: i64,
    /// Cylinders in all repetitions; negative if they run outwards.
    pub cylinder_run: i64,
    /// Rotational position of the first sector, in turns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offset: f64,
    /// Skew from one repetition to the next in the order of sectors, in turns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skew: f64,
    /// Head, where the child is a track.
    #[serde(default, skip_serializing_if = "is_default")]
    pub head: u32,
    /// The child that is repeated.
    pub child: PatternChild,
}

/// The child of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatternChild {
    /// Track of that number.
    Track(u32),
    /// Node of that number.
    Node(u32),
}

/// Sectors skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternSlip {
    /// Sector of the tree (slips counted) from which on the count holds.
    pub at: u64,
    /// Sectors skipped up to here, including this run.
    pub total: u64,
}

/// Sectors that lie elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternRemap {
    /// First sector as the host addresses it.
    pub lbn: u64,
    /// Number of sectors.
    pub count: u32,
    /// Where they are.
    pub cylinder: u32,
    /// Where they are.
    pub head: u32,
    /// Where they are.
    pub sector: u32,
    /// Sectors of that track.
    pub track_sectors: u32,
}

impl Pattern {
    /// Sectors that can be addressed: those of the root less the skipped ones.
    pub fn sectors(&self) -> u64 {
        let covered = self
            .nodes
            .get(self.root as usize)
            .and_then(|root| root.entries.iter().map(|entry| entry.lbn + entry.run).max());
        let skipped = self.slips.last().map_or(0, |slip| slip.total);
        covered.unwrap_or(0).saturating_sub(skipped)
    }
}

impl Spec {
    /// First and last cylinder of a zone, defaults filled in.
    pub fn zone_cylinders(&self, zone: usize) -> (u32, u32) {
        let first = self.zones[zone].first_cylinder.unwrap_or_else(|| match zone {
            0 => 0,
            _ => self.zones[zone - 1].last_cylinder.map_or(0, |last| last.saturating_add(1)),
        });
        let last = self.zones[zone].last_cylinder.unwrap_or_else(|| {
            let next = self.zones.get(zone + 1).and_then(|zone| zone.first_cylinder);
            next.unwrap_or(self.cylinders).saturating_sub(1)
        });
        (first, last)
    }

    /// Sectors of a zone that hold data.
    pub fn zone_sectors(&self, zone: usize) -> u64 {
        let (first, last) = self.zone_cylinders(zone);
        let zone = &self.zones[zone];
        let cylinders = u64::from((last + 1).saturating_sub(first));
        let tracks = cylinders * u64::from(self.heads);
        let sectors = u64::from(zone.sectors);
        let (spares, slips) = (u64::from(zone.spares), zone.slips.len() as u64);
        let lost = match self.sparing {
            Sparing::Zone => spares,
            Sparing::ZoneSlipToEnd => spares + slips,
            Sparing::Tracks => spares * sectors,
            Sparing::Track => spares * tracks,
            Sparing::Cylinder | Sparing::CylinderFront => spares * cylinders,
            Sparing::CylinderSlipToEnd | Sparing::CylinderFrontSlipToEnd => {
                spares * cylinders + slips
            }
            Sparing::End => slips,
            Sparing::Range { cylinders: range } => spares * (cylinders / u64::from(range.max(1))),
        };
        (tracks * sectors).saturating_sub(lost + u64::from(zone.empty))
    }
}
