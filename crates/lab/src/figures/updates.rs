//! What the figures of durable updates share: files by how full the file system is, the platforms,
//! and the time of an update.

use super::Settings;
use super::job::Platform;
use super::ufs::CLAIMED;
use crate::files::programs::Amount;
use crate::files::report::PhaseReport;
use seekless_engine::units::BLOCK_BYTES;
use seekless_layouts::Kind;

/// Share of the volume that `df` counts.
pub(super) const COUNTED: f64 = 0.88;
const UPDATES: u32 = 2000;
pub(super) const QUICK_UPDATES: u32 = 150;
const QUICK_WARM_UP: u32 = 500;
/// The phase without the inode.
pub(super) const DATA_ONLY: &str = "update, data only";

/// Hosts with disks, as in figure 9.
pub(super) const PLATFORMS: [(&str, Platform); 3] = [
    ("sparc10", Platform::Hp97560),
    ("sparc10", Platform::St19101),
    ("ultra170", Platform::St19101),
];

/// A run of figure 9.
pub(super) fn fresh(host: &str, disk: Platform) -> String {
    format!("{host}, {}, 80 %, compacted", disk.name())
}

/// The largest volume that the layouts of claims can have on a disk; less if a layout has less
/// room.
pub(super) fn volume_blocks(disk: Platform, kind: Kind) -> Option<u64> {
    let target = disk.target(0).ok()?;
    let claimed = CLAIMED.iter().map(|volume| volume.kind);
    claimed.chain([kind]).map(|kind| target.largest_volume(kind)).min()
}

/// Amounts for a file of this share of the volume.
pub(super) fn amount(settings: &Settings, blocks: u64, percent: u32) -> Amount {
    let bytes = (blocks * BLOCK_BYTES as u64) as f64 * COUNTED * f64::from(percent) / 100.0;
    Amount {
        file_bytes: Some(bytes as u64 / BLOCK_BYTES as u64 * BLOCK_BYTES as u64),
        updates: Some(if settings.quick { QUICK_UPDATES } else { UPDATES }),
        warm_up: settings.quick.then_some(QUICK_WARM_UP),
        seed: settings.seed,
        ..Amount::one_user()
    }
}

/// Mean milliseconds of an update.
pub(super) fn ms(phase: &PhaseReport) -> f64 {
    let updates = phase.by_call.get("fsync").map_or(0, |call| call.calls);
    phase.elapsed_seconds * 1e3 / updates.max(1) as f64
}
