//! `seekless replace`: a new member for an array.

use crate::failure::Outcome;
use seekless_serve::image::array::{open_members, replace_member};
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless replace`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless replace a.img c.img --with d.img      # b.img is gone
  seekless serve a.img c.img d.img --socket /tmp/disk.sock

The new member takes the place of the first one that is out of date or not given. It is filled
while the array is served, in pauses and between requests, and is part of it from then on.")]
pub struct Args {
    /// The members that are left, in any order.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// The new member: a file to make, or an empty block device.
    #[arg(long, value_name = "IMAGE")]
    with: PathBuf,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
}

/// Makes the new member part of the array.
///
/// # Errors
/// If no member is missing, or more are missing than the level tolerates.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut members = open_members(&args.images, false, true)?;
    let member = replace_member(&mut members, &args.with, args.force)?;
    writeln!(
        out,
        "{}: member {member} of {}, to be filled while it is served",
        args.with.display(),
        members.superblock().geometry.level
    )?;
    Ok(())
}
