//! `seekless prove`: power cuts at every step.

mod files;
mod parallel;
#[cfg_attr(not(debug_assertions), path = "prove/not_planted.rs")]
mod planted;
mod replay;
mod saved;

use crate::failure::{Exit, Failure, Outcome};
use crate::term::Progress;
use planted::Plant;
#[cfg(debug_assertions)]
use planted::Planted;
use saved::Saveable;
use seekless_arrays::Level;
use seekless_crashtest::sweep::Shard;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::DataMode;
use seekless_layouts::Kind;
use seekless_prove::files::{FileSubject, Rules};
use seekless_prove::sweep::Sweep;
use seekless_prove::{BlockSubject, Keep, LogSubject, ProveOptions, ProveReport, Subject};
use serde_json::{Value, json};
use std::cell::Cell;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

/// Arguments of `seekless prove`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless prove --layout vlog
  seekless prove --layout vlog --states 1000000 --seed 7
  seekless prove --layout dcd --log        # the log on a device of its own
  seekless prove --layout loge --sparse    # more addresses than space
  seekless prove --layout vlog --objects   # the drive of VLFS
  seekless prove --layout inplace --json | jq .violations
  seekless prove --layout inplace --raid 5 --members 4     # members are lost with the power
  seekless prove --layout vlog --case 12 --keep 3,7:1,9-12
  seekless prove --fs ffs --policy async   # a file system
  seekless prove --fs ffs --policy wafs-1async --data writeback    # with a log
  seekless prove --fs ffs --ace 1          # all sequences of one operation
  seekless prove --fs log                  # the log as a service
  seekless prove --fs ffs --trust-completions --device keeps    # without flushes
  seekless prove --fs ffs --ace 3 --from 5000      # a sample of those of three, from a later run on
  seekless prove --layout vlog --runs 1000 --shard 2/8 --json >2.json    # on eight machines
  seekless prove --replay failure.json
  seekless prove --list                    # everything that `cargo xtask sweep` proves

The same seed tries the same crash states. The exit code is 0 only if nothing was violated; each
violation is printed step by step, with the command that repeats it. The first three are shrunk with
a bounded effort, others if --case names them.")]
pub struct Args {
    /// The layout to prove.
    #[arg(long, short, value_name = "LAYOUT")]
    #[arg(required_unless_present_any = ["fs", "replay", "list"])]
    layout: Option<Kind>,
    /// Prove it on an array of this level: 0, 1 or 5.
    #[arg(long, value_name = "LEVEL", conflicts_with = "replay")]
    raid: Option<Level>,
    /// Members of the array; by default the fewest for the level.
    #[arg(long, value_name = "N", requires = "raid",
          value_parser = clap::value_parser!(u16).range(2..=8))]
    members: Option<u16>,
    /// The log of `dcd` on a device of its own.
    #[arg(long, conflicts_with_all = ["raid", "replay"])]
    log: bool,
    /// A `loge` volume with more addresses than it can store blocks.
    #[arg(long, conflicts_with_all = ["raid", "log", "replay"])]
    sparse: bool,
    /// Objects on the virtual log of `vlog`: the drive of VLFS, as a row of blocks.
    #[arg(long, conflicts_with_all = ["raid", "log", "sparse", "replay"])]
    objects: bool,
    /// Prove a file system instead of a layout: ffs; or the log as a service: log.
    #[arg(long, value_name = "FS", value_parser = files::named)]
    #[arg(conflicts_with_all = ["layout", "raid", "log", "sparse", "objects", "replay"])]
    fs: Option<files::Named>,
    /// How the file system orders its writes: async, sync, soft, or with a log: lffs-file,
    /// wafs-1sync, wafs-1async, wafs-2sync, wafs-2async (2: the log on a device of its own).
    #[arg(long, value_name = "POLICY", requires = "fs", default_value = "async")]
    #[arg(value_parser = files::policy)]
    policy: PolicyKind,
    /// When content is written, under a policy with a log: before the group that leads to it
    /// (ordered), or at any time (writeback).
    #[arg(long, value_name = "MODE", requires = "fs", value_parser = files::data)]
    data: Option<DataMode>,
    /// Hold it to the promises of another policy, to see which of them it breaks.
    #[arg(long, value_name = "POLICY", requires = "fs", value_parser = files::rules)]
    judge: Option<Rules>,
    /// Run short sequences of operations, each cut at every event, instead of workloads: all of one
    /// operation or of two, a sample of those of three.
    #[arg(long, value_name = "N", requires = "fs")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=3))]
    ace: Option<u8>,
    /// The file system takes completed writes for durable and sends no flush, as kernels of 1999
    /// did: on devices that keep completed writes nothing is lost, on others every promise is.
    #[arg(long, requires = "fs")]
    trust_completions: bool,
    /// Try only devices of this class: keeps (completed writes are durable), prefix (what survives
    /// is a prefix of the writes) or unordered (any write that was not flushed may be lost).
    #[arg(long, value_name = "CLASS", requires = "fs", value_parser = files::device)]
    device: Option<seekless_prove::Order>,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Crash states to try. The last run is finished, so the total may exceed this.
    /// 20,000 by default; with --ace 1 and --ace 2 all sequences are run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    states: Option<u64>,
    /// Start with this run.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["case", "replay"])]
    from: u64,
    /// So many runs, in place of a number of crash states.
    #[arg(long, value_name = "N", conflicts_with_all = ["case", "replay", "states"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Of these runs only a share: part I of N. `seekless merge` adds the reports up.
    #[arg(long, value_name = "I/N", requires = "runs")]
    shard: Option<Shard>,
    /// Runs at a time; by default one for each processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Run only this run, to repeat a violation.
    #[arg(long, value_name = "N")]
    case: Option<u64>,
    /// Of that run, keep only these operations, such as 3,7:1,9-12. The number after a colon limits
    /// the blocks of a request. The one after an @ names the first operation at which the power may
    /// be cut.
    #[arg(long, value_name = "OPERATIONS", requires = "case")]
    keep: Option<Keep>,
    /// Run again what --save has saved: the run of a file, or all runs of a directory. Those of a
    /// directory must pass and, with the planted bug that a run names, fail.
    #[arg(long, value_name = "PATH")]
    #[arg(conflicts_with_all = ["layout", "case", "keep", "seed", "save"])]
    replay: Option<PathBuf>,
    /// Save the run of the first violation as a file for --replay; with --case that run even if it
    /// passes.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Report violations as they were found, without shrinking them.
    #[arg(long)]
    no_shrink: bool,
    /// Stop at the first violation.
    #[arg(long)]
    stop_at_first: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Print the arguments that choose each subject, and stop.
    #[arg(long, conflicts_with_all = ["layout", "replay"])]
    list: bool,
    /// Prove it with a planted bug, to see the prover find it.
    #[cfg(debug_assertions)]
    #[arg(long, value_name = "BUG", value_parser = planted::parse)]
    plant: Option<Planted>,
}

/// Crash states that are tried by default.
const STATES: u64 = 20_000;

impl Args {
    fn apart(&self) -> Apart {
        Apart { log: self.log, sparse: self.sparse, objects: self.objects }
    }

    fn states(&self) -> u64 {
        let all = matches!(self.ace, Some(1 | 2)) || self.runs.is_some();
        self.states.unwrap_or(if all { u64::MAX } else { STATES })
    }

    fn chosen(&self) -> Result<Chosen, Failure> {
        match (self.fs, self.layout) {
            (Some(kind), _) => {
                let variant = files::Variant {
                    data: self.data,
                    judge: self.judge,
                    ace: self.ace,
                    trusts: self.trust_completions,
                    device: self.device,
                };
                match kind {
                    files::Named::Kind(kind) => {
                        Ok(Chosen::Files(files::subject(kind, self.policy, variant)?))
                    }
                    files::Named::Log => Ok(Chosen::Log(files::log(self.policy, variant)?)),
                }
            }
            (None, Some(layout)) => {
                Ok(Chosen::Block(subject(layout, self.apart(), self.raid, self.members)?))
            }
            (None, None) => Err(Failure::usage("name a layout, a file system or a file to replay")),
        }
    }

    /// The runs that `--runs` asks for, and those of them that are this shard's: the first one, and
    /// how many.
    fn share(&self) -> Option<Share> {
        let all = self.from..self.from.saturating_add(self.runs?);
        let Shard { index, count } = self.shard.unwrap_or(Shard::WHOLE);
        let runs = u128::from(all.end - all.start);
        // No more than all runs.
        let first = |index: u32| all.start + (runs * u128::from(index) / u128::from(count)) as u64;
        let own = first(index - 1)..first(index);
        Some(Share { all, own })
    }

    /// What is tried of a subject.
    fn options<S: Subject>(&self, subject: S) -> ProveOptions<S> {
        let own = self.share().map(|share| share.own);
        ProveOptions {
            subject,
            seed: self.seed,
            from: own.as_ref().map_or(self.from, |own| own.start),
            runs: own.map(|own| own.end - own.start),
            case: self.case,
            keep: self.keep.clone(),
            states: self.states(),
            stop_at_first: self.stop_at_first,
            shrink: !self.no_shrink && self.keep.is_none(),
        }
    }

    fn jobs(&self) -> usize {
        self.jobs.map_or_else(processors, usize::from)
    }

    fn planted(&self) -> Plant {
        #[cfg(debug_assertions)]
        return Plant(self.plant);
        #[cfg(not(debug_assertions))]
        Plant
    }
}

/// Numbers of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Share {
    /// Of all shards.
    all: Range<u64>,
    /// Of this one.
    own: Range<u64>,
}

/// A subject.
#[derive(Debug)]
enum Chosen {
    Block(BlockSubject),
    Files(FileSubject),
    Log(LogSubject),
}

/// Variants of a volume on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Apart {
    /// The log is on a device of its own.
    log: bool,
    /// The volume has more addresses than it can store blocks.
    sparse: bool,
    /// It is the drive of VLFS.
    objects: bool,
}

/// A layout on one device, on an array, sparse, or with its log apart.
fn subject(
    kind: Kind,
    apart: Apart,
    raid: Option<Level>,
    members: Option<u16>,
) -> Result<BlockSubject, Failure> {
    match (apart, kind) {
        (Apart { log: false, sparse: false, objects: false }, _) => {}
        (Apart { objects: true, .. }, Kind::VLOG) => return Ok(BlockSubject::Objects),
        (Apart { objects: true, .. }, _) => {
            let problem = format!("--objects: a volume of layout {kind} has no objects");
            return Err(Failure::usage(problem).hint("--layout vlog can have them"));
        }
        (Apart { log: true, .. }, Kind::DCD) => return Ok(BlockSubject::Attached),
        (Apart { log: true, .. }, _) => {
            let problem = format!("--log: a volume of layout {kind} has no log");
            return Err(Failure::usage(problem).hint("--layout dcd has one"));
        }
        (Apart { sparse: true, .. }, Kind::LOGE) => return Ok(BlockSubject::Sparse),
        (Apart { sparse: true, .. }, _) => {
            let problem = format!("--sparse: a volume of layout {kind} stores all its addresses");
            return Err(Failure::usage(problem).hint("--layout loge can be sparse"));
        }
    }
    let Some(level) = raid else { return Ok(BlockSubject::Layout(kind)) };
    let least = level.least_members();
    let members = members.map_or(least, usize::from);
    if members < least {
        return Err(Failure::usage(format!("--members: {level} has at least {least}")));
    }
    if (kind, level) == (Kind::LOGE, Level::Raid5) {
        // The contract excepts this case. Every sweep would find it.
        let problem = "loge on RAID-5 is not proved: a power cut with the loss of a member may \
                       destroy a stripe that is being written, with its labels, and then loge \
                       refuses to mount (CONTRACT.md, A3)";
        return Err(Failure::usage(problem).hint("choose --raid 1 or another layout"));
    }
    Ok(BlockSubject::Array { level, members, kind })
}

/// Prints the subjects.
fn list(json: bool, out: &mut dyn Write) -> Outcome {
    let blocks = BlockSubject::all().into_iter().map(|one| (one.name(), one.flags()));
    let files = FileSubject::all().into_iter().map(|one| (one.name(), one.flags()));
    let log = LogSubject::default();
    let all = blocks.chain(files).chain([(log.name(), log.flags())]);
    if json {
        let one = |(name, flags): (String, String)| json!({ "name": name, "flags": flags });
        let subjects: Vec<Value> = all.map(one).collect();
        writeln!(out, "{}", json!({ "subjects": subjects }))?;
        return Ok(());
    }
    for (_, flags) in all {
        writeln!(out, "{flags}")?;
    }
    Ok(())
}

std::thread_local! {
    /// The case that this thread runs.
    static CASE: Cell<u64> = const { Cell::new(0) };
}

/// A panic is a finding too: print the command that repeats it.
fn name_the_case_of_a_panic<S: Subject + Send + Sync + 'static>(options: ProveOptions<S>) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        let replay = options.replay(CASE.get());
        crate::term::say(&format!("replay: {replay}"));
    }));
}

/// Runs the sweep, or saved runs again, and prints what was found.
///
/// # Errors
/// If a promise was broken, or a saved run is invalid.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if args.list {
        return list(args.json, out);
    }
    match &args.replay {
        Some(dir) if dir.is_dir() => return replay::all(dir, args.jobs(), out),
        Some(file) => return replay::one(file, args, out),
        None => {}
    }
    match args.chosen()? {
        Chosen::Block(subject) => run_one(args, args.options(subject), out),
        Chosen::Files(subject) => run_one(args, args.options(subject), out),
        Chosen::Log(subject) => run_one(args, args.options(subject), out),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn run_one<S: Saveable>(args: &Args, options: ProveOptions<S>, out: &mut dyn Write) -> Outcome {
    options.find_operations().map_err(|error| Failure::usage(format!("--keep {error}")))?;
    name_the_case_of_a_panic(options.clone());
    let mut progress = Progress::new();
    let states = args.states();
    let mut shown = |stage| progress.show(|| parallel::progress(stage, states));
    let plant = args.planted();
    let run = |case| plant.with(|| Sweep::run(&options, case));
    let report = plant.with(|| parallel::sweep(&options, args.jobs(), &run, &mut shown));
    drop(progress);
    let (share, reached) = (args.share(), plant.reached());
    print(&report, (args.json, share), reached, out)?;
    let first = report.violations.first();
    if let Some(file) = &args.save {
        let plant = plant.name();
        match (first, options.case) {
            (Some(violation), _) => saved::save(&options, violation, plant, file)?,
            (None, Some(case)) => saved::save_passing(&options, case, plant, file)?,
            (None, None) => {}
        }
    }
    if first.is_some() { Err(Failure::said(Exit::Failed)) } else { Ok(()) }
}

/// Prints a report; `reached` says whether what ran came to the edge that was cut, if one was.
fn print(
    report: &ProveReport,
    (json, share): (bool, Option<Share>),
    reached: Option<bool>,
    out: &mut dyn Write,
) -> Outcome {
    if json {
        let mut value = as_json(report)?;
        if let Some(Share { all, own }) = share {
            value["runs"] = json!({
                "from": own.start, "to": own.end, "all_from": all.start, "all_to": all.end,
            });
        }
        if let Some(reached) = reached {
            value["reached"] = json!(reached);
        }
        writeln!(out, "{value}")?;
        return Ok(());
    }
    write!(out, "{}", report.to_text())?;
    if reached == Some(false) {
        writeln!(out, "nothing that ran comes to the edge that is cut")?;
    }
    Ok(())
}

/// The report as JSON: the number of violations at the top, where scripts look for it, and their
/// stories in a list.
fn as_json(report: &ProveReport) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(report)
        .map_err(|error| Failure::failed(format!("cannot write the report: {error}")))?;
    value["stories"] = value["violations"].take();
    value["violations"] = json!(report.violations.len());
    Ok(value)
}
