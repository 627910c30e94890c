//! Prints how fast the host simulates programs over FFS with every event of a disk, in calls and in
//! files per second of host time, against the goal of 300,000 calls. A phase counts until
//! everything is on the disk. Each figure is the median of its runs. `of async` compares with the
//! first policy.
//!
//! `cargo run --release -p seekless-lab --example files_speed [disk] [policy]`

use seekless_disk::specs;
use seekless_fs::policy::PolicyKind;
use seekless_lab::files::host::Host;
use seekless_lab::files::programs::{Amount, ProgramKind};
use seekless_lab::files::report::PhaseReport;
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

/// A phase: its name, calls, files and their time on the host in seconds.
type Measured = (String, u64, u64, f64);

/// The phases of a program; each counts until everything is on the disk.
fn measure(
    target: &Target,
    policy: PolicyKind,
    program: ProgramKind,
    amount: &Amount,
) -> Result<Vec<Measured>, Box<dyn Error>> {
    let kind = "inplace".parse::<Kind>()?;
    let options = FilesOptions {
        amount: amount.clone(),
        policy,
        host: Host::none(),
        ..FilesOptions::new(program, kind)
    };
    let report = run(target, &options, clock)?;
    let phase = |phase: &PhaseReport| {
        let of = |kind: &str| phase.by_call.get(kind).map_or(0, |call| call.calls);
        let files = of("create").max(of("open")).max(of("unlink"));
        (phase.phase.clone(), phase.calls, files, phase.host_seconds)
    };
    Ok(report.phases.iter().map(phase).collect())
}

#[expect(clippy::disallowed_methods, reason = "disk and policy are arguments")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let disk = args.next().unwrap_or_else(|| "cheetah9lp".to_owned());
    let named = args.next();
    let chosen = |policy: &PolicyKind| named.as_deref().is_none_or(|name| name == policy.name());
    let target = Target::disk(&specs::find(&disk).ok_or("no such disk")?, None)?;
    println!(
        "{disk}: {:<34}{:>10}{:>14}{:>14}{:>10}{:>10}",
        "program, phase, policy", "calls", "calls/s", "files/s", "of goal", "of async"
    );
    let policies: Vec<PolicyKind> = PolicyKind::ALL.into_iter().filter(chosen).collect();
    for (program, files) in
        [(ProgramKind::Pairs, 50_000), (ProgramKind::Small, 20_000), (ProgramKind::PostMark, 5_000)]
    {
        let amount =
            Amount { files: Some(files), transactions: Some(50_000), ..Amount::one_user() };
        let mut runs: Vec<Vec<Vec<Measured>>> = vec![Vec::new(); policies.len()];
        // Policies take turns, so that what else the host does falls on all of them.
        for _ in 0..RUNS {
            for (runs, &policy) in runs.iter_mut().zip(&policies) {
                runs.push(measure(&target, policy, program, &amount)?);
            }
        }
        for phase in 0..runs[0][0].len() {
            let mut base = None;
            for (runs, policy) in runs.iter_mut().zip(&policies) {
                runs.sort_by(|one, other| one[phase].3.total_cmp(&other[phase].3));
                let (name, calls, files, seconds) = &runs[RUNS / 2][phase];
                let (rate, each) = (*calls as f64 / seconds, *files as f64 / seconds);
                let what = format!("{program}, {name}, {}", policy.name());
                let (of_goal, of_base) = (rate / GOAL, rate / *base.get_or_insert(rate));
                print!("{disk}: {what:<34}{calls:>10}{rate:>14.0}{each:>14.0}");
                println!("{of_goal:>10.2}{of_base:>10.2}");
            }
        }
    }
    Ok(())
}
