//! `seekless fs log`: a volume that is a log, and the log of a file system, which is only read.

mod append;
mod groups;
mod read;
mod sink;

use super::ImageArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::filesystem::{blame, blame_device, names};
use crate::making::{make_file, refuse_content};
use clap::Subcommand;
use seekless_engine::size::{Size, parse_bytes};
use seekless_formats::log::{Error, Log, LogOptions, Lsn, Stat};
use seekless_formats::{FsError, ffs};
use seekless_serve::files::Volume;
use seekless_serve::image;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless fs log`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs log wal.img create --size 64M
  echo hello | seekless fs log wal.img append          # a record for each line
  seekless fs log wal.img append --whole < picture.png # one record
  seekless fs log wal.img read
  seekless fs log wal.img follow                       # like tail -f
  seekless fs log wal.img trim 270872                  # older records go
  seekless fs log wal.img stat --json
  seekless fs log disk.img read                        # the log of a file system

A position (LSN) names a record for as long as it is there. On the image of a file system that keeps
a log, `read`, `stat` and `follow` show that log, and nothing changes it.")]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    #[command(subcommand)]
    act: Act,
}

/// What is done with the log.
#[derive(Debug, Subcommand)]
enum Act {
    /// Make an empty log of a whole volume.
    Create(CreateArgs),
    /// Append records from standard input, and print their positions once they are durable.
    Append(append::Args),
    /// Print records.
    Read(read::Args),
    /// Print sizes, positions, epoch and number of records.
    Stat(StatArgs),
    /// Print records as they come, until a signal.
    Follow(read::FollowArgs),
    /// Give up the oldest records.
    Trim(TrimArgs),
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Size of a new file; without it the image is a volume that exists.
    #[arg(long, short, value_name = "SIZE")]
    size: Option<Size>,
    /// Bytes of the largest write: 4k to 64k, and no more than a sixteenth of the log. [default:
    /// the largest of these]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    unit: Option<u64>,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct StatArgs {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct TrimArgs {
    /// The position of the oldest record that stays, or `end`.
    #[arg(value_name = "LSN", value_parser = to)]
    to: To,
}

/// Where a trim ends.
#[derive(Clone, Copy, Debug)]
enum To {
    Record(Lsn),
    End,
}

fn to(text: &str) -> Result<To, String> {
    if text == "end" { Ok(To::End) } else { lsn(text).map(To::Record) }
}

/// A position.
fn lsn(text: &str) -> Result<Lsn, String> {
    text.parse().map(Lsn).map_err(|_| "a position is a number, as `append` prints it".to_owned())
}

/// Does it.
///
/// # Errors
/// If the image holds no log, is damaged or in use, or what is asked for is not possible.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let image = &args.image;
    match &args.act {
        Act::Create(args) => create(image, args, out),
        Act::Append(args) => append::run(image, args, out),
        Act::Read(args) => read::run(image, args, out),
        Act::Stat(args) => stat(image, args, out),
        Act::Follow(args) => read::follow(image, args, out),
        Act::Trim(args) => trim(image, args),
    }
}

/// What a volume holds.
enum Holds {
    /// A log, or nothing that is known.
    Log,
    /// A file system that keeps a log.
    Journal,
    /// One that keeps none.
    Files,
}

/// Finds out whose log a command is about.
fn holds(images: &[PathBuf], volume: &mut Volume) -> Result<Holds, Failure> {
    match ffs::load(volume) {
        Ok(found) if found.superblock.log.exists() => Ok(Holds::Journal),
        Ok(_) => Ok(Holds::Files),
        Err(FsError::Foreign) => Ok(Holds::Log),
        Err(error) => Err(blame(images, &error)),
    }
}

/// Opens the volume, acts on it, and closes it.
fn with_volume<T>(
    image: &ImageArgs,
    read_only: bool,
    act: impl FnOnce(&[PathBuf], &mut Volume) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let images = image.images();
    let mut volume = image.open(&images, read_only)?;
    let done = act(&images, &mut volume);
    let closed = volume.close().map_err(|error| blame_device(&images, error));
    done.and_then(|done| closed.map(|()| done))
}

/// The same for a command that writes, which only a log of its own allows.
fn with_log<T>(
    image: &ImageArgs,
    act: impl FnOnce(&[PathBuf], Log<&mut Volume>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_volume(image, false, |images, volume| {
        match holds(images, volume)? {
            Holds::Log => {}
            Holds::Journal => return Err(refused(images)),
            Holds::Files => return Err(no_journal(images)),
        }
        let log = Log::open(volume).map_err(|error| cannot(images, &error))?;
        act(images, log)
    })
}

/// The log of a file system is not written.
fn refused(images: &[PathBuf]) -> Failure {
    let cause = format!(
        "{}: this is the log of a file system; records that its mount has not written would make \
         its recovery fail",
        names(images)
    );
    Failure::failed(cause).hint("make a log of its own: seekless fs log IMAGE create --size SIZE")
}

fn no_journal(images: &[PathBuf]) -> Failure {
    let cause = format!("{}: the file system keeps no log", names(images));
    Failure::new(Exit::Image, cause).hint("`seekless fs switch-policy` gives it a policy that does")
}

/// A failure of the log on these images.
fn cannot(images: &[PathBuf], error: &Error) -> Failure {
    let image = names(images);
    let failure = |exit| Failure::new(exit, format!("{image}: {error}"));
    let of = |act: &str| format!("`seekless fs log {image} {act}`");
    match error {
        Error::BadOption(_) => Failure::from_message(Exit::Usage, &format!("{image}: {error}")),
        Error::TooLong { .. } => failure(Exit::Failed).hint("divide it, or make a larger log"),
        Error::Full => failure(Exit::Failed).hint(format!("{} frees space", of("trim LSN"))),
        Error::NoRecord(_) => {
            failure(Exit::Failed).hint(format!("{} prints the positions", of("read")))
        }
        Error::NoLog => failure(Exit::Image).hint(format!("{} makes one", of("create"))),
        Error::OfFileSystem => failure(Exit::Image).hint("name the image of the file system"),
        Error::Truncated { .. } => failure(Exit::Image).hint("restore the missing part"),
        Error::Damaged { .. } => failure(Exit::Image).hint(format!(
            "{} gives the records in front of it; copy them to a new log",
            of("read")
        )),
        Error::Stale(_) => failure(Exit::Image).hint("restore the image"),
        Error::NoSpaceToBegin => {
            failure(Exit::Image).hint(format!("copy what {} gives", of("read")))
        }
        Error::Failed | Error::Io(_) => failure(Exit::Backing)
            .hint("records whose positions were printed are durable; try again"),
    }
}

fn create(image: &ImageArgs, args: &CreateArgs, out: &mut dyn Write) -> Outcome {
    let images = image.images();
    let unit = args.unit.map(|unit| u32::try_from(unit).unwrap_or(u32::MAX));
    let options = LogOptions { id: image::fresh_id().map_err(std::io::Error::from)?, unit };
    let made = args.size.map(|size| make_file(&image.image, size.bytes())).transpose()?;
    let created = with_volume(image, false, |images, volume| {
        if made.is_none() && !args.force {
            refuse_content(images, volume)?;
        }
        let log = Log::create(volume, &options).map_err(|error| cannot(images, &error))?;
        Ok(log.stat())
    });
    if created.is_err() && made.is_some() {
        // What did not exist before does not stay.
        let _ = std::fs::remove_file(&image.image);
    }
    let Stat { size, most_record, .. } = created?;
    let size = Size::from_blocks(size / seekless_engine::units::BLOCK_BYTES as u64);
    writeln!(out, "{}: log of {size}, records of up to {most_record} bytes", names(&images))?;
    Ok(())
}

fn trim(image: &ImageArgs, args: &TrimArgs) -> Outcome {
    with_log(image, |images, mut log| {
        let to = match args.to {
            To::Record(at) => at,
            To::End => log.stat().end,
        };
        log.trim(to).map_err(|error| cannot(images, &error))?;
        log.close().map_err(|error| cannot(images, &error))?;
        Ok(())
    })
}

fn stat(image: &ImageArgs, args: &StatArgs, out: &mut dyn Write) -> Outcome {
    with_volume(image, true, |images, volume| {
        let found = match holds(images, volume)? {
            Holds::Files => return Err(no_journal(images)),
            Holds::Journal => groups::stat(images, volume)?,
            Holds::Log => read::stat(images, volume)?,
        };
        if args.json {
            return Ok(writeln!(out, "{}", found.to_json())?);
        }
        found.print(out)?;
        Ok(())
    })
}

/// What `stat` prints.
struct Found {
    stat: Stat,
    records: u64,
    damage: Option<String>,
}

impl Found {
    fn to_json(&self) -> serde_json::Value {
        let Stat { size, used, start, durable, epoch, unit, .. } = self.stat;
        json!({
            "size": size, "used": used, "start": start.0, "durable": durable.0, "epoch": epoch,
            "unit": unit, "records": self.records, "damage": self.damage,
        })
    }

    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Stat { size, used, start, durable, epoch, unit, .. } = self.stat;
        writeln!(out, "size     {size:>12} bytes")?;
        writeln!(out, "used     {used:>12} bytes")?;
        writeln!(out, "unit     {unit:>12} bytes")?;
        writeln!(out, "start    {:>12}", start.0)?;
        writeln!(out, "durable  {:>12}", durable.0)?;
        writeln!(out, "epoch    {epoch:>12}")?;
        writeln!(out, "records  {:>12}", self.records)?;
        match &self.damage {
            Some(damage) => writeln!(out, "damage: {damage}"),
            None => Ok(()),
        }
    }
}
