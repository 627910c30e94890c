//! Angles of tracks beyond what the skews of a layout say.
//!
//! Data sheets and parameter files give skews in whole sectors, and some give them wrongly. A
//! recording contains the angles themselves. The sum of the parts below is added to the rotational
//! position of every sector of a track. All angles are in turns.

use super::is_default;
use serde::{Deserialize, Serialize};

/// Corrections of the angles of tracks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// By head, in turns. A head that is not listed has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<f64>,
    /// The same in odd cylinders, if it differs there: disks that fill every second cylinder from
    /// the last head to the first have skews that alternate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub odd_heads: Vec<f64>,
    /// Odd cylinders are counted from the first one of a zone below, not of the disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub odd_in_zone: bool,
    /// By range of cylinders, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<PhaseZone>,
}

/// The correction of a range of cylinders, which ends where the next one begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseZone {
    /// First cylinder.
    pub first_cylinder: u32,
    /// At the first cylinder, in turns.
    pub offset: f64,
    /// For each further cylinder, in turns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cylinder: f64,
    /// Cylinders that share spares; 0 for none. Behind each such group the skew differs by `step`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: u32,
    /// For each group before, in turns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub step: f64,
}

impl Phase {
    /// The correction of a track, in turns.
    pub fn turns(&self, cylinder: u32, head: u32) -> f64 {
        let next = self.zones.partition_point(|zone| zone.first_cylinder <= cylinder);
        let zone = next.checked_sub(1).map(|index| &self.zones[index]);
        let along = cylinder - zone.map_or(0, |zone| zone.first_cylinder);
        let counted = if self.odd_in_zone { along } else { cylinder };
        let odd = counted % 2 == 1 && !self.odd_heads.is_empty();
        let heads = if odd { &self.odd_heads } else { &self.heads };
        let of_head = heads.get(head as usize).copied().unwrap_or(0.0);
        let Some(zone) = zone else { return of_head };
        let groups = along.checked_div(zone.group).unwrap_or(0);
        of_head + zone.offset + f64::from(along) * zone.cylinder + f64::from(groups) * zone.step
    }
}
