//! `seekless fs switch-policy`: another policy for a file system, with a log if it wants one.

use super::ImageArgs;
use crate::failure::{Failure, Outcome};
use crate::filesystem::{blame, blame_device, names, policies, wall_clock};
use crate::making::{make_journal, refuse_journal};
use seekless_engine::disk::Disk as _;
use seekless_engine::size::parse_bytes;
use seekless_formats::{Kind, SwitchOptions};
use seekless_fs::policy::PolicyKind;
use seekless_serve::files::Volume;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `seekless fs switch-policy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs switch-policy disk.img soft
  seekless fs switch-policy disk.img wafs-1async                    # makes a log, in free space
  seekless fs switch-policy disk.img lffs-file --journal-size 16M
  seekless fs switch-policy disk.img wafs-2async --journal log.img --journal-size 64M

The file system must be unmounted and sound. A log on the same volume lies behind the file system if
the volume is longer, or else in a file without a name. A log that is there stays when the policy
needs none: a later switch uses it again. If the switch is cut off, `seekless fsck --repair` or a
mount with --policy soft goes on; no file is lost.")]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// How `mount` orders writes of metadata from now on, unless it is told otherwise.
    #[arg(value_name = "POLICY", value_parser = policies())]
    policy: PolicyKind,
    /// Size of a log that is made. [default: 1 % of the volume, 4M to 128M, or what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    journal_size: Option<u64>,
    /// Bytes of the largest write of a log that is made: 4k to 64k.
    #[arg(long, value_name = "SIZE", default_value = "64k", value_parser = parse_bytes)]
    journal_unit: u64,
    /// Overwrite what the device of the log holds.
    #[arg(long)]
    force: bool,
}

/// Gives the file system the policy.
///
/// # Errors
/// If it was not unmounted, is not sound or has no room; if the image is unusable or in use.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let journal = args.image.journal.journal.as_deref();
    if journal.is_some() && !args.policy.has_own_log_volume() {
        let cause = format!("--policy {} keeps no log on another device", args.policy.name());
        return Err(Failure::usage(cause).hint("leave out --journal"));
    }
    let made = make_journal(journal, args.journal_size)?;
    let switched = switch(args, journal);
    if switched.is_err()
        && let Some(path) = journal.filter(|_| made)
    {
        // What did not exist before does not stay.
        let _ = std::fs::remove_file(path);
    }
    writeln!(out, "{}: {}", names(&args.image.images()), switched?)?;
    Ok(())
}

fn switch(args: &Args, journal: Option<&Path>) -> Result<String, Failure> {
    let images = args.image.images();
    let (mut volume, journal_blocks) = open(args, &images, journal)?;
    let options = SwitchOptions {
        policy: args.policy,
        journal: args.journal_size,
        journal_blocks,
        journal_unit: u32::try_from(args.journal_unit).unwrap_or(u32::MAX),
        now: wall_clock(),
    };
    let switched =
        Kind::of(&mut volume).and_then(|kind| (kind.switch_policy)(&mut volume, &options));
    let switched = switched.map_err(|error| blame(&images, &error));
    // Also after an error: else the volume is left as after a crash.
    let closed = volume.close().map_err(|error| blame_device(&images, error));
    switched.and_then(|text| closed.map(|()| text))
}

/// The volume, and the blocks behind it of a device that is to have a new log.
fn open(
    args: &Args,
    images: &[PathBuf],
    journal: Option<&Path>,
) -> Result<(Volume, Option<u64>), Failure> {
    let how = args.image.volume.options(images, false);
    let Some(path) = journal else { return Ok((Volume::open(&how)?, None)) };
    let device = Volume::open_journal(&how, path)?;
    let blocks = device.blocks();
    let mut volume = Volume::open(&how)?;
    let own = volume.blocks();
    let at = Kind::of(&mut volume).and_then(|kind| (kind.journal_at)(&mut volume));
    let at = match at {
        Ok(at) => at,
        Err(error) => {
            let _ = volume.close();
            return Err(blame(images, &error));
        }
    };
    // A log that is there is joined where it belongs.
    let mut volume = volume.join(device, at.unwrap_or(own))?;
    if at.is_none() && !args.force {
        let refused = refuse_journal((images, path), own, &mut volume);
        if let Err(failure) = refused {
            let _ = volume.close();
            return Err(failure);
        }
    }
    Ok((volume, at.is_none().then_some(blocks)))
}
