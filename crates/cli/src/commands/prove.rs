//! `seekless prove`: power cuts at every step.

use super::host_clock;
use crate::failure::{Exit, Failure, Outcome};
use crate::term::Progress;
use seekless_engine::layout::Kind;
use seekless_lab::prove::{ProveOptions, ProveReport, Subject, prove};
use serde_json::{Value, json};
use std::io::Write;

/// Arguments of `seekless prove`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless prove --layout vlog
  seekless prove --layout vlog --states 1000000 --seed 7
  seekless prove --layout dcd --log        # the log on a device of its own
  seekless prove --layout inplace --json | jq .violations

The same seed tries the same crash states. The exit code is 0 only if nothing was violated; each
violation names the command that repeats it.")]
pub struct Args {
    /// The layout to prove.
    #[arg(long, short, value_name = "LAYOUT")]
    layout: Kind,
    /// The log of `dcd` on a device of its own.
    #[arg(long)]
    log: bool,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Crash states to try; the last world is finished, so it may be some more.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    states: u64,
    /// Run only this world, to repeat a violation.
    #[arg(long, value_name = "N")]
    case: Option<u64>,
    /// Stop at the first violation.
    #[arg(long)]
    stop_at_first: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the sweep and prints what it found.
///
/// # Errors
/// If a promise was broken.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let subject = match (args.log, args.layout) {
        (false, kind) => Subject::Layout(kind),
        (true, Kind::Dcd) => Subject::Attached,
        (true, kind) => {
            return Err(Failure::usage(format!("--log: a volume of layout {kind} has no log")));
        }
    };
    let options = ProveOptions {
        seed: args.seed,
        states: args.states,
        case: args.case,
        stop_at_first: args.stop_at_first,
        ..ProveOptions::new(subject)
    };
    let mut progress = Progress::new();
    let mut shown = |tried: u64| {
        progress.show(|| format!("{tried} of {} crash states", args.states));
    };
    let report = prove(&options, host_clock, &mut shown);
    drop(progress);
    if args.json {
        writeln!(out, "{}", as_json(&report)?)?;
    } else {
        write!(out, "{}", report.to_text())?;
    }
    if report.violations.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Failed)) }
}

/// The report with the number of violations where scripts look for it; the stories stand apart.
fn as_json(report: &ProveReport) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(report)
        .map_err(|error| Failure::failed(format!("cannot write the report: {error}")))?;
    value["stories"] = value["violations"].take();
    value["violations"] = json!(report.violations.len());
    Ok(value)
}
