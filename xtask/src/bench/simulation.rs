//! The simulator: its speed, and its results for the layouts.

use super::{Setup, median};
use crate::run::{capture, run};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::process::Command;

const DISKS: [&str; 2] = ["hp97560", "st19101"];

/// Simulations that measure speed: disk, layout and the workload beside the default one.
const SPEED: [(&str, &str, &[&str]); 12] = [
    ("hp97560", "inplace", &[]),
    ("hp97560", "vlog", &[]),
    ("hp97560", "loge", &[]),
    ("st19101", "inplace", &[]),
    ("st19101", "vlog", &[]),
    ("st19101", "loge", &[]),
    ("hylog-2003", "inplace", TEN_GB),
    ("hylog-2003", "lfs", TEN_GB),
    ("hylog-2003", "lfs", TEN_GB_BUFFERED),
    ("hylog-2003", "hylog", TEN_GB),
    ("hylog-2003", "hylog", TEN_GB_BUFFERED),
    ("hylog-2003", "dcd", TEN_GB),
];
const TEN_GB: &[&str] = &["--utilisation", "0.6", "--depth", "16"];
const TEN_GB_BUFFERED: &[&str] = &["--utilisation", "0.6", "--depth", "16", "--no-fua"];

/// Simulated requests per second of host time.
///
/// # Errors
/// If a simulation fails.
pub fn speed(setup: &Setup) -> Result<()> {
    let requests = setup.pick("2000000", "200000");
    println!("Simulated 4 KiB random writes per second of host time, one core.");
    println!("80 % full and one at a time, if nothing else is said.\n");
    println!("{:<12}{:<10}{:<44}{:>12}", "disk", "layout", "", "requests/s");
    for (disk, layout, more) in SPEED {
        let mut figures = Vec::new();
        for _ in 0..setup.repeats() {
            let mut sim = Command::new(&setup.program);
            sim.args(["sim", "--layout", layout, "--disk", disk, "--json"]).args(more);
            let text = capture(sim.args(["--requests", requests]))?;
            let report: Value = serde_json::from_str(&text).context("no JSON")?;
            let speed = report["simulated_requests_per_second"].as_f64();
            figures.push(speed.context("the report has no speed")?);
        }
        println!("{disk:<12}{layout:<10}{:<44}{:>12.0}", more.join(" "), median(&mut figures));
    }
    Ok(())
}

/// The virtual log against update in place in virtual time, with the parts of the latency.
///
/// # Errors
/// If a simulation fails.
pub fn factors(setup: &Setup) -> Result<()> {
    let disks = DISKS.join(",");
    for (layouts, more) in [("inplace,vlog", None), ("inplace,vlog", Some(["--depth", "16"]))] {
        let mut sim = Command::new(&setup.program);
        sim.args(["sim", "--layout", layouts, "--disk", &disks]);
        sim.args(["--requests", setup.pick("100000", "20000")]);
        run(sim.args(more.into_iter().flatten()))?;
        println!();
    }
    println!("The same right after idle time, as the paper measures its factor (claim V41):");
    let mut sim = Command::new(&setup.program);
    sim.args(["sim", "--layout", "inplace,vlog", "--disk", &disks]);
    run(sim.args(["--rest", "200s", "--requests", "500"]))?;
    println!();
    let mut sim = Command::new(&setup.program);
    sim.args(["sim", "--layout", "inplace,vlog", "--disk", "desktop7200-bare", "--age", "0.5"]);
    run(sim.args(["--utilisation", "0.5", "--requests", setup.pick("20000", "5000")]))
}
