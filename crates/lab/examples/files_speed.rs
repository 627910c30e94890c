//! Prints how fast the host simulates programs over FFS with every event of a disk, in calls per
//! second of host time, against the goal of 300,000.
//!
//! `cargo run --release -p seekless-lab --example files_speed [disk]`

use seekless_disk::specs;
use seekless_fs::ffs::MkfsOptions;
use seekless_fs::policy::PolicyKind;
use seekless_lab::files::host::Host;
use seekless_lab::files::programs::{Amount, ProgramKind};
use seekless_lab::files::run::{FilesOptions, run};
use seekless_lab::sim::Target;
use seekless_layouts::Kind;
use std::error::Error;
use std::sync::OnceLock;

/// Calls per second of host time.
const GOAL: f64 = 300e3;

const RUNS: usize = 5;

#[expect(clippy::disallowed_types, reason = "measuring the host is what this program is for")]
type Instant = std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "measuring the host is what this program is for")]
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Calls of all phases, and their time on the host in seconds.
fn measure(
    target: &Target,
    program: ProgramKind,
    amount: &Amount,
) -> Result<(u64, f64), Box<dyn Error>> {
    let options = FilesOptions {
        program,
        amount: amount.clone(),
        kind: "inplace".parse::<Kind>()?,
        options: Default::default(),
        mkfs: MkfsOptions::default(),
        volume_blocks: None,
        cache_bytes: None,
        host: Host::none(),
        policy: PolicyKind::Async,
        trust_completions: false,
    };
    let report = run(target, &options, clock)?;
    let calls = report.phases.iter().map(|phase| phase.calls).sum();
    Ok((calls, report.phases.iter().map(|phase| phase.host_seconds).sum()))
}

#[expect(clippy::disallowed_methods, reason = "the disk is an argument")]
fn main() -> Result<(), Box<dyn Error>> {
    let disk = std::env::args().nth(1).unwrap_or_else(|| "cheetah9lp".to_owned());
    let target = Target::disk(&specs::find(&disk).ok_or("no such disk")?, None)?;
    println!("{disk}: {:<10}{:>10}{:>14}{:>10}", "program", "calls", "calls/s", "of goal");
    for (program, files) in
        [(ProgramKind::Pairs, 50_000), (ProgramKind::Small, 20_000), (ProgramKind::PostMark, 5_000)]
    {
        let amount = Amount { files: Some(files), transactions: Some(50_000), ..Amount::default() };
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let (calls, seconds) = measure(&target, program, &amount)?;
            runs.push((calls as f64 / seconds, calls));
        }
        runs.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (rate, calls) = runs[RUNS / 2];
        println!("{disk}: {:<10}{calls:>10}{rate:>14.0}{:>10.2}", program.to_string(), rate / GOAL);
    }
    Ok(())
}
