//! Eager writing on a disk with long tracks, where the block that passes first is not the best one.

use seekless_disk::{Spec, specs};
use seekless_engine::units::{BLOCK_SECTORS, MILLIS};
use seekless_lab::sim::{SimOptions, Target, simulate};
use seekless_lab::workload::Workload;
use seekless_layouts::Kind;

fn no_clock() -> u64 {
    0
}

/// The tracks and the shortest seek of `desktop7200-bare`, on a sixth of its cylinders.
fn small_desktop() -> Spec {
    let mut spec = specs::find("desktop7200-bare").expect("built in");
    spec.cylinders = 300;
    spec
}

/// Mean of a synchronous write of one block on an aged volume, in milliseconds.
fn mean_ms(spec: &Spec, utilisation: f64) -> f64 {
    let target = Target::disk(spec, None).expect("sound");
    let workload = Workload { requests: 10_000, ..Workload::default() };
    let options =
        SimOptions { workload, utilisation: Some(utilisation), ..SimOptions::new(Kind::VLOG) };
    simulate(&target, &options, no_clock).expect("nothing is lost").latency_ms.mean
}

/// Staying on a track must cost at most as much as a write into random free space, plus the moves:
/// the wait for two slots, two commands, two transfers.
#[test]
fn a_crowded_disk_is_left_track_by_track() {
    let spec = small_desktop();
    let slots = f64::from(spec.zones[0].sectors) / BLOCK_SECTORS as f64;
    let slot_ms = 60e3 / spec.rpm / slots;
    let seek_ms = spec.seek.ns(1, spec.cylinders) as f64 / MILLIS as f64;
    for utilisation in [0.5, 0.8, 0.9] {
        let free = 1.0 - utilisation;
        let locate_ms = (1.0 - free) / free * slot_ms;
        let limit_ms = 2.0 * (spec.overhead_ms + locate_ms + slot_ms);
        let found_ms = mean_ms(&spec, utilisation);
        // One move for at least the free slots of a tenth of a track.
        let journeys_ms = seek_ms / (0.1 * slots * free);
        assert!(
            found_ms < 1.1 * (limit_ms + journeys_ms),
            "{utilisation}: {found_ms:.3} ms against {limit_ms:.3} + {journeys_ms:.3}"
        );
    }
}
