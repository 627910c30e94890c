//! `seekless create`: makes an image.

use crate::failure::Outcome;
use crate::size::Size;
use seekless_engine::disk::Disk as _;
use seekless_engine::layout::Kind;
use seekless_engine::layout::loge::Heuristic;
use seekless_engine::superblock::Superblock;
use seekless_serve::image::{self, CreateOptions};
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `seekless create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless create disk.img --layout vlog --size 10G
  seekless create disk.img --layout inplace --size 512M --force
  sudo seekless create /dev/sdb --layout vlog      # as large as the device allows

The image is a sparse file: it takes space as it is written.")]
pub struct Args {
    /// The file to make, or an empty block device.
    image: PathBuf,
    /// How the volume places its blocks; `seekless layouts` lists them.
    #[arg(long, short, value_name = "LAYOUT")]
    layout: Kind,
    /// Size that clients see, in whole 4 KiB blocks: bytes, or with k, M, G, T. May be left out
    /// for a block device.
    #[arg(long, short, value_name = "SIZE")]
    size: Option<Size>,
    /// How `loge` chooses places on a disk with a head: soonest, ls, cr, fr, r or pl, each with or
    /// without `+sg`.
    #[arg(long, value_name = "NAME", default_value_t = Heuristic::default())]
    heuristic: Heuristic,
    /// Size of the segments of `lfs`, `wolf` and `hylog`: a power of two from 32k to 16M. What
    /// suits the size of the volume if left out.
    #[arg(long, value_name = "SIZE")]
    segment: Option<Size>,
    /// Replace what is there.
    #[arg(long)]
    force: bool,
}

/// Makes the image.
///
/// # Errors
/// If there is something already, the size does not fit, or the file cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let blocks = args.size.map(Size::blocks);
    let segment = args.segment.map(|size| size.blocks().try_into().unwrap_or(u32::MAX));
    let options =
        CreateOptions { kind: args.layout, blocks, force: args.force, heuristic: args.heuristic, segment };
    let mut image = image::create(&args.image, &options)?;
    let superblock = Superblock::read(&mut image).map_err(|error| image.blame(error))?;
    writeln!(
        out,
        "{}: {} volume of {}, image of {}",
        args.image.display(),
        superblock.kind,
        Size::from_blocks(superblock.blocks),
        Size::from_blocks(image.blocks())
    )?;
    Ok(())
}
