//! `seekless fs compact`: writes what waits as patches in the log of a VLFS where it belongs.

use super::ImageArgs;
use crate::failure::{Failure, Outcome};
use crate::filesystem::{blame, blame_device, names};
use seekless_engine::options::Options;
use seekless_formats::Kind;
use seekless_layouts::vlfs::COMPACT;
use serde_json::json;
use std::io::Write;

/// Arguments of `seekless fs compact`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs compact disk.img
  seekless fs compact disk.img --json | jq .after_bytes

Small changes of a VLFS stay as patches in its log until these fill a block. This writes them into
inodes, indirect blocks and directories now, so that the next mount has none to carry, and frees
what they made void. The image must not be in use. An interrupted run loses nothing.")]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Compacts, and prints what has changed.
///
/// # Errors
/// If the image holds no VLFS, or is unusable or in use.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let images = args.image.images();
    let mut volume = args.image.open_with(&images, true, Options::default())?;
    let kind = Kind::of(&mut volume).map_err(|error| blame(&images, &error))?;
    if !kind.needs_objects {
        let problem = format!("{}: {} keeps no patches", names(&images), kind.title);
        return Err(Failure::usage(problem).hint("only VLFS (`mkfs --fs vlfs`) is compacted"));
    }
    let close = |volume: seekless_serve::files::Volume| {
        volume.close().map_err(|error| blame_device(&images, error))
    };
    let before = volume.counter("patch_bytes");
    close(volume)?;
    let chosen = Options::default().with(&COMPACT, true);
    close(args.image.open_with(&images, false, chosen)?)?;
    let volume = args.image.open_with(&images, true, Options::default())?;
    let after = volume.counter("patch_bytes");
    close(volume)?;
    if args.json {
        let told = json!({ "before_bytes": before as u64, "after_bytes": after as u64 });
        return Ok(writeln!(out, "{told}")?);
    }
    Ok(writeln!(out, "{}: {before} bytes of patches, {after} now", names(&images))?)
}
