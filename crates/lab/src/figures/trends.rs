//! Disks as the trends of paper 000 have them after some years (claim V12).

use seekless_disk::Spec;
use seekless_disk::spec::{Seek, SeekPiece};

/// What a year leaves of times, and makes of bandwidth.
const LATENCY: f64 = 0.9;
const BANDWIDTH: f64 = 1.4;

/// The disk after so many years, as large as before.
pub(super) fn after(spec: &mut Spec, years: u32) {
    let shorter = LATENCY.powi(years as i32);
    // Faster turns bring a part of the bandwidth, and denser tracks the rest.
    let denser = (BANDWIDTH.powi(years as i32) * shorter).round().max(1.0);
    spec.rpm /= shorter;
    spec.head_switch_ms *= shorter;
    spec.overhead_ms *= shorter;
    spec.heads = (f64::from(spec.heads) / denser).ceil() as u32;
    if let Seek::Pieces(pieces) = &mut spec.seek {
        let sooner = |piece: &SeekPiece| SeekPiece {
            constant_ms: piece.constant_ms * shorter,
            root_ms: piece.root_ms * shorter,
            linear_ms: piece.linear_ms * shorter,
            ..piece.clone()
        };
        *pieces = pieces.iter().map(sooner).collect();
    }
    for zone in &mut spec.zones {
        zone.sectors = (f64::from(zone.sectors) * denser) as u32;
        zone.track_skew *= denser;
        zone.cylinder_skew *= denser;
    }
}
