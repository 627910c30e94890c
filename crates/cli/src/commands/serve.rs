//! `seekless serve`: a volume as a network block device.

use crate::effect::Given;
use crate::failure::{Exit, Failure, Outcome, worth_going_on};
use crate::layout_flags::{LayoutFlags, Mount};
use crate::log::LogFlags;
use crate::rebuild::RebuildLines;
use crate::spec;
use crate::volume::Volume;
use clap::ArgGroup;
use seekless_engine::options::Options;
use seekless_engine::size::Size;
use seekless_lab::disk_time::{self, DiskTime};
use seekless_layouts::shared::{ALLOW_STALE, SALVAGE};
use seekless_layouts::{Kind, read_superblock};
use seekless_serve::crash::plan::Fault;
use seekless_serve::device::file::IoMode;
use seekless_serve::driver::OnCut;
use seekless_serve::image::array::is_member;
use seekless_serve::server::{
    CrashOptions, Listen, MountMessages, ServeError, ServeOptions, Source, serve,
};
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `seekless serve`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "\
    seekless serve [OPTIONS] <IMAGE...|--memory SIZE|--raw FILE>\n       \
    <--socket PATH|--listen ADDR|--systemd>")]
#[command(group = ArgGroup::new("where").required(true).args(["socket", "listen", "systemd"]))]
#[command(group = ArgGroup::new("reachable").args(["listen", "systemd"]))]
#[command(group = ArgGroup::new("what").required(true).args(["image", "memory", "raw"]))]
#[command(group = ArgGroup::new("crashes").multiple(true).args(["faults", "control"]))]
#[command(after_help = "\
Examples:
  seekless serve disk.img --socket /tmp/disk.sock
  seekless serve disk.img --listen 127.0.0.1:10809 --read-only
  seekless serve a.img b.img c.img --socket /tmp/disk.sock     # an array
  seekless serve --memory 4G --layout vlog --socket /tmp/disk.sock
  seekless serve disk.img --socket /tmp/disk.sock --disk desktop7200   # at a disk's pace
  seekless serve origin.img --log log.img --socket /tmp/disk.sock      # with a log device
  seekless serve disk.img --socket /tmp/disk.sock --salvage    # what is left of a damaged one
  seekless serve --raw disk.raw --socket /tmp/disk.sock --control /tmp/disk.ctl
  seekless serve disk.img --socket /tmp/disk.sock --faults cut-at-write=1000,seed=7

With --faults or --control the disk below the layout can crash: it holds unflushed writes in a
cache; a power cut decides their fate by the seed, and `seekless control PATH restart` brings the
disk back. Faults: cut-at-write=N, cut-at-random=N (a write up to N), cut-on-flush[=N];
unflushed=lose, keep, order (a prefix), reorder (any) or tear (any, torn at 512 bytes: the default);
lying-flush; eio, eio-read, eio-write or rot=FROM+LENGTH (bytes of the disk below the layout);
enospc[=N]; slow=MILLISECONDS; stuck[=N] (a request that is not answered before `clear`, a power cut
or the end); cache=SIZE (8M); seed=N. Their order means nothing.
docs/manual/crashing-disk.md tells more.

One line with the URI for clients is printed as soon as connections are accepted. SIGTERM, SIGINT
and SIGHUP (unless it is ignored) end the server in good order; SIGUSR1 logs a line about its
state, `seekless status` and `seekless top` show more. The protocol is neither encrypted
nor authenticated: --listen takes an address of this machine alone, unless --insecure is given.")]
pub struct Args {
    /// The image; of an array all members, in any order.
    #[arg(value_name = "IMAGE")]
    image: Vec<PathBuf>,
    /// Serve an array though members are missing, as far as its level tolerates it.
    #[arg(long, conflicts_with = "memory")]
    degraded: bool,
    /// Serve memory in place of an image: a volume of this size that is lost when the server ends.
    #[arg(long, value_name = "SIZE", requires = "layout")]
    memory: Option<Size>,
    /// Serve a file or a block device as it is, without a layout.
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    /// Layout of a volume in memory; an image has its own.
    #[arg(long, short, value_name = "LAYOUT", conflicts_with_all = ["image", "raw"])]
    layout: Option<Kind>,
    /// Listen on this Unix socket.
    #[arg(long, short, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen on this TCP address; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Listen on the socket that systemd opened: for a service with a socket unit.
    #[arg(long)]
    systemd: bool,
    /// Let other machines connect to --listen or --systemd. Each of them may read and write the
    /// volume, and what they send can be read on its way.
    #[arg(long, requires = "reachable")]
    insecure: bool,
    /// Emulate the speed of this disk: a built-in name or the path of a TOML file.
    #[arg(long, short, value_name = "SPEC")]
    disk: Option<String>,
    /// The log of a disk caching disk, if it is on a device of its own.
    #[arg(long, value_name = "LOG", requires = "image")]
    log: Option<PathBuf>,
    /// Emulate the speed of this disk for the log. With --disk alone, the log is not slowed down.
    #[arg(long, value_name = "SPEC", requires = "log")]
    log_disk: Option<String>,
    #[command(flatten)]
    layout_flags: LayoutFlags<Mount>,
    /// Say what each step of the mount did.
    #[arg(long)]
    verbose: bool,
    /// Refuse writes.
    #[arg(long)]
    read_only: bool,
    /// Serve what is certain of a damaged volume, read-only; everything else is an error.
    #[arg(long, conflicts_with_all = ["memory", "raw", "log"])]
    salvage: bool,
    /// Where the newest content is not certain, serve the newest that is found.
    #[arg(long, requires = "salvage")]
    allow_stale: bool,
    /// How to perform requests that the page cache cannot answer: auto, uring or threads.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    io: IoMode,
    /// Bypass the page cache (O_DIRECT).
    #[arg(long, conflicts_with = "memory")]
    direct: bool,
    /// Faults to inject: NAME or NAME=VALUE, separated by commas; see below.
    #[arg(long, value_name = "FAULTS", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["disk", "direct"])]
    faults: Vec<Fault>,
    /// Take commands on this Unix socket: cut, restart, arm, …; see `seekless control`.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["disk", "direct"])]
    control: Option<PathBuf>,
    /// How clients notice a power cut: disconnect (their connections end) or error (their requests
    /// fail).
    #[arg(long, value_name = "CHOICE", default_value = "disconnect", requires = "crashes")]
    on_cut: OnCut,
    /// Answer questions of Prometheus (GET /metrics) on this address; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Fill a new member of an array with at most this much a second; as fast as clients leave
    /// time for if left out.
    #[arg(long, value_name = "SIZE")]
    rebuild_rate: Option<Size>,
    #[command(flatten)]
    log_flags: LogFlags,
    /// Largest number of connections at once.
    #[arg(long, value_name = "N", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
}

/// Largest volume in memory, for layouts that keep tables.
const MOST_MEMORY_BYTES: u64 = 1 << 40;
/// The same for layouts without tables (updates in place): unwritten blocks take no memory.
const MOST_MEMORY_IN_PLACE_BYTES: u64 = 30 << 40;

/// Serves until a signal or a failure of the backing store.
///
/// # Errors
/// If the image or the address is unusable or in use, or the backing store fails.
pub fn run(args: &Args, given: &Given, out: &mut dyn Write) -> Outcome {
    let options = options(args)?;
    refuse_without_effect(args, given)?;
    let mut printed = Ok(());
    let mut ready = |uri: &str| {
        printed = writeln!(out, "{uri}").and_then(|()| out.flush());
        // A server whose parent has exited keeps serving. Without its URI no client could find it.
        worth_going_on(&printed)
    };
    let mut rebuild = RebuildLines::new();
    let served = serve(&options, &mut ready, &mut |news| rebuild.tell(news));
    rebuild.end();
    let served = served?;
    printed?;
    crate::term::say(&format!(
        "seekless: {} requests served on {} connections",
        served.requests, served.connections
    ));
    if served.lateness.count() > 0 {
        crate::term::say(&format!("seekless: {}", served.lateness));
    }
    if !served.accounts.is_empty() {
        let time = |account| DiskTime::new(account, served.elapsed_ns);
        let disks: Vec<DiskTime> = served.accounts.iter().map(time).collect();
        crate::term::say(&format!("\n{}", disk_time::table(&disks)));
    }
    Ok(())
}

/// Refuses options that have no effect on the layout.
fn refuse_without_effect(args: &Args, given: &Given) -> Outcome {
    if !given.depends_on_layout() {
        return Ok(());
    }
    if args.raw.is_some() {
        return given.refuse_without_effect(&[], "serve a volume of layout");
    }
    let kind = match args.layout {
        Some(kind) => kind,
        // The origin holds whatever its disk held before the log was attached.
        None if args.log.is_some() => Kind::DCD,
        None => {
            let mut volume = Volume::open(&args.image, args.degraded, None)?;
            Kind::of(&volume.with(read_superblock)?)
        }
    };
    given.refuse_without_effect(&[kind], "serve a volume of layout")
}

fn source(args: &Args) -> Result<Source, Failure> {
    if let Some(path) = &args.raw {
        return Ok(Source::Raw(path.clone()));
    }
    match (args.image.as_slice(), args.memory, args.layout) {
        ([path], None, None) if !args.degraded && !is_member(path)? => {
            Ok(Source::Image(path.clone()))
        }
        ([_, ..], None, None) => {
            Ok(Source::Array { members: args.image.clone(), degraded: args.degraded })
        }
        ([], Some(size), Some(kind)) if size.bytes() > most_memory(kind) => {
            let hint = "the largest volume in memory is 1T, in place 30T; \
                        `seekless create` makes larger ones";
            Err(Failure::usage(format!("--memory: {size} is too much")).hint(hint))
        }
        ([], Some(size), Some(kind)) => Ok(Source::Memory { kind, blocks: size.blocks() }),
        _ => Err(Failure::usage("give either an image, or --memory and --layout")),
    }
}

/// Bytes of the largest volume in memory.
fn most_memory(kind: Kind) -> u64 {
    if kind == Kind::INPLACE { MOST_MEMORY_IN_PLACE_BYTES } else { MOST_MEMORY_BYTES }
}

/// Refuses options that exclude a log on a device of its own.
fn refuse_beside_log(source: &Source, crashes: bool) -> Result<(), Failure> {
    if !matches!(source, Source::Image(_)) {
        return Err(Failure::usage("--log: only a volume in one image has a log of its own")
            .hint("give the origin alone as the image, and its log with --log"));
    }
    if crashes {
        return Err(Failure::usage("--log does not go together with --faults and --control")
            .hint("faults and power cuts are for a volume on one disk; leave one of them out"));
    }
    Ok(())
}

/// Where the command line says that clients connect.
fn listen(args: &Args) -> Result<Listen, Failure> {
    let exposed = args.insecure;
    match (&args.socket, &args.listen, args.systemd) {
        (Some(path), None, false) => Ok(Listen::Unix(path.clone())),
        (None, Some(address), false) => Ok(Listen::Tcp { address: address.clone(), exposed }),
        (None, None, true) => Ok(Listen::Systemd { exposed }),
        _ => Err(Failure::usage("give one of --socket, --listen and --systemd")),
    }
}

fn options(args: &Args) -> Result<ServeOptions, Failure> {
    let source = source(args)?;
    let listen = listen(args)?;
    // With a simulated disk, only a log in a file is read and written as files are.
    if args.direct && args.disk.is_some() && (args.log.is_none() || args.log_disk.is_some()) {
        return Err(Failure::usage("--direct: a simulated disk has its bytes in the page cache")
            .hint("leave out --direct, or --disk"));
    }
    if matches!(source, Source::Raw(_)) && args.disk.is_some() {
        return Err(Failure::usage("--raw and --disk do not go together")
            .hint("make a volume in place: seekless create IMAGE --layout inplace"));
    }
    let crash = (!args.faults.is_empty() || args.control.is_some()).then(|| CrashOptions {
        faults: args.faults.clone(),
        control: args.control.clone(),
        on_cut: args.on_cut,
    });
    if args.log.is_some() {
        refuse_beside_log(&source, crash.is_some())?;
    }
    let disk = args.disk.as_deref().map(spec::find).transpose()?;
    let log_disk = args.log_disk.as_deref().map(spec::find).transpose()?;
    Ok(ServeOptions {
        source,
        listen,
        log: args.log.clone(),
        disk,
        log_disk,
        messages: match args.verbose {
            true => MountMessages::Steps,
            false => MountMessages::Line,
        },
        read_only: args.read_only || args.salvage,
        io: args.io,
        direct: args.direct,
        options: salvaging(&args.layout_flags.options, args.salvage, args.allow_stale),
        most_connections: usize::from(args.connections),
        crash,
        metrics: args.metrics.clone(),
        rebuild_rate: args.rebuild_rate.map(|rate| rate.bytes()),
    })
}

/// The options of a mount, and whether it is to be one of what is certain of a damaged volume.
pub fn salvaging(options: &Options, salvage: bool, allow_stale: bool) -> Options {
    let mut options = options.clone();
    if salvage {
        options.set(&SALVAGE, true);
        options.set(&ALLOW_STALE, allow_stale);
    }
    options
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        let exit = match error {
            ServeError::Image(error) => return Failure::from(error),
            ServeError::Layout(error) => return Failure::from(error),
            ServeError::SocketInUse(_) => Exit::Busy,
            ServeError::Listen { ref source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => Exit::Busy,
                // A path that cannot name a socket, whatever its length.
                io::ErrorKind::InvalidInput => Exit::Usage,
                _ => Exit::Failed,
            },
            ServeError::BadAddress(_)
            | ServeError::Exposed(_)
            | ServeError::NotActivated(_)
            | ServeError::Spec(_)
            | ServeError::Objects(_)
            | ServeError::DiskTooSmall { .. }
            | ServeError::LongPath(_)
            | ServeError::ManyDisks
            | ServeError::Fault(_)
            | ServeError::LogApart
            | ServeError::Upkeep(_)
            | ServeError::NoHeaders(_) => Exit::Usage,
            ServeError::Device(_) | ServeError::NotSocket(_) | ServeError::Os(_) => Exit::Failed,
            ServeError::Failed { .. } | ServeError::NotDurable(_) => Exit::Backing,
        };
        let failure = Failure::from_message(exit, &error.to_string());
        match exit {
            Exit::Backing => failure.hint("repair or replace it, then run `seekless check`"),
            _ => failure,
        }
    }
}
