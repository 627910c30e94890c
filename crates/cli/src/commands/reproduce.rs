//! `seekless reproduce`: figures of the papers about file systems, with a verdict for each claim.

mod kept;
mod runs;
mod which;

use crate::clock::host_clock;
use crate::failure::{Exit, Failure, Outcome};
use crate::filesystem::policies;
use kept::Kept;
use seekless_fs::policy::PolicyKind;
use seekless_lab::figures::job::FigureError;
use seekless_lab::figures::{Figure, Settings, jobs, judge};
use seekless_layouts::Kind;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use which::Which;

/// Arguments of `seekless reproduce`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless reproduce journal/pairs
  seekless reproduce dcd/tree --quick
  seekless reproduce vlog/update --layout vlog,inplace --svg update.svg
  seekless reproduce joint --json
  seekless reproduce vlog/all --with vlfs
  seekless reproduce journal/all --keep results     # again after a break: goes on

Each figure is a set of runs of `seekless sim-fs`. The tables show the numbers of the paper beside
ours, as far as it prints them. Verdicts: `holds`; `differs`, with the measurement that shows why;
`cannot be told`, if the runs do not show it, or if it depends on costs of the host that no paper
states; `calibration`, if the model was fitted to it. All rates are of virtual time: the same seed
gives the same report.")]
pub struct Args {
    /// The figure.
    #[arg(value_name = "FIGURE", value_parser = which::parser())]
    figure: Which,
    /// Only these policies, separated by commas. [default: all of the figure; those with a log
    /// belong to `journal` and `joint`]
    #[arg(long, value_name = "POLICY", value_delimiter = ',', value_parser = policies())]
    policy: Vec<PolicyKind>,
    /// Only these layouts, or others than those of the figure, separated by commas.
    #[arg(long, short, value_name = "LAYOUT", value_delimiter = ',')]
    layout: Vec<Kind>,
    /// Also run VLFS, which paper 000 designed and did not build, where a figure of that paper has
    /// other file systems: with patches, and literally as described.
    #[arg(long = "with", value_name = "SYSTEM", value_parser = ["vlfs"])]
    also: Vec<String>,
    /// Small amounts: shows that it works, in seconds. Rates are not those of the paper.
    #[arg(long)]
    quick: bool,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs at the same time. [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Compare with this number in place of the one of the paper, as `J20/sync=500`: shows that a
    /// verdict can be another one.
    #[arg(long, value_name = "CLAIM=NUMBER", value_parser = planted)]
    claim: Vec<(String, f64)>,
    /// Also draw the figure into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Keep each finished run in this directory, and use those that are there: what was broken off
    /// goes on behind them.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print the claims as tables of Markdown, and nothing else.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON object for each figure.
    #[arg(long)]
    json: bool,
}

/// A claim with a number.
fn planted(text: &str) -> Result<(String, f64), String> {
    let (id, number) = text.rsplit_once('=').ok_or("give a claim and a number: J20/sync=500")?;
    let number: f64 = number.parse().map_err(|_| format!("`{number}` is no number"))?;
    match number.is_finite() {
        true => Ok((id.to_owned(), number)),
        false => Err("the number must be finite".to_owned()),
    }
}

/// Measures the figures and prints them.
///
/// # Errors
/// If a run finds a defect, or the picture cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if args.figure.only().is_none() && (args.svg.is_some() || !args.claim.is_empty()) {
        return Err(Failure::usage(format!("{} has several figures", args.figure.name))
            .hint("--svg and --claim are for one figure"));
    }
    for &figure in &args.figure.figures {
        refuse_policies(args, figure)?;
    }
    let mut kept = args.keep.as_deref().map(Kept::open).transpose()?;
    for (at, &figure) in args.figure.figures.iter().enumerate() {
        let text = measured(args, figure, kept.as_mut())?;
        // JSON objects stand one behind the other; texts and tables are set apart.
        let gap = if at > 0 && !args.json { "\n" } else { "" };
        writeln!(out, "{gap}{}", text.trim_end())?;
        out.flush()?;
    }
    Ok(())
}

/// The text of a figure.
fn measured(args: &Args, figure: Figure, kept: Option<&mut Kept>) -> Result<String, Failure> {
    let settings = Settings {
        seed: args.seed,
        quick: args.quick,
        policies: args.policy.clone(),
        layouts: args.layout.clone(),
        vlfs: args.also.iter().any(|system| system == "vlfs"),
    };
    let planted: BTreeMap<String, f64> = args.claim.iter().cloned().collect();
    let jobs = jobs(figure, &settings);
    if jobs.is_empty() {
        return Err(Failure::usage(format!("{}: there is nothing to run", figure.name()))
            .hint("a policy with a log runs on --layout inplace here"));
    }
    let outcomes = runs::run(figure.name(), &jobs, (threads(args), host_clock), kept)?;
    let report = judge(figure, &settings, &outcomes, &planted)?;
    if let Some(path) = &args.svg {
        std::fs::write(path, report.chart.to_svg()).map_err(|error| {
            Failure::failed(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    Ok(match (args.json, args.markdown) {
        (true, _) => report.to_json(),
        (_, true) => report.to_markdown(),
        _ => report.to_text(),
    })
}

/// Refuses a policy that the figure does not run under.
fn refuse_policies(args: &Args, figure: Figure) -> Outcome {
    let known = figure.policies();
    let Some(other) = args.policy.iter().find(|policy| !known.contains(policy)) else {
        return Ok(());
    };
    let names: Vec<&str> = known.iter().map(|policy| policy.name()).collect();
    let (figure, other) = (figure.name(), other.name());
    Err(Failure::usage(format!("{figure} does not run under the policy {other}"))
        .hint(format!("choose --policy {}", names.join(" or "))))
}

fn threads(args: &Args) -> usize {
    let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
    args.threads.map_or_else(cpus, usize::from)
}

impl From<FigureError> for Failure {
    fn from(error: FigureError) -> Failure {
        let exit = match &error {
            FigureError::NoClaim(..) => Exit::Usage,
            _ => Exit::Failed,
        };
        Failure::from_message(exit, &error.to_string())
    }
}
