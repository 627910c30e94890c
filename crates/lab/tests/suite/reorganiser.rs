//! Sequential reads after random writes: the gain of the virtual log from idle time, and the delay
//! of requests that arrive in it.

use seekless_disk::{Spec, specs};
use seekless_engine::options::Options;
use seekless_engine::units::{MILLIS, SECONDS, Time};
use seekless_lab::sim::{SimOptions, SimReport, Target, simulate, simulate_to_driver};
use seekless_lab::workload::{Bursts, Pattern, Workload};
use seekless_layouts::Kind;
use seekless_layouts::vlog::NO_REORGANISE;

fn no_clock() -> u64 {
    0
}

/// A volume at 80 % that is written at random, left idle, then read in sequence by requests of 256
/// KiB.
fn sequential_reads(kind: Kind, rest_ns: Time) -> SimOptions {
    let workload = Workload {
        pattern: Pattern::Sequential,
        read_share: 1.0,
        request_blocks: 64,
        requests: 70,
        ..Workload::default()
    };
    SimOptions { workload, rest_ns, ..SimOptions::new(kind) }
}

fn mebibytes_per_second(spec: &Spec, options: &SimOptions) -> f64 {
    let target = Target::disk(spec, None).expect("sound");
    let report = simulate(&target, options, no_clock).expect("nothing is lost");
    report.throughput.mebibytes_per_second
}

#[test]
fn idle_time_makes_sequential_reads_fast_again() {
    for name in ["st19101", "hp97560"] {
        let spec = specs::find(name).expect("built in");
        let in_place = mebibytes_per_second(&spec, &sequential_reads(Kind::INPLACE, 0));
        let mut last = mebibytes_per_second(&spec, &sequential_reads(Kind::VLOG, 0));
        assert!(last < 0.2 * in_place, "{name}: {last} MiB/s are not scattered");
        for rest in [20, 60, 300] {
            let options = sequential_reads(Kind::VLOG, rest * SECONDS);
            let found = mebibytes_per_second(&spec, &options);
            assert!(found >= 0.95 * last, "{name}, {rest} s: {found} MiB/s after {last}");
            last = found;
        }
        assert!(last > 0.8 * in_place, "{name}: {last} MiB/s, in place {in_place}");
        let options = Options::default().with(&NO_REORGANISE, true);
        let without = SimOptions { options, ..sequential_reads(Kind::VLOG, 300 * SECONDS) };
        assert!(mebibytes_per_second(&spec, &without) < 0.2 * in_place, "{name}");
    }
}

/// Reorganisation ends: when all blocks are in order the disk is idle.
#[test]
fn a_volume_in_order_is_left_alone() {
    let spec = specs::find("st19101").expect("built in");
    let target = Target::disk(&spec, None).expect("sound");
    let options = sequential_reads(Kind::VLOG, 300 * SECONDS);
    let (_, mut driver) = simulate_to_driver(&target, &options, no_clock).expect("nothing is lost");
    driver.idle(SECONDS).expect("rests");
    let written = |stats: Vec<(&str, f64)>| {
        stats.iter().find(|(name, _)| *name == "device_blocks_written").map(|(_, value)| *value)
    };
    let before = written(driver.node().layer.status().stats());
    driver.idle(100 * SECONDS).expect("rests");
    assert_eq!(written(driver.node().layer.status().stats()), before);
    assert_eq!(driver.node().next_event(), None);
}

fn bursts(reorganise: bool) -> SimReport {
    let target = Target::disk(&specs::find("st19101").expect("built in"), None).expect("sound");
    let bursts = Some(Bursts { requests: 256, idle_ns: 2000 * MILLIS });
    let workload = Workload { bursts, requests: 8192, warm_up: 4096, ..Workload::default() };
    let options = Options::default().with(&NO_REORGANISE, !reorganise);
    let options = SimOptions { workload, options, ..SimOptions::new(Kind::VLOG) };
    simulate(&target, &options, no_clock).expect("nothing is lost")
}

/// A request that arrives in the middle waits for one read or for the commit of sixteen blocks: on
/// this disk, where a turn takes 6 ms, at most two turns and a seek. Writes cost little more.
#[test]
fn a_client_waits_for_one_chunk_at_most() {
    let (with, without) = (bursts(true).latency_ms, bursts(false).latency_ms);
    assert!(with.max < without.max + 15.0, "{} ms, {} ms without", with.max, without.max);
    assert!(with.mean < 1.05 * without.mean, "{} ms, {} ms without", with.mean, without.mean);
}
