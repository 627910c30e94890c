//! `seekless drain`: writes what the log of a disk caching disk holds to its home location.

use crate::failure::Outcome;
use crate::term::Progress;
use seekless_engine::disk::Disk;
use seekless_engine::size::Size;
use seekless_layouts::dcd;
use seekless_serve::image;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `seekless drain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless drain disk.img
  seekless drain /dev/sdb --log /dev/nvme0n1p3

The volume must not be in use. An interrupted drain loses nothing, and the next one continues.")]
pub struct Args {
    /// The image, or the origin.
    image: PathBuf,
    /// The log, if it is on a device of its own.
    #[arg(long, value_name = "LOG")]
    log: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Drains and prints how much was written.
///
/// # Errors
/// If the volume is unusable or in use, or a record of the log is damaged.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut origin = image::open(&args.image, false)?;
    let mut log = args.log.as_deref().map(|log| image::open_log(log, false)).transpose()?;
    let started = Instant::now();
    let mut progress = Progress::new();
    let mut shown = |done: u64, total: u64| {
        progress.show(|| {
            let spent = started.elapsed().as_secs_f64();
            let left = spent / done.max(1) as f64 * (total - done) as f64;
            let forecast = if done > 0 { format!(", {left:.0} s to go") } else { String::new() };
            format!(
                "{} of {} written home{forecast}",
                Size::from_blocks(done),
                Size::from_blocks(total)
            )
        });
    };
    let mut disks: Vec<&mut dyn Disk> = vec![&mut origin];
    disks.extend(log.as_mut().map(|log| log as &mut dyn Disk));
    let drained = dcd::drain(&mut disks, &mut shown);
    drop(progress);
    let blocks = drained.map_err(|error| image::blame_half(&origin, log.as_ref(), error))?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        writeln!(out, "{}", json!({ "image": args.image, "blocks": blocks, "seconds": seconds }))?;
    } else {
        let size = Size::from_blocks(blocks);
        writeln!(out, "{}: {size} written home in {seconds:.1} s", args.image.display())?;
    }
    Ok(())
}
