//! The gain of the virtual log from idle time (claim V47), and the delay of requests that arrive in
//! it.

use seekless_disk::specs;
use seekless_engine::options::Options;
use seekless_engine::units::{MILLIS, Time};
use seekless_lab::sim::{SimOptions, SimReport, Target, simulate};
use seekless_lab::workload::{Bursts, Workload};
use seekless_layouts::Kind;
use seekless_layouts::vlog::{COMPACTION, Compaction};

fn no_clock() -> u64 {
    0
}

/// Bursts of 256 random updates at 80 % with a pause after each, content verified.
fn bursts(compaction: Compaction, idle_ns: Time) -> SimReport {
    let target = Target::disk(&specs::find("st19101").expect("built in"), None).expect("sound");
    let bursts = Some(Bursts { requests: 256, idle_ns });
    let workload = Workload { bursts, requests: 8192, warm_up: 4096, ..Workload::default() };
    let chosen = Options::default().with(&COMPACTION, Some(compaction));
    let options = SimOptions { workload, options: chosen, ..SimOptions::new(Kind::VLOG) };
    simulate(&target, &options, no_clock).expect("nothing is lost")
}

/// V47: the longer the pauses the faster the writes, without steps, for any choice of the track
/// that is emptied.
#[test]
fn v47_latency_falls_with_idle_time() {
    let without = bursts(Compaction::Off, 2000 * MILLIS).latency_ms.mean;
    for compaction in [Compaction::Random, Compaction::LeastUsed, Compaction::Nearest] {
        let mut last = without;
        for idle in [50, 200, 500, 1000, 2000] {
            let mean = bursts(compaction, idle * MILLIS).latency_ms.mean;
            assert!(mean < last * 1.01, "{compaction}, {idle} ms: {mean} after {last}");
            last = mean;
        }
        assert!(last < 0.6 * without, "{compaction}: {last} against {without}");
    }
}

/// A request that arrives in the middle waits for one chunk: a read within a track, or the commit
/// of eight blocks. On this disk a turn takes 6 ms, a write 1.3 ms.
#[test]
fn a_client_waits_for_one_chunk_at_most() {
    for compaction in [Compaction::Random, Compaction::LeastUsed, Compaction::Nearest] {
        let slowest = bursts(compaction, 500 * MILLIS).latency_ms.max;
        let alone = bursts(Compaction::Off, 500 * MILLIS).latency_ms.max;
        assert!(slowest < alone + 15.0, "{compaction}: {slowest} ms, {alone} ms without");
    }
}
