//! `seekless sim`: a workload over a simulated disk, in virtual time.

use super::host_clock;
use crate::caching::CachingArgs;
use crate::failure::{Failure, Outcome};
use crate::size::Size;
use crate::span::Span;
use crate::spec;
use crate::term::Progress;
use clap::ValueEnum;
use seekless_engine::layout::loge::Heuristic;
use seekless_engine::layout::{Compaction, Kind, Tuning};
use seekless_lab::sim::{SimError, SimOptions, compare, simulate};
use seekless_lab::workload::{self, Bursts, Workload};
use std::io::Write;

/// Arguments of `seekless sim`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless sim --layout vlog --disk st19101
  seekless sim --layout inplace,vlog --disk hp97560,st19101     # side by side
  seekless sim --layout vlog --disk desktop7200 --empty --size 64k --pattern sequential
  seekless sim --layout vlog --disk st19101 --burst 256 --idle 500ms --json
  seekless sim --layout vlog --disk st19101 --rest 60s --requests 300   # right after compaction
  seekless sim --layout loge --disk hp97560 --heuristic pl+sg --read-share 0.5

The default workload is 4 KiB random writes, each durable before the next one is sent, on a volume
that has been filled and aged. Everything that is read is compared with what was written. The same
seed gives the same figures, except for how fast the host simulated.")]
pub struct Args {
    /// One layout, or several to compare, separated by commas.
    #[arg(long, short, value_name = "LAYOUT", required = true, value_delimiter = ',')]
    layout: Vec<Kind>,
    /// A built-in disk (`seekless disks` lists them) or the path of a TOML file; several separated
    /// by commas.
    #[arg(long, short, value_name = "SPEC", required = true, value_delimiter = ',')]
    disk: Vec<String>,
    /// Share of the disk that live data fills.
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    utilisation: f64,
    /// Requests to measure.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    requests: u64,
    /// Share of requests that read, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    read_share: f64,
    /// Size of a request in whole 4 KiB blocks.
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    size: Size,
    /// Requests in flight.
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: u32,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where requests go.
    #[arg(long, value_enum, default_value_t = Pattern::Random)]
    pattern: Pattern,
    /// Pause after each burst of requests, for work in the background.
    #[arg(long, value_name = "SPAN")]
    idle: Option<Span>,
    /// Requests in a burst.
    #[arg(long, value_name = "N", requires = "idle", default_value_t = 64)]
    burst: u64,
    /// Let writes be answered from the drive's write cache, if it has one.
    #[arg(long)]
    no_fua: bool,
    /// Flush after this many writes.
    #[arg(long, value_name = "N")]
    flush_every: Option<u64>,
    /// Share of the live data that requests go to.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    range: f64,
    /// Random overwrites per block that age the volume before anything is measured.
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    age: f64,
    /// How long the aged volume is left alone before anything is measured, for work in the
    /// background.
    #[arg(long, value_name = "SPAN")]
    rest: Option<Span>,
    /// Requests of the same workload before the measured ones.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm_up: u64,
    /// Start with an empty volume: for disks too large to be filled in memory.
    #[arg(long)]
    empty: bool,
    /// Which tracks the virtual log empties while no client waits: off, random, least-used or
    /// nearest.
    #[arg(long, value_name = "CHOICE", default_value_t = Compaction::LeastUsed)]
    compaction: Compaction,
    /// How full a track is, in percent, when the virtual log leaves it for the next empty one.
    #[arg(long, value_name = "PERCENT", default_value_t = 75,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    fill_percent: u32,
    /// How `loge` chooses places: soonest, ls, cr, fr, r or pl, each with or without `+sg`.
    #[arg(long, value_name = "NAME", default_value_t = Heuristic::default())]
    heuristic: Heuristic,
    /// Disks without sector headers for layouts: `loge` then keeps its labels in blocks.
    #[arg(long)]
    no_headers: bool,
    #[command(flatten)]
    caching: CachingArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Where requests go.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pattern {
    /// To uniformly random places.
    Random,
    /// One after the other.
    Sequential,
}

/// Simulates and prints the report.
///
/// # Errors
/// If the options make no sense, or the simulation found a defect.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let options = options(args)?;
    let targets = args.disk.iter().map(|disk| spec::target(disk)).collect::<Result<Vec<_>, _>>()?;
    let mut progress = Progress::new();
    progress.show(|| "filling and ageing the volume, then measuring…".to_owned());
    let text = if let ([_], [target]) = (args.layout.as_slice(), targets.as_slice()) {
        let report = simulate(target, &options, host_clock)?;
        if args.json { report.to_json() } else { report.to_text() }
    } else {
        let comparison = compare(&args.layout, &targets, &options, host_clock)?;
        if args.json { comparison.to_json() } else { comparison.to_text() }
    };
    drop(progress);
    writeln!(out, "{}", text.trim_end())?;
    Ok(())
}

fn options(args: &Args) -> Result<SimOptions, Failure> {
    let request_blocks = workload::request_blocks(args.size.bytes())
        .map_err(|error| Failure::usage(format!("--size: {error}")))?;
    let bursts = args.idle.map(|idle| Bursts { requests: args.burst, idle_ns: idle.ns });
    Ok(SimOptions {
        kind: args.layout[0],
        utilisation: Some(args.utilisation),
        workload: Workload {
            pattern: match args.pattern {
                Pattern::Random => workload::Pattern::Random,
                Pattern::Sequential => workload::Pattern::Sequential,
            },
            read_share: args.read_share,
            request_blocks,
            depth: args.depth,
            fua: !args.no_fua,
            flush_every: args.flush_every,
            think_ns: 0,
            bursts,
            range: args.range,
            requests: args.requests,
            warm_up: args.warm_up,
        },
        seed: args.seed,
        fill: !args.empty,
        age: args.age,
        rest_ns: args.rest.map_or(0, |rest| rest.ns),
        verify: true,
        tuning: Tuning {
            compaction: Some(args.compaction),
            fill_percent: args.fill_percent,
            caching: args.caching.caching(),
        },
        heuristic: args.heuristic,
        headers: !args.no_headers,
    })
}

impl From<SimError> for Failure {
    fn from(error: SimError) -> Failure {
        let failure = Failure::from_message(crate::failure::Exit::Usage, &error.to_string());
        match error {
            // A run that breaks off has found a defect, in us or in the layout.
            SimError::Drive(_) => Failure { exit: crate::failure::Exit::Failed, ..failure },
            SimError::TooLarge { .. } => failure.hint("start with an empty volume: --empty"),
            _ => failure,
        }
    }
}
