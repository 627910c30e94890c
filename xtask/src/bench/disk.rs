//! Speed of the disk model, compared with DiskSim.

use super::{Setup, median};
use crate::run::{capture, cargo, root};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::process::Command;

/// Requests per second of DiskSim 4.0 on one core with the same disk and workload: the best of its
/// runs at its default optimisation.
const DISKSIM: [(&str, f64); 4] = [
    ("random, half writes, open", 0.21e6),
    ("sequential reads", 0.53e6),
    ("sequential writes", 0.19e6),
    ("random, 32 outstanding, SPTF", 0.065e6),
];

/// Prints requests per second of host time and the ratio to DiskSim.
///
/// # Errors
/// If the program that measures does not build or fails.
pub fn disk(setup: &Setup) -> Result<()> {
    let requests = setup.pick("1000000", "200000");
    let build = ["build", "--quiet", "--profile", "dist", "--package", "seekless-disk"];
    crate::run::run(cargo().args(build).args(["--example", "drive_speed"]))?;
    let program = setup.program.with_file_name("examples").join("drive_speed");
    let spec = root().join("crates/disk/specs/atlas10k.toml");
    let mut figures: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..setup.repeats() {
        let text = capture(Command::new(&program).arg(&spec).arg(requests))?;
        for (name, speed) in rows(&text)? {
            figures.entry(name).or_default().push(speed);
        }
    }
    println!("Atlas 10K, 4 KiB, {requests} requests, one core, virtual time.\n");
    println!("{:<32}{:>16}{:>16}{:>10}", "workload", "requests/s", "DiskSim", "factor");
    for (name, peer) in DISKSIM {
        let Some(own) = figures.get_mut(name).map(|values| median(values)) else {
            bail!("nothing was measured of `{name}`");
        };
        println!("{name:<32}{own:>16.0}{peer:>16.0}{:>9.1}x", own / peer);
    }
    println!("\nDiskSim's figures are those of another run, on a machine of the same kind.");
    Ok(())
}

/// Names and requests per second.
fn rows(text: &str) -> Result<Vec<(String, f64)>> {
    text.lines()
        .map(|line| {
            let (name, speed) = line.split_once('\t').context("a line without a figure")?;
            Ok((name.to_owned(), speed.parse().with_context(|| format!("`{speed}`"))?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        assert_eq!(rows("a, b\t12\n").expect("a row"), [("a, b".to_owned(), 12.0)]);
        assert!(rows("a 12\n").is_err() && rows("a\tfast\n").is_err());
    }
}
