//! `seekless fs`: works on the files of a file system that is not mounted, and syncs one that is.

mod compact;
mod copy;
mod dump;
mod log;
mod map;
mod switch_policy;
mod sync;

use crate::failure::{Exit, Failure, Outcome};
use crate::files::error::shown;
use crate::files::list::{self, ListStyle};
use crate::files::tally::Tally;
use crate::files::tar_out::TarOut;
use crate::files::{Files, ToolError};
use crate::filesystem::{JournalArgs, VolumeArgs, blame, blame_device, wall_clock, warn_of_damage};
use clap::Subcommand;
use seekless_engine::disk::Disk as _;
use seekless_engine::options::Options;
use seekless_formats::{Kind, MountOptions, MountedFs};
use seekless_fs::call::Errno;
use seekless_fs::core::CoreOptions;
use seekless_serve::files::{Offline, Volume, VolumeOptions};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// Arguments of `seekless fs`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  seekless fs ls disk.img /etc --long
  seekless fs cat disk.img /etc/fstab
  seekless fs cp disk.img ./site :/srv                 # into the image
  seekless fs cp disk.img :/srv/site ./back            # out of it
  seekless fs rm disk.img /srv/site --recursive
  seekless fs tar disk.img /srv | gzip > srv.tar.gz
  gzip -d < srv.tar.gz | seekless fs tar disk.img /srv --extract
  seekless fs dump disk.img --inode 2
  seekless fs map disk.img /var/db                     # where its bytes lie
  seekless fs switch-policy disk.img wafs-1async       # with a log from now on
  seekless fs log wal.img append                       # a volume that is a log
  seekless fs compact disk.img                         # no small change waits in a log
  seekless fs sync /mnt                                # of a mounted file system

All but `sync` are for a file system that is not mounted. Commands that change nothing read one
that was not unmounted cleanly, too.")]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,
}

/// The tools.
#[derive(Debug, Subcommand)]
enum Tool {
    /// List a directory.
    Ls(LsArgs),
    /// Print the content of files.
    Cat(CatArgs),
    /// Copy files and trees into the image or out of it.
    Cp(copy::Args),
    /// Remove files and trees.
    Rm(RmArgs),
    /// Write a tree as a tar archive, or extract one.
    Tar(TarArgs),
    /// Print the structures on disk.
    Dump(dump::Args),
    /// Show where the bytes of a file lie in the volume.
    Map(map::Args),
    /// Write what waits as patches in the log of a VLFS where it belongs.
    Compact(compact::Args),
    /// Choose how writes of metadata are ordered, and make a log if that needs one.
    SwitchPolicy(switch_policy::Args),
    /// Append to a volume that is a log, read it and trim it; read the log of a file system.
    Log(log::Args),
    /// Make everything in a mounted file system durable, as `sync` does elsewhere.
    Sync(sync::Args),
}

/// The image of a tool.
#[derive(Debug, clap::Args)]
pub(super) struct ImageArgs {
    /// The image, file or block device.
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Another member, if the image is one of an array; may be repeated.
    #[arg(long, value_name = "IMAGE")]
    member: Vec<PathBuf>,
    #[command(flatten)]
    volume: VolumeArgs,
    #[command(flatten)]
    journal: JournalArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs ls disk.img
  seekless fs ls disk.img /home --recursive --long
  seekless fs ls disk.img --recursive --json | jq '.[] | select(.size > 1000000)'

Times are in UTC.")]
struct LsArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// The directory or file.
    #[arg(value_name = "PATH", default_value = "/")]
    path: OsString,
    /// Print kind, permissions, links, owner, group, size and time, too.
    #[arg(long, short)]
    long: bool,
    /// List everything below, too.
    #[arg(long, short)]
    recursive: bool,
    /// Print a JSON array with the attributes of each object.
    #[arg(long, conflicts_with = "long")]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs cat disk.img /etc/hosts
  seekless fs cat disk.img /data/part1 /data/part2 > whole")]
struct CatArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// The files, in their order.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs rm disk.img /tmp/a /tmp/b
  seekless fs rm disk.img /tmp --recursive
  seekless fs rm disk.img /core --force     # no error if it does not exist")]
struct RmArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// What is removed.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Remove directories with everything in them.
    #[arg(long, short)]
    recursive: bool,
    /// Ignore paths that do not exist.
    #[arg(long, short)]
    force: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs tar disk.img > all.tar
  seekless fs tar disk.img /srv --file srv.tar
  seekless fs tar disk.img /srv --extract < srv.tar
  zcat linux.tar.gz | seekless fs tar disk.img /src --extract

Archives are uncompressed. Owners are kept as numbers.")]
struct TarArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// The directory that is archived, or that the archive is extracted to.
    #[arg(value_name = "PATH", default_value = "/")]
    path: OsString,
    /// Extract: read the archive instead of writing it.
    #[arg(long, short = 'x')]
    extract: bool,
    /// The archive, in place of the standard streams.
    #[arg(long, short, value_name = "ARCHIVE")]
    file: Option<PathBuf>,
}

/// The files of an image that is open.
pub(super) type Opened = Files<Offline<Box<dyn MountedFs>>>;

/// Runs a tool.
///
/// # Errors
/// If the image is unusable or in use, or the tool fails.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.tool {
        Tool::Ls(args) => args.image.with(true, &mut |files| ls(args, files, out)),
        Tool::Cat(args) => args.image.with(true, &mut |files| {
            let mut tally = Tally::default();
            let mut cat = |path: &OsString| tally.count(files.cat(path.as_bytes(), out));
            let ended = args.paths.iter().try_for_each(&mut cat);
            report(tally, ended, "printed")
        }),
        Tool::Cp(args) => copy::run(args),
        Tool::Rm(args) => args.image.with(false, &mut |files| rm(args, files)),
        Tool::Tar(args) => tar(args, out),
        Tool::Dump(args) => dump::run(args, out),
        Tool::Map(args) => map::run(args, out),
        Tool::Compact(args) => compact::run(args, out),
        Tool::SwitchPolicy(args) => switch_policy::run(args, out),
        Tool::Log(args) => log::run(args, out),
        Tool::Sync(args) => sync::run(args),
    }
}

impl ImageArgs {
    pub(super) fn images(&self) -> Vec<PathBuf> {
        [std::slice::from_ref(&self.image), &self.member].concat()
    }

    /// Opens the volume.
    pub(super) fn open(&self, images: &[PathBuf], read_only: bool) -> Result<Volume, Failure> {
        self.open_with(images, read_only, Options::default())
    }

    /// The same with options of the layout.
    pub(super) fn open_with(
        &self,
        images: &[PathBuf],
        read_only: bool,
        chosen: Options,
    ) -> Result<Volume, Failure> {
        let plain = self.volume.options(images, read_only);
        self.journal.open(&VolumeOptions { options: chosen, ..plain })
    }

    /// Opens the image, runs a tool on its files, and closes it. What the tool did before it failed
    /// stays.
    pub(super) fn with(
        &self,
        read_only: bool,
        tool: &mut dyn FnMut(&mut Opened) -> Outcome,
    ) -> Outcome {
        let images = self.images();
        let mut volume = self.open(&images, read_only)?;
        let now = wall_clock();
        let core = CoreOptions { read_only, ..CoreOptions::default() };
        let options = MountOptions { core, now, ..MountOptions::default() };
        let mounted = Kind::of(&mut volume).and_then(|kind| {
            let policy = (kind.advice)(&mut volume)?;
            // One that keeps a log, or writes transactions, needs no repair after a crash; the
            // others have no need to wait.
            let takes_hold = policy.wants_transactions() && volume.transaction_blocks() > 0;
            let policy = if policy.is_logged() || takes_hold { policy } else { options.policy };
            (kind.mount)(&mut volume, &MountOptions { policy, ..options })
        });
        let fs = match mounted {
            Ok(fs) => fs,
            Err(error) => {
                // The volume is left as it was found.
                let _ = volume.close();
                return Err(blame(&images, &error));
            }
        };
        warn_of_damage(&images, &*fs);
        let mut files = Files::new(Offline::new(fs, volume), now);
        let outcome = tool(&mut files);
        let closed = files.into_system().close();
        outcome.and(closed.map_err(|error| blame_device(&images, error)))
    }
}

fn ls(args: &LsArgs, files: &mut Opened, out: &mut dyn Write) -> Outcome {
    let listed = files.list(args.path.as_bytes(), args.recursive)?;
    if args.json {
        return Ok(writeln!(out, "{:#}", list::as_json(&listed))?);
    }
    let style = ListStyle { long: args.long, recursive: args.recursive };
    Ok(list::print(&listed, style, out)?)
}

fn rm(args: &RmArgs, files: &mut Opened) -> Outcome {
    for path in &args.paths {
        match files.remove(path.as_bytes(), args.recursive) {
            Err(ToolError::Refused { errno: Errno::NoEnt, .. }) if args.force => {}
            removed => removed?,
        }
    }
    Ok(())
}

fn tar(args: &TarArgs, out: &mut dyn Write) -> Outcome {
    let path = args.path.clone().into_vec();
    if args.extract {
        let mut archive: Box<dyn Read> = match &args.file {
            Some(file) => Box::new(File::open(file).map_err(ToolError::host(file))?),
            None => Box::new(io::stdin().lock()),
        };
        return args.image.with(false, &mut |files| {
            let done = files.extract(&mut archive, &path)?;
            warn(done.left_out.iter().map(String::as_str), "is of a kind that no file is");
            Ok(())
        });
    }
    let mut file;
    let out: &mut dyn Write = match &args.file {
        Some(name) => {
            file = File::create(name).map_err(ToolError::host(name))?;
            &mut file
        }
        None => out,
    };
    args.image.with(true, &mut |files| {
        let mut archive = TarOut::new(&mut *out);
        let ended = archive.add(files, &path);
        let left_out: Vec<String> = archive.left_out.iter().map(|path| shown(path)).collect();
        warn(left_out.iter().map(String::as_str), "is a socket");
        let tally = std::mem::take(&mut archive.tally);
        let finished = archive.finish();
        report(tally, ended.and(finished.map(drop)), "archived whole")
    })
}

/// Says what was left out.
pub(super) fn warn<'n>(names: impl Iterator<Item = &'n str>, why: &str) {
    names.for_each(|name| crate::term::say(&format!("warning: {name} {why}: left out")));
}

/// Names what a tool could not do, and gives the failure that it ends with: the error that ended
/// it, the error of its only object, or how many objects failed.
pub(super) fn report(tally: Tally, ended: Result<(), ToolError>, done: &str) -> Outcome {
    let Tally { tried, mut failed } = tally;
    if tried == 1 && failed.len() == 1 && ended.is_ok() {
        return failed.pop().map_or(Ok(()), |only| Err(only.into()));
    }
    let failures: Vec<Failure> = failed.into_iter().map(Failure::from).collect();
    for failure in &failures {
        crate::term::say(&format!("warning: {}: not {done}", failure.cause));
    }
    ended?;
    let count = failures.len();
    let Some(last) = failures.into_iter().next_back() else { return Ok(()) };
    let cause = format!("{count} of {tried} files and directories could not be {done}");
    Err(Failure { cause, ..last })
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Failure {
        match error {
            ToolError::Output(error) => Failure::from(error),
            ToolError::NoName(_) | ToolError::Recursive(_) => {
                Failure::from_message(Exit::Usage, &error.to_string())
            }
            error => Failure::from_message(Exit::Failed, &error.to_string()),
        }
    }
}
