//! `seekless serve`: a volume as a network block device.

use crate::caching::CachingArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::size::Size;
use crate::spec;
use clap::ArgGroup;
use seekless_engine::layout::{Compaction, Kind, Tuning};
use seekless_serve::device::file::IoMode;
use seekless_serve::server::{Listen, ServeError, ServeOptions, Source, serve};
use std::io::{self, Write};
use std::path::PathBuf;

/// Arguments of `seekless serve`.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("where").required(true).args(["socket", "listen"]))]
#[command(group = ArgGroup::new("what").required(true).args(["image", "memory"]))]
#[command(after_help = "\
Examples:
  seekless serve disk.img --socket /tmp/disk.sock
  seekless serve disk.img --listen 127.0.0.1:10809 --read-only
  seekless serve --memory 4G --layout vlog --socket /tmp/disk.sock
  seekless serve disk.img --socket /tmp/disk.sock --disk desktop7200   # at a disk's pace
  seekless serve origin.img --log log.img --socket /tmp/disk.sock      # a log apart

One line with the URI for clients is printed as soon as connections are accepted. SIGTERM and
SIGINT end the server in good order. The protocol is neither encrypted nor authenticated: serve TCP
to trusted networks only.")]
pub struct Args {
    /// The image.
    image: Option<PathBuf>,
    /// Serve memory in place of an image: a volume of this size, gone when the server ends.
    #[arg(long, value_name = "SIZE", requires = "layout")]
    memory: Option<Size>,
    /// Layout of a volume in memory; an image has its own.
    #[arg(long, short, value_name = "LAYOUT", conflicts_with = "image")]
    layout: Option<Kind>,
    /// Listen on this Unix socket.
    #[arg(long, short, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen on this TCP address; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Answer at the pace of this disk: a built-in name or the path of a TOML file.
    #[arg(long, short, value_name = "SPEC")]
    disk: Option<String>,
    /// Which tracks the virtual log empties while no client waits, on a simulated disk: off,
    /// random, least-used (the default) or nearest.
    #[arg(long, value_name = "CHOICE", requires = "disk")]
    compaction: Option<Compaction>,
    /// How full a track is, in percent, when the virtual log leaves it for the next empty one.
    #[arg(long, value_name = "PERCENT", requires = "disk", default_value_t = 75,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    fill_percent: u32,
    /// Where the log of a disk caching disk is, if it is apart from the image.
    #[arg(long, value_name = "LOG", requires = "image")]
    log: Option<PathBuf>,
    /// Answer from the log at the pace of this disk; with --disk alone it is as fast as it is.
    #[arg(long, value_name = "SPEC", requires = "log")]
    log_disk: Option<String>,
    #[command(flatten)]
    caching: CachingArgs,
    /// Refuse writes.
    #[arg(long)]
    read_only: bool,
    /// Who carries out what the page cache cannot answer: auto, uring or threads.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    io: IoMode,
    /// Bypass the page cache (O_DIRECT).
    #[arg(long, conflicts_with = "memory")]
    direct: bool,
    /// Most connections at once.
    #[arg(long, value_name = "N", default_value_t = 256)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
}

/// Largest volume in memory: its table of pages must fit, however empty it is.
const MOST_MEMORY_BYTES: u64 = 1 << 40;

/// Serves until a signal or a failure of the backing store.
///
/// # Errors
/// If the image or the address is unusable or in use, or the backing store fails.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let options = options(args)?;
    let mut printed = Ok(());
    let mut ready = |uri: &str| printed = writeln!(out, "{uri}").and_then(|()| out.flush());
    let served = serve(&options, &mut ready)?;
    // A server whose starter has gone away goes on serving; other reasons are worth a word.
    printed?;
    crate::term::say(&format!(
        "seekless: {} requests served on {} connections",
        served.requests, served.connections
    ));
    if served.lateness.count() > 0 {
        crate::term::say(&format!("seekless: {}", served.lateness));
    }
    Ok(())
}

fn options(args: &Args) -> Result<ServeOptions, Failure> {
    let source = match (&args.image, args.memory, args.layout) {
        (Some(path), None, None) => Source::Image(path.clone()),
        (None, Some(size), Some(kind)) => {
            if size.bytes() > MOST_MEMORY_BYTES {
                return Err(Failure::usage(format!("--memory: {size} is too much")).hint(
                    "the largest volume in memory is 1T; `seekless create` makes larger ones",
                ));
            }
            Source::Memory { kind, blocks: size.blocks() }
        }
        _ => return Err(Failure::usage("give either an image, or --memory and --layout")),
    };
    let listen = match (&args.socket, &args.listen) {
        (Some(path), None) => Listen::Unix(path.clone()),
        (None, Some(address)) => Listen::Tcp(address.clone()),
        _ => return Err(Failure::usage("give either --socket or --listen")),
    };
    let disk = args.disk.as_deref().map(spec::find).transpose()?;
    let log_disk = args.log_disk.as_deref().map(spec::find).transpose()?;
    Ok(ServeOptions {
        source,
        listen,
        log: args.log.clone(),
        disk,
        log_disk,
        read_only: args.read_only,
        io: args.io,
        direct: args.direct,
        tuning: Tuning {
            compaction: args.compaction,
            fill_percent: args.fill_percent,
            caching: args.caching.caching(),
        },
        most_connections: usize::from(args.connections),
    })
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        let exit = match error {
            ServeError::Image(error) => return Failure::from(error),
            ServeError::Layout(error) => return Failure::from(error),
            ServeError::SocketInUse(_) => Exit::Busy,
            ServeError::Listen { ref source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => Exit::Busy,
                _ => Exit::Failed,
            },
            ServeError::Spec(_) | ServeError::DiskTooSmall { .. } => Exit::Usage,
            ServeError::Device(_) | ServeError::NotSocket(_) | ServeError::Os(_) => Exit::Failed,
            ServeError::Failed(_) => Exit::Backing,
        };
        let failure = Failure::from_message(exit, &error.to_string());
        match exit {
            Exit::Backing => failure.hint("repair or replace it, then run `seekless check`"),
            _ => failure,
        }
    }
}
