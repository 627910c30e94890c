//! `seekless sim-fs`: programs over a file system on a simulated disk, in virtual time.

mod journal;

use crate::clock::host_clock;
use crate::effect::Given;
use crate::failure::{Exit, Failure, Outcome};
use crate::filesystem::{WriteAge, formats, policies};
use crate::layout_flags::{LayoutFlags, Simulate};
use crate::spec;
use crate::term::Progress;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use journal::JournalArgs;
use seekless_disk::spec::FastWrite;
use seekless_disk::{ReadAhead, Spec};
use seekless_engine::size::{Size, parse_bytes};
use seekless_formats::{Kind as FsKind, MkfsOptions};
use seekless_fs::core::nvram::{Nvram, NvramFlush};
use seekless_fs::policy::PolicyKind;
use seekless_lab::files::host::Host;
use seekless_lab::files::programs::{Amount, ProgramKind};
use seekless_lab::files::report::FilesReport;
use seekless_lab::files::run::{FilesOptions, FilesRunError, run as run_program};
use seekless_lab::sim::Target;
use seekless_layouts::Kind;
use std::io::Write;

/// Arguments of `seekless sim-fs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless sim-fs --program small --layout vlog --disk st19101
  seekless sim-fs --program micro --sizes 2k,64k --layout inplace --disk cheetah9lp \\
    --no-write-cache --block 8k --fragment 1k --host p3-500
  seekless sim-fs --program tree --users 4 --layout dcd --disk barracuda --json
  seekless sim-fs --program postmark --files 10000 --transactions 20000 --layout inplace \\
    --disk cheetah9lp
  seekless sim-fs --program pairs --policy wafs-2async --data writeback --disk cheetah9lp

The program runs on a new file system. Everything that is read is compared with what was written,
and the file system is checked at the end. `seconds` counts until all calls were answered,
`settled` until everything was on the disk. The same seed gives the same figures, except for how
fast the host simulated. With --host, each figure is shown for half and double of the costs that no
paper states.")]
pub struct Args {
    /// What users do.
    #[arg(long, value_name = "PROGRAM", value_parser = programs())]
    program: ProgramKind,
    /// The kind of file system.
    #[arg(long, value_name = "KIND", default_value = "ffs", value_parser = formats())]
    fs: FsKind,
    /// How writes of metadata are ordered.
    #[arg(long, value_name = "POLICY", default_value = "async")]
    #[arg(value_parser = policies())]
    policy: PolicyKind,
    #[command(flatten)]
    journal: JournalArgs,
    /// Take a completed write for durable, on a volume that reports early, too.
    #[arg(long)]
    trust_completions: bool,
    /// Let soft updates write content of files in no order. A crash may then show what a block held
    /// before: this is for measurements only.
    #[arg(long)]
    no_data_order: bool,
    #[command(flatten)]
    write_age: WriteAge,
    /// Let the volume carry out one request at a time: a lock over all of it.
    #[arg(long)]
    one_lock: bool,
    /// The layout below the file system.
    #[arg(long, short, value_name = "LAYOUT", default_value = "inplace")]
    layout: Kind,
    /// A built-in disk (`seekless disks` lists them) or the path of a TOML file.
    #[arg(long, short, value_name = "SPEC")]
    disk: String,
    /// Put a volume of this layout below a log-structured one.
    #[arg(long, value_name = "LAYOUT")]
    base: Option<Kind>,
    /// Put the log of `dcd` on a disk of its own, named like --disk.
    #[arg(long, value_name = "SPEC")]
    log: Option<String>,
    /// The disk reports a write when it is on the platter, though its cache could report it early.
    #[arg(long)]
    no_write_cache: bool,
    /// What a disk with a track buffer reads ahead: `none`, `forward` or `whole-track`. [default:
    /// as the disk has it]
    #[arg(long, value_name = "HOW", value_parser = spec::read_aheads())]
    read_ahead: Option<ReadAhead>,
    /// Users, each with the whole program.
    #[arg(long, value_name = "N", default_value_t = 1)]
    users: usize,
    /// Bytes of a block: of ffs 4k or 8k, of minix 1k, 2k or 4k. [default: ffs 8k, minix 4k]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    block: Option<u64>,
    /// Bytes of a fragment of ffs: a block or a half, quarter or eighth of one. [default: 4k]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    fragment: Option<u64>,
    /// Make an inode for each so many bytes of the volume.
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = parse_bytes)]
    bytes_per_inode: u64,
    /// Size of the volume. [default: 80 % of the disk]
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,
    /// Memory for cached blocks. [default: that of the host]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Let the cache survive a power cut, with room for so much that is not on the disk. Calls for
    /// durability are then answered at once.
    #[arg(long, value_name = "SIZE")]
    nvram: Option<Size>,
    /// What is written when it is full: `whole`, or a `segment` of 512 KiB. [default: whole]
    #[arg(long, value_name = "HOW", requires = "nvram", value_parser = nvram_flushes())]
    nvram_flush: Option<NvramFlush>,
    /// What calls cost the CPU: none, p3-500, ultra170 or sparc10.
    #[arg(long, value_name = "HOST", default_value = "none")]
    host: String,
    /// Files of `small` [1500], `pairs` [50000] and `postmark` [500]; of `micro` for each size
    /// [128 MB, at least 512]; of `news` at the start [520000], with a like share of all else.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    files: Option<u32>,
    /// Transactions of `postmark` [500].
    #[arg(long, value_name = "N")]
    transactions: Option<u32>,
    /// Sizes of files of `micro`, separated by commas. [default: the thirteen of the paper, 2k to
    /// 4M]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_bytes)]
    sizes: Vec<u64>,
    /// Directories over which `pairs` is spread, one after the other. [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    placements: Option<u32>,
    /// Size of the file of `update` and `burst`. [default: 8M]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    file_size: Option<u64>,
    /// Bytes of a burst of `burst`. [default: 512k]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    burst: Option<u64>,
    /// Milliseconds between bursts. [default: 0]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(..=60_000))]
    idle: Option<u32>,
    /// Measured updates of `update` and `burst`. [default: 1000 and 4000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    updates: Option<u32>,
    /// Updates of `update` and `burst` before those. [default: twice the blocks of the file]
    #[arg(long, value_name = "N")]
    warm_up: Option<u32>,
    /// Let the volume rest for so many seconds: `tree` after each phase, `micro` after making the
    /// files, `update` before it is measured.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    rest: Option<u32>,
    /// Seed of all randomness.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    layout_flags: LayoutFlags<Simulate>,
    /// Also print how long the requests to the volume took, and what they were for.
    #[arg(long)]
    responses: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is written when NVRAM is full, on the command line.
fn nvram_flushes() -> impl TypedValueParser<Value = NvramFlush> {
    let known = [
        PossibleValue::new("whole").help("all of it, while calls wait"),
        PossibleValue::new("segment").help("the oldest 512 KiB"),
    ];
    PossibleValuesParser::new(known).map(|name| match &name[..] {
        "segment" => NvramFlush::Segment,
        _ => NvramFlush::Whole,
    })
}

/// The programs on the command line.
fn programs() -> impl TypedValueParser<Value = ProgramKind> {
    let known = ProgramKind::ALL.map(|(kind, name)| PossibleValue::new(name).help(kind.summary()));
    PossibleValuesParser::new(known).try_map(|name| {
        ProgramKind::ALL
            .into_iter()
            .find(|(_, known)| *known == name)
            .map(|(kind, _)| kind)
            .ok_or("no such program")
    })
}

/// The largest file of `micro`, and the most bytes of all files of a size.
const LARGEST_FILE: u64 = 1 << 30;

/// Runs and prints the report.
///
/// # Errors
/// If the options are invalid, or the run found a defect.
pub fn run(args: &Args, given: &Given, out: &mut dyn Write) -> Outcome {
    // Here it belongs to the file system, and not to the layout.
    given.without("nvram").refuse_without_effect(&[args.layout], "choose --layout")?;
    refuse_what_means_nothing(args)?;
    if let Some(base) = args.base.filter(|_| !args.layout.is_log_structured()) {
        let layout = args.layout;
        return Err(Failure::usage(format!("--base {base}: {layout} lies on the disk itself"))
            .hint("choose a log-structured --layout, such as lld"));
    }
    if args.no_data_order && args.policy != PolicyKind::Soft {
        let policy = args.policy.name();
        return Err(Failure::usage(format!(
            "--no-data-order: the policy {policy} has no use for it"
        ))
        .hint("leave it out, or choose --policy soft"));
    }
    args.journal.refuse_without_effect(args.policy)?;
    let options = options(args)?;
    // A disk that does not exist is an error before anything runs.
    target(args)?;
    let early = !args.no_write_cache && spec::find(&args.disk)?.reports_early();
    if args.trust_completions && early {
        crate::term::say(&format!(
            "note: --trust-completions: {} reports writes before they are durable and is never \
             flushed; a power cut would break every promise of --policy {}",
            args.disk,
            args.policy.name()
        ));
    }
    let mut progress = Progress::new();
    progress.show(|| format!("running {}…", options.program));
    let report = with_sensitivity(args, &options);
    drop(progress);
    let report = report?;
    let text = if args.json { report.to_json() } else { report.to_text(args.responses) };
    writeln!(out, "{}", text.trim_end())?;
    Ok(())
}

/// Refuses amounts that the program has no use for.
fn refuse_what_means_nothing(args: &Args) -> Outcome {
    use ProgramKind::{Burst, Micro, News, Pairs, PostMark, Small, Tree, Update};
    let flags = [
        ("--files", args.files.is_some(), &[Micro, Small, Pairs, PostMark, News][..]),
        ("--transactions", args.transactions.is_some(), &[PostMark]),
        ("--sizes", !args.sizes.is_empty(), &[Micro]),
        ("--placements", args.placements.is_some(), &[Pairs]),
        ("--file-size", args.file_size.is_some(), &[Update, Burst]),
        ("--updates", args.updates.is_some(), &[Update, Burst]),
        ("--burst", args.burst.is_some(), &[Burst]),
        ("--idle", args.idle.is_some(), &[Burst]),
        ("--warm-up", args.warm_up.is_some(), &[Update, Burst]),
        ("--rest", args.rest.is_some(), &[Tree, Update, Micro]),
    ];
    let program = args.program;
    let means_nothing = |flag: &&(&str, bool, &[ProgramKind])| flag.1 && !flag.2.contains(&program);
    let Some((flag, _, programs)) = flags.iter().find(means_nothing) else { return Ok(()) };
    let names: Vec<_> = programs.iter().map(|program| program.name()).collect();
    Err(Failure::usage(format!("{flag}: the program {program} has no use for it"))
        .hint(format!("leave it out, or choose --program {}", names.join(" or "))))
}

fn target(args: &Args) -> Result<Target, Failure> {
    let change = |spec: &mut Spec| {
        if let (true, Some(cache)) = (args.no_write_cache, &mut spec.cache) {
            cache.fast_write = FastWrite::None;
            cache.write_back = None;
        }
    };
    let mut target = spec::target(&args.disk, args.read_ahead, change)?;
    if let Some(journal) = args.journal.disk() {
        target = target.with_journal(spec::target(journal, None, change)?);
    }
    if let Some(base) = args.base {
        target = target.with_base(base).map_err(|error| Failure::usage(error.to_string()))?;
    }
    let Some(log) = &args.log else { return Ok(target) };
    let log = spec::target(log, None, change)?;
    target.with_log(log).map_err(|error| Failure::usage(error.to_string()))
}

fn options(args: &Args) -> Result<FilesOptions, Failure> {
    let size = |flag: &str, bytes: u64| {
        u32::try_from(bytes).map_err(|_| Failure::usage(format!("{flag}: too large")))
    };
    if let Some(bytes) =
        args.sizes.iter().chain(&args.file_size).find(|&&bytes| bytes > LARGEST_FILE)
    {
        return Err(Failure::usage(format!("{bytes} bytes: the largest file is 1G")));
    }
    let host = Host::find(&args.host).map_err(|error| Failure::usage(error.to_string()))?;
    let defaults = (args.fs.defaults)();
    let block = args.block.map_or(Ok(defaults.block), |bytes| size("--block", bytes))?;
    let fragment =
        args.fragment.map_or(Ok(defaults.fragment), |bytes| size("--fragment", bytes))?;
    let bytes_per_inode = match args.fs.needs_objects {
        true => defaults.bytes_per_inode,
        false => size("--bytes-per-inode", args.bytes_per_inode)?,
    };
    Ok(FilesOptions {
        program: args.program,
        amount: Amount {
            users: args.users,
            files: args.files,
            transactions: args.transactions,
            sizes: args.sizes.clone(),
            placements: args.placements,
            file_bytes: args.file_size,
            burst_bytes: args.burst,
            idle_ms: args.idle,
            updates: args.updates,
            warm_up: args.warm_up,
            rest_seconds: args.rest,
            seed: args.seed,
        },
        kind: if args.fs.needs_objects { Kind::VLFS } else { args.layout },
        options: args.layout_flags.options.clone(),
        file_system: args.fs,
        mkfs: MkfsOptions {
            block,
            fragment,
            bytes_per_inode,
            journal: args.journal.size(),
            journal_unit: args.journal.unit(),
            ..defaults
        },
        volume_blocks: args.size.map(Size::blocks),
        cache_bytes: args.memory.map(Size::bytes),
        host,
        policy: args.policy,
        journal: args.journal.options(),
        trust_completions: args.trust_completions,
        one_lock: args.one_lock,
        data_order: !args.no_data_order,
        write_age_s: args.write_age.seconds(),
        nvram: args
            .nvram
            .map(|size| Nvram { bytes: size.bytes(), flush: args.nvram_flush.unwrap_or_default() }),
    })
}

/// The run, and the same with half and double the free costs of the host, side by side.
fn with_sensitivity(args: &Args, options: &FilesOptions) -> Result<FilesReport, Failure> {
    let factors = if options.host.takes_time() { &[0.5, 2.0][..] } else { &[] };
    std::thread::scope(|scope| {
        let others: Vec<_> = factors
            .iter()
            .map(|&factor| {
                let host = options.host.scaled(factor);
                let options = FilesOptions { host, ..options.clone() };
                (
                    factor,
                    scope.spawn(move || {
                        run_program(&target(args)?, &options, host_clock).map_err(Failure::from)
                    }),
                )
            })
            .collect();
        let mut report = run_program(&target(args)?, options, host_clock)?;
        for (factor, other) in others {
            let other = other.join().map_err(|_| Failure::failed("a run panicked"))??;
            report.add_sensitivity(factor, &other);
        }
        Ok(report)
    })
}

impl From<FilesRunError> for Failure {
    fn from(error: FilesRunError) -> Failure {
        let exit = match &error {
            FilesRunError::Files(_) | FilesRunError::Unclean(_) => Exit::Failed,
            FilesRunError::Wrong { .. } => Exit::Failed,
            _ => Exit::Usage,
        };
        Failure::from_message(exit, &error.to_string())
    }
}
