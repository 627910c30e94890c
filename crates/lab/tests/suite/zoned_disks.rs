//! Eager writing on disks with zones, caches and queues: the arm is known on them too.

use seekless_disk::specs;
use seekless_lab::sim::{SimOptions, Target, simulate};
use seekless_lab::workload::Workload;
use seekless_layouts::Kind;

fn no_clock() -> u64 {
    0
}

/// Mean of a synchronous write of one block on an aged volume over the outer 256 MiB, in
/// milliseconds.
fn mean_ms(disk: &str, kind: Kind) -> f64 {
    let mut spec = specs::find(disk).expect("built in");
    spec.capacity_sectors = Some(256 << 11);
    let target = Target::disk(&spec, None).expect("sound");
    let workload = Workload { requests: 3_000, ..Workload::default() };
    let options = SimOptions { workload, age: 0.5, ..SimOptions::new(kind) };
    simulate(&target, &options, no_clock).expect("nothing is lost").latency_ms.mean
}

/// On a current disk a turn and a seek take as long as hundreds of blocks: writing near the head
/// gains as much as the papers promise.
#[test]
fn a_current_disk_gains_tenfold() {
    let inplace = mean_ms("cmr-20tb", Kind::INPLACE);
    let vlog = mean_ms("cmr-20tb", Kind::VLOG);
    let loge = mean_ms("cmr-20tb", Kind::LOGE);
    assert!(inplace / vlog > 10.0, "{inplace:.3} ms in place, {vlog:.3} ms in the virtual log");
    assert!(inplace / loge > 15.0, "{inplace:.3} ms in place, {loge:.3} ms with Loge");
}

/// On drives of the nineties the controller and a slow bus bound the gain; there is one.
#[test]
fn measured_drives_gain() {
    for disk in ["hp-c2490a", "rz26"] {
        let inplace = mean_ms(disk, Kind::INPLACE);
        let vlog = mean_ms(disk, Kind::VLOG);
        let loge = mean_ms(disk, Kind::LOGE);
        assert!(inplace / vlog > 1.15, "{disk}: {inplace:.2} ms in place, {vlog:.2} ms vlog");
        assert!(inplace / loge > 2.5, "{disk}: {inplace:.2} ms in place, {loge:.2} ms loge");
    }
}
