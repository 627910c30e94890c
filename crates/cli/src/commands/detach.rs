//! `seekless detach`: detaches the log of a disk caching disk.

use crate::failure::Outcome;
use seekless_layouts::dcd;
use seekless_serve::image;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless detach`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless drain /dev/sdb --log /dev/nvme0n1p3
  seekless detach /dev/sdb --log /dev/nvme0n1p3

Only an empty log can be detached; that takes no time. The origin is then a plain disk again.")]
pub struct Args {
    /// The origin.
    origin: PathBuf,
    /// Its log.
    #[arg(long, value_name = "LOG")]
    log: PathBuf,
}

/// Detaches.
///
/// # Errors
/// If the log holds blocks that are not at their home location, the two do not belong together, or
/// one is in use.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut origin = image::open(&args.origin, false)?;
    let mut log = image::open_log(&args.log, false)?;
    let detached = dcd::detach(&mut origin, &mut log);
    detached.map_err(|error| image::blame_half(&origin, Some(&log), error))?;
    writeln!(out, "{}: a plain disk again", args.origin.display())?;
    Ok(())
}
