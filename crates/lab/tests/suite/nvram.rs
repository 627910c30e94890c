//! Log-structured layouts behind an NVRAM buffer, as the virtual log paper measures LFS (section
//! 5.5, claims V45, V46 and V49).

use seekless_disk::specs;
use seekless_engine::units::{MILLIS, SECONDS, Time};
use seekless_lab::sim::{SimOptions, SimReport, Target, simulate};
use seekless_lab::workload::{Bursts, Workload};
use seekless_layouts::Kind;

/// 6.1 MB, as in the paper (claim V10).
const NVRAM_BLOCKS: u64 = 6_100_000 / 4096;

fn no_clock() -> u64 {
    0
}

/// Bursts of random durable updates at 80 % with a pause after each, content verified. The buffer
/// is empty of fill and ageing when measuring begins.
fn bursts(kind: Kind, nvram: bool, requests: u64, idle_ns: Time) -> SimReport {
    let disk = Target::disk(&specs::find("st19101").expect("built in"), None).expect("sound");
    let target = if nvram { disk.with_nvram(NVRAM_BLOCKS).expect("large enough") } else { disk };
    let bursts = Some(Bursts { requests, idle_ns });
    let workload = Workload { bursts, requests: 4096, warm_up: 4096, ..Workload::default() };
    let options = SimOptions { workload, ..SimOptions::new(kind) };
    simulate(&target, &options, no_clock).expect("nothing is lost")
}

/// V45: the longer the pauses the faster the writes, at the speed of memory once a pause is long
/// enough for a burst. Larger bursts need longer pauses.
#[test]
fn v45_pauses_that_are_long_enough_leave_the_speed_of_memory() {
    for kind in [Kind::LFS, Kind::WOLF] {
        let mut enough = Vec::new();
        for requests in [64, 256] {
            let mean = |idle| bursts(kind, true, requests, idle * MILLIS).latency_ms.mean;
            let pauses = [10, 100, 500, 2000];
            let means = pauses.map(mean);
            assert!(means.is_sorted_by(|a, b| a >= b), "{kind}, {requests}: {means:?}");
            assert!(means[0] > 1.0, "{kind}, {requests}: no pause is free: {means:?}");
            assert_eq!(means[3], 0.0, "{kind}, {requests}");
            enough.push(means.iter().position(|&mean| mean == 0.0));
        }
        assert!(enough[0] < enough[1], "{kind}: {enough:?}");
    }
}

/// V46: at 80 % the free space is smaller than the buffer, so cleaning goes on while it is emptied.
#[test]
fn v46_cleaning_goes_on_while_the_buffer_is_emptied() {
    let report = bursts(Kind::LFS, true, 256, 10 * MILLIS);
    assert!(NVRAM_BLOCKS > report.device_blocks - report.volume_blocks);
    assert!(report.write_amplification.is_some_and(|factor| factor > 2.0), "{report:?}");
}

/// V49: with long pauses between bursts the buffer beats the virtual log; without pauses the
/// virtual log beats both.
#[test]
fn v49_unlimited_idle_time_is_worth_more_to_the_buffer() {
    let mean = |kind, nvram, idle| bursts(kind, nvram, 256, idle).latency_ms.mean;
    let (idle, busy) = (5 * SECONDS, MILLIS);
    assert!(mean(Kind::LFS, true, idle) < 0.1 * mean(Kind::VLOG, false, idle));
    let [buffered, plain, vlog] =
        [(Kind::LFS, true), (Kind::LFS, false), (Kind::VLOG, false)].map(|(k, n)| mean(k, n, busy));
    assert!(vlog < buffered && buffered < plain, "{vlog} {buffered} {plain}");
}
