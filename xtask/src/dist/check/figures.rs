//! The static program prints the figures that the tests know.
//!
//! It is linked with another C library than the programs of the tests, so functions such as `exp`
//! could round otherwise. `crates/cli/tests/figures.tsv` has a digest of each report.

use super::Outcome;
use crate::run::{capture, root};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

const TABLE: &str = "crates/cli/tests/figures.tsv";
/// Fields of reports that tell the speed of the host.
const OF_THE_HOST: [&str; 3] = ["host_seconds", "\"simulated_", "states_per_second"];

/// Runs each command of the table and compares digests.
pub(super) fn same(program: &Path) -> Result<Outcome> {
    let table = std::fs::read_to_string(root().join(TABLE))?;
    let mut moved = Vec::new();
    let mut count = 0;
    for (known, command) in table.lines().filter_map(|line| line.split_once('\t')) {
        count += 1;
        let report = capture(Command::new(program).args(command.split(' ')))?;
        if format!("{:016x}", digest(&report)) != known {
            moved.push(command);
        }
    }
    ensure!(moved.is_empty() && count > 0, "these figures differ:\n{}", moved.join("\n"));
    Ok(Outcome::Passed(format!("{count} reports are those of the tests")))
}

/// FNV-1a of 64 bits of the fields that are the same on each host, as the test `same_figures` has
/// it.
fn digest(report: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    report
        .split([',', '\n'])
        .map(str::trim)
        .filter(|field| !field.is_empty() && !OF_THE_HOST.iter().any(|of| field.contains(of)))
        .flat_map(|field| field.bytes().chain(std::iter::once(b'\n')))
        .fold(0xcbf2_9ce4_8422_2325, step)
}
