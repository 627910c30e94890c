//! `seekless sim`: a workload on a simulated disk, in virtual time.

mod trace;

use crate::clock::host_clock;
use crate::effect::Given;
use crate::failure::{Failure, Outcome};
use crate::layout_flags::{LayoutFlags, Simulate};
use crate::spec;
use crate::term::Progress;
use clap::ValueEnum;
use seekless_arrays::Level;
use seekless_disk::spec::{Discipline, Queue};
use seekless_disk::{ReadAhead, Spec};
use seekless_engine::io::IoError;
use seekless_engine::size::Size;
use seekless_engine::span::Span;
use seekless_lab::distribution::Distribution;
use seekless_lab::driver::DriveError;
use seekless_lab::sim::{Field, SimError, SimOptions, Target, compare, simulate, simulate_trace};
use seekless_lab::workload::{self, Bursts, Workload};
use seekless_layouts::Kind;
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
  seekless sim --layout inplace,vlog --disk atlas10k:500M --utilisation 0.8,0.9,0.95 \\
    --trace tpcc.csv.zst --loop closed --users 20 --scheduler look
  seekless sim --layout inplace,dcd --disk barracuda --log barracuda     # the log on a second one
  seekless sim --layout vlog,lfs --disk st19101 --nvram 6M --burst 256 --idle 1s
  seekless sim --layout inplace --disk atlas10k:500M --generate tpcc --users 20 --pool 40M

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
    /// Put the log of `dcd` on a disk of its own, named like --disk. Other layouts ignore it.
    #[arg(long, value_name = "SPEC", conflicts_with = "raid")]
    log: Option<String>,
    /// Put a buffer of this size that keeps its content without power (NVRAM) in front of `lfs`,
    /// `wolf` or `hylog`. It answers durable writes. Other layouts ignore it.
    #[arg(long, value_name = "SIZE", conflicts_with = "log")]
    nvram: Option<Size>,
    /// What a disk with a track buffer reads ahead: `none`, `forward` or `whole-track`. [default:
    /// as the disk has it]
    #[arg(long, value_name = "HOW", value_parser = spec::read_aheads())]
    read_ahead: Option<ReadAhead>,
    /// Simulate on an array of such disks: 0, 1 or 5.
    #[arg(long, value_name = "LEVEL")]
    raid: Option<Level>,
    /// Members of the array; by default the fewest for the level.
    #[arg(long, value_name = "N", requires = "raid")]
    members: Option<u16>,
    /// Length of a chunk: so much lies on one member of the array before the next member is used.
    #[arg(
        long = "chunk",
        alias = "stripe",
        value_name = "SIZE",
        default_value = "64k",
        requires = "raid"
    )]
    chunk: Size,
    /// Share of the disk that live data fills; several to compare, separated by commas.
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_delimiter = ',')]
    utilisation: Vec<f64>,
    /// Requests to measure. [default: 20000; traces: all]
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
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
    /// Which addresses requests go to.
    #[arg(long, value_enum, default_value_t = Pattern::Random)]
    pattern: Pattern,
    /// How often each random address is requested: uniform, hotcold:90,10 (percent of the requests,
    /// percent of the addresses), knuth:80,20 or hill:105,.528,.546. Popular addresses are
    /// scattered.
    #[arg(long, value_name = "NAME", default_value_t = Distribution::Uniform)]
    distribution: Distribution,
    /// Pause after each burst of requests, for work in the background.
    #[arg(long, value_name = "SPAN")]
    idle: Option<Span>,
    /// Requests in a burst.
    #[arg(long, value_name = "N", requires = "idle", default_value_t = 64)]
    burst: u64,
    /// Let the drive answer writes from its write cache, if it has one.
    #[arg(long)]
    no_fua: bool,
    /// Flush after this many writes.
    #[arg(long, value_name = "N")]
    flush_every: Option<u64>,
    /// Share of the live data that requests go to.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    range: f64,
    /// Random overwrites per block that age the volume before the measurement; 2 unless --empty.
    #[arg(long, value_name = "N")]
    age: Option<f64>,
    /// Pause between ageing and the measurement, for work in the background.
    #[arg(long, value_name = "SPAN")]
    rest: Option<Span>,
    /// Requests of the same workload before the measured ones.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm_up: u64,
    /// Start with an empty volume, for disks too large to fill in memory.
    #[arg(long)]
    empty: bool,
    /// Do not offer sector headers to layouts: `loge` then keeps its labels in blocks.
    #[arg(long)]
    no_headers: bool,
    /// Order in which the host sends waiting requests to the disk, one at a time [default: the disk
    /// orders them].
    #[arg(long, value_enum, value_name = "RULE")]
    scheduler: Option<Scheduler>,
    #[command(flatten)]
    trace: trace::TraceArgs,
    #[command(flatten)]
    layout_flags: LayoutFlags<Simulate>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Default number of measured requests.
const REQUESTS: u64 = 20_000;
/// Default number of overwrites per block that age a volume.
const AGE: f64 = 2.0;

/// Which waiting request is sent next.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scheduler {
    /// The oldest.
    Fcfs,
    /// The nearest in the direction of the arm, which turns at the last one (SCAN).
    #[value(alias = "scan")]
    Look,
    /// The nearest in ascending order, then from the lowest again.
    CLook,
    /// The shortest seek.
    Sstf,
    /// The shortest seek and rotation.
    Sptf,
}

impl Scheduler {
    /// The host sends the disk one request at a time, chosen by this rule.
    fn apply(self, spec: &mut Spec) {
        let discipline = match self {
            Scheduler::Fcfs => Discipline::Fcfs,
            Scheduler::Look => Discipline::Look,
            Scheduler::CLook => Discipline::CLook,
            Scheduler::Sstf => Discipline::Sstf,
            Scheduler::Sptf => Discipline::Sptf,
        };
        spec.queue = Queue { depth: 1, ..Queue::default() };
        spec.host_queue = Queue { discipline, ..Queue::default() };
    }
}

/// Which addresses requests go to.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pattern {
    /// Uniformly random addresses.
    Random,
    /// Ascending addresses.
    Sequential,
}

/// Refuses options that have no effect on any of the layouts.
fn refuse_without_effect(args: &Args, given: &Given) -> Outcome {
    let is_log = |kind: &Kind| kind.is_log_structured();
    let has_log = args.layout.iter().any(is_log);
    let mut layouts = args.layout.clone();
    if args.nvram.is_some() && has_log && !layouts.contains(&Kind::DCD) {
        // The buffer is a disk caching disk and takes the options of one.
        layouts.push(Kind::DCD);
    }
    given.refuse_without_effect(&layouts, "choose --layout")
}

/// Refuses values outside their ranges.
fn refuse_nonsense(args: &Args) -> Outcome {
    if args.empty && args.age.is_some_and(|age| age != 0.0) {
        return Err(Failure::usage("--age: an empty volume has no blocks to overwrite")
            .hint("leave out --age or --empty"));
    }
    Ok(())
}

/// Simulates and prints the report.
///
/// # Errors
/// If the options are invalid, or the simulation found a defect.
pub fn run(args: &Args, given: &Given, out: &mut dyn Write) -> Outcome {
    refuse_without_effect(args, given)?;
    refuse_nonsense(args)?;
    let options = options(args)?;
    let workload = &options.workload;
    let load = args.trace.load(workload, args.requests, args.warm_up, args.seed)?;
    let targets = args.disk.iter().map(|disk| target(args, disk)).collect::<Result<Vec<_>, _>>()?;
    let mut progress = Progress::new();
    progress.show(|| "filling and ageing the volume, then measuring…".to_owned());
    let single = (args.layout.len(), targets.len(), args.utilisation.len()) == (1, 1, 1);
    let text = if single {
        let report = match &load {
            Some(load) => simulate_trace(&targets[0], &options, load, host_clock)?,
            None => simulate(&targets[0], &options, host_clock)?,
        };
        if args.json { report.to_json() } else { report.to_text() }
    } else {
        let (kinds, utilisations) = (&args.layout, &args.utilisation);
        let field = Field { kinds, targets: &targets, utilisations };
        let comparison = compare(&field, &options, load.as_ref(), host_clock)?;
        if args.json { comparison.to_json() } else { comparison.to_text() }
    };
    drop(progress);
    writeln!(out, "{}", text.trim_end())?;
    Ok(())
}

/// The disk, or an array of such disks.
fn target(args: &Args, disk: &str) -> Result<Target, Failure> {
    let change = |spec: &mut Spec| args.scheduler.iter().for_each(|rule| rule.apply(spec));
    let target = spec::target(disk, args.read_ahead, change)?;
    if let Some(log) = &args.log {
        let log = spec::target(log, None, change)?;
        return target.with_log(log).map_err(|error| Failure::usage(error.to_string()));
    }
    let target = match args.raid {
        None => target,
        Some(level) => {
            let members = args.members.map_or(level.least_members(), usize::from);
            let chunk = u32::try_from(args.chunk.blocks()).unwrap_or(u32::MAX);
            let array = target.array(level, members, chunk);
            array.map_err(|error| Failure::usage(error.to_string()))?
        }
    };
    let Some(nvram) = args.nvram else { return Ok(target) };
    let buffered = target.with_nvram(nvram.blocks());
    buffered.map_err(|error| Failure::usage(format!("--nvram: {error}")))
}

fn options(args: &Args) -> Result<SimOptions, Failure> {
    let request_blocks = workload::request_blocks(args.size.bytes())
        .map_err(|error| Failure::usage(format!("--size: {error}")))?;
    let bursts = args.idle.map(|idle| Bursts { requests: args.burst, idle_ns: idle.ns });
    Ok(SimOptions {
        kind: args.layout[0],
        utilisation: args.utilisation.first().copied(),
        workload: Workload {
            pattern: match args.pattern {
                Pattern::Random => workload::Pattern::Random,
                Pattern::Sequential => workload::Pattern::Sequential,
            },
            distribution: args.distribution,
            read_share: args.read_share,
            request_blocks,
            depth: args.trace.users().unwrap_or(args.depth),
            fua: !args.no_fua,
            flush_every: args.flush_every,
            think_ns: 0,
            bursts,
            range: args.range,
            requests: args.requests.unwrap_or(REQUESTS),
            warm_up: args.warm_up,
        },
        seed: args.seed,
        fill: !args.empty,
        age: args.age.unwrap_or(AGE),
        rest_ns: args.rest.map_or(0, |rest| rest.ns),
        verify: true,
        headers: !args.no_headers,
        options: args.layout_flags.options.clone(),
    })
}

impl From<SimError> for Failure {
    fn from(error: SimError) -> Failure {
        let failure = Failure::from_message(crate::failure::Exit::Usage, &error.to_string());
        match error {
            // A run that stops early has found a defect in this program.
            SimError::Drive(DriveError::Failed { error: IoError::Zone { .. }, .. }) => failure
                .hint(
                    "a host-managed disk accepts writes only in the order of its zones: read \
                     (--age 0 --read-share 1), or write in order (--empty --pattern sequential)",
                ),
            SimError::Drive(_) => Failure { exit: crate::failure::Exit::Failed, ..failure },
            SimError::Age { .. } => failure.hint("choose a smaller --age, or 0 for none"),
            SimError::TooLarge { .. } => failure.hint("start with an empty volume: --empty"),
            _ => failure,
        }
    }
}
