//! `seekless fs cp`: copies into the image or out of it.

use super::{ImageArgs, report, warn};
use crate::failure::{Failure, Outcome};
use crate::files::copy_in::CopyIn;
use crate::files::copy_out::CopyOut;
use crate::files::error::shown;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Arguments of `seekless fs cp`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs cp disk.img ./notes.txt :/home       # into the image
  seekless fs cp disk.img ./tree1 ./tree2 :/srv    # trees, with everything in them
  seekless fs cp disk.img :/srv/tree1 ./back       # out of the image

A colon begins the paths in the image. Trees are copied whole, with permissions, owners, times, hard
links and holes; out of the image, owners are kept if root runs it. What cannot be copied is named,
and the rest is copied; the exit code is then 1.")]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// What is copied, then where to: one side is in the image.
    #[arg(value_names = ["FROM", "TO"], num_args = 2.., required = true)]
    paths: Vec<OsString>,
}

/// Copies.
///
/// # Errors
/// If the paths are not on two sides, or one of the sides fails.
pub fn run(args: &Args) -> Outcome {
    let Some((to, from)) = args.paths.split_last() else {
        return Err(Failure::usage("cp needs a source and a target"));
    };
    let inside: Vec<Option<&[u8]>> = from.iter().map(|path| in_image(path)).collect();
    match in_image(to) {
        Some(to) if inside.iter().all(Option::is_none) => args.image.with(false, &mut |files| {
            let several = from.len() > 1;
            if several {
                crate::files::copy_in::need_directory(files, to)?;
            }
            let mut copy = CopyIn::default();
            let ended = from.iter().try_for_each(|from| copy.copy(files, Path::new(from), to));
            report(copy.tally, ended, "copied")
        }),
        None if inside.iter().all(Option::is_some) => args.image.with(true, &mut |files| {
            let to = Path::new(to);
            if from.len() > 1 && !to.is_dir() {
                let cause = format!("{} is no directory for several files", to.display());
                return Err(Failure::usage(cause).hint("make it first"));
            }
            let mut copy = CopyOut::default();
            let mut all = inside.iter().flatten();
            let ended = all.try_for_each(|from| copy.copy(files, from, to));
            let left_out: Vec<String> = copy.left_out.iter().map(|path| shown(path)).collect();
            warn(left_out.iter().map(String::as_str), "is a socket");
            report(copy.tally, ended, "copied whole")
        }),
        _ => Err(Failure::usage("one side of a copy must be in the image, the other outside")
            .hint("begin each path in the image with a colon, as in :/srv")),
    }
}

/// The path in the image, if it is one.
fn in_image(path: &OsString) -> Option<&[u8]> {
    path.as_bytes().strip_prefix(b":")
}
