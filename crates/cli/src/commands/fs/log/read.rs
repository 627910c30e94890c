//! `seekless fs log read` and `follow`.

use super::super::ImageArgs;
use super::sink::Style;
use super::{Found, Holds, cannot, groups, holds, lsn, no_journal, with_volume};
use crate::failure::{Exit, Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seekless_formats::log::{LogReader, Lsn};
use seekless_serve::files::Volume;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Arguments of `seekless fs log read`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Begin with this record.
    #[arg(long, value_name = "LSN", value_parser = lsn)]
    from: Option<Lsn>,
    #[command(flatten)]
    style: Style,
}

/// Arguments of `seekless fs log follow`.
#[derive(Debug, clap::Args)]
pub struct FollowArgs {
    /// Begin with this record.
    #[arg(long, value_name = "LSN", value_parser = lsn)]
    from: Option<Lsn>,
    /// End behind this record, or behind the first one that comes after it.
    #[arg(long, value_name = "LSN", value_parser = lsn)]
    until: Option<Lsn>,
    #[command(flatten)]
    style: Style,
}

/// Time between two looks at the log.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Prints the records.
pub fn run(image: &ImageArgs, args: &Args, out: &mut dyn Write) -> Outcome {
    let mut from = args.from.unwrap_or_default();
    let damage = look(image, &mut from, None, args.style, out)?;
    damage.map_or(Ok(()), Err)
}

/// Prints records as they come.
pub fn follow(image: &ImageArgs, args: &FollowArgs, out: &mut dyn Write) -> Outcome {
    let stop = seekless_serve::signals::block_and_watch()?;
    let mut from = args.from.unwrap_or_default();
    loop {
        match look(image, &mut from, args.until, args.style, out) {
            // A writer has it: what it appends is there when it ends.
            Err(failure) if failure.exit == Exit::Busy => {}
            Err(failure) => return Err(failure),
            Ok(Some(damage)) => return Err(damage),
            Ok(None) => {}
        }
        out.flush()?;
        if args.until.is_some_and(|until| from > until) || is_readable(&stop)? {
            return Ok(());
        }
    }
}

/// Waits for a while. True if a signal came.
fn is_readable(fd: &OwnedFd) -> Result<bool, Failure> {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    match poll(&mut fds, Some(&PAUSE)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

/// Prints what is there from a position on, which moves behind it. Gives damage behind that.
fn look(
    image: &ImageArgs,
    from: &mut Lsn,
    until: Option<Lsn>,
    style: Style,
    out: &mut dyn Write,
) -> Result<Option<Failure>, Failure> {
    with_volume(image, true, |images, volume| match holds(images, volume)? {
        Holds::Files => Err(no_journal(images)),
        Holds::Journal => groups::print(images, volume, (from, until), style, out),
        Holds::Log => records(images, volume, (from, until), style, out),
    })
}

fn records(
    images: &[PathBuf],
    volume: &mut Volume,
    (from, until): (&mut Lsn, Option<Lsn>),
    style: Style,
    out: &mut dyn Write,
) -> Result<Option<Failure>, Failure> {
    let mut reader = LogReader::open(volume).map_err(|error| cannot(images, &error))?;
    for record in reader.records(*from) {
        let (at, bytes) = record.map_err(|error| cannot(images, &error))?;
        style.record(at, &bytes, out)?;
        *from = Lsn(at.0 + 1);
        if until.is_some_and(|until| at >= until) {
            return Ok(None);
        }
    }
    *from = (*from).max(reader.stat().end);
    Ok(reader.damage().map(|error| cannot(images, error)))
}

/// What `stat` prints of a log.
pub fn stat(images: &[PathBuf], volume: &mut Volume) -> Result<Found, Failure> {
    let mut reader = LogReader::open(volume).map_err(|error| cannot(images, &error))?;
    let mut count = 0;
    for record in reader.records(Lsn::default()) {
        record.map_err(|error| cannot(images, &error))?;
        count += 1;
    }
    let damage = reader.damage().map(ToString::to_string);
    Ok(Found { stat: reader.stat(), records: count, damage })
}
