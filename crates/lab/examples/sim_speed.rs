//! Prints how fast the host simulates, in requests per second of host time, for every layout and
//! target, or for one layout on one disk.
//!
//! `cargo run --release -p seekless-lab --example sim_speed [requests [layout disk[:MiB] [depth]]]`

use seekless_disk::specs;
use seekless_lab::sim::{SimOptions, Target, simulate};
use seekless_lab::workload::Workload;
use seekless_layouts::Kind;
use std::error::Error;
use std::sync::OnceLock;

#[expect(clippy::disallowed_types, reason = "measuring the host is what this program is for")]
type Instant = std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "measuring the host is what this program is for")]
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A built-in disk, or so many MiB of it.
fn disk(text: &str) -> Result<Target, Box<dyn Error>> {
    let (name, mebibytes) = text.split_once(':').unwrap_or((text, ""));
    let mut spec = specs::find(name).ok_or("no such disk")?;
    if !mebibytes.is_empty() {
        spec.capacity_sectors = Some(mebibytes.parse::<u64>()? << 11);
    }
    Ok(Target::disk(&spec, None)?)
}

fn measure(target: &Target, kind: Kind, workload: &Workload) -> Result<(), Box<dyn Error>> {
    let options = SimOptions { workload: workload.clone(), ..SimOptions::new(kind) };
    let report = simulate(target, &options, clock)?;
    let speed = report.simulated_requests_per_second / 1e6;
    let (mean, rate) = (report.latency_ms.mean, report.throughput.requests_per_second);
    println!("{:<12}{:<10}{speed:>22.3}{mean:>14.5}{rate:>14.0}", report.disk, report.layout);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "what is measured, if not everything")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let requests = arguments.first().map_or(Ok(2_000_000), |count| count.parse())?;
    let depth = arguments.get(3).map_or(Ok(1), |depth| depth.parse())?;
    let workload = Workload { requests, depth, ..Workload::default() };
    let heads = ["million requests/s", "mean ms", "requests/s"];
    println!("{:<12}{:<10}{:>22}{:>14}{:>14}", "target", "layout", heads[0], heads[1], heads[2]);
    if let (Some(layout), Some(name)) = (arguments.get(1), arguments.get(2)) {
        return measure(&disk(name)?, layout.parse()?, &workload);
    }
    for target in [Target::ram(5632), disk("st19101")?, disk("hp97560")?] {
        for kind in Kind::ALL {
            measure(&target, kind, &workload)?;
        }
    }
    Ok(())
}
