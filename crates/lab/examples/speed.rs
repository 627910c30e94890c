//! How fast the host simulates: requests per second of its time, for every layout and target.
//!
//! `cargo run --release -p seekless-lab --example speed [requests]`

use seekless_disk::specs;
use seekless_engine::layout::Kind;
use seekless_lab::sim::{SimOptions, Target, simulate};
use seekless_lab::workload::Workload;
use std::error::Error;
use std::sync::OnceLock;

#[expect(clippy::disallowed_types, reason = "measuring the host is what this program is for")]
type Instant = std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "measuring the host is what this program is for")]
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[expect(clippy::disallowed_methods, reason = "the one argument there is")]
fn main() -> Result<(), Box<dyn Error>> {
    let requests = std::env::args().nth(1).map_or(Ok(2_000_000), |count| count.parse())?;
    let workload = Workload { requests, ..Workload::default() };
    println!("{:<12}{:<10}{:>22}", "target", "layout", "million requests/s");
    let mut targets = vec![Target::ram(5632)];
    for name in ["st19101", "hp97560"] {
        let spec = specs::find(name).ok_or("no such disk")?;
        targets.push(Target::disk(&spec, None)?);
    }
    for target in targets {
        for kind in Kind::ALL {
            let options = SimOptions { workload: workload.clone(), ..SimOptions::new(kind) };
            let report = simulate(&target, &options, clock)?;
            let speed = report.simulated_requests_per_second / 1e6;
            println!("{:<12}{:<10}{speed:>22.3}", report.disk, report.layout);
        }
    }
    Ok(())
}
