//! `seekless create`: makes an image.

use crate::failure::{Failure, Outcome};
use crate::size::Size;
use seekless_engine::disk::Disk as _;
use seekless_engine::layout::Kind;
use seekless_engine::layout::dcd::Shape;
use seekless_engine::layout::loge::Heuristic;
use seekless_engine::superblock::Superblock;
use seekless_serve::image::{self, AttachOptions, CreateOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `seekless create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless create disk.img --layout vlog --size 10G
  seekless create disk.img --layout inplace --size 512M --force
  sudo seekless create /dev/sdb --layout vlog      # as large as the device allows
  sudo seekless create /dev/sdb --layout dcd --log /dev/nvme0n1p3    # keeps what is on sdb

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
    /// Put the log of `dcd` here, a file or an empty block device, and leave the content of IMAGE as
    /// it is.
    #[arg(long, value_name = "LOG")]
    log: Option<PathBuf>,
    /// Size of the log of `dcd`. [default: a sixteenth of the device, at most 1G]
    #[arg(long, value_name = "SIZE")]
    log_size: Option<Size>,
    /// Size of a segment of the log of `dcd`, a power of two from 16k to 1M.
    #[arg(long, value_name = "SIZE", default_value = "128k")]
    segment: Size,
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
    let shape = shape(args)?;
    if let Some(log) = &args.log {
        return attach(args, log, blocks, out);
    }
    let Args { layout: kind, force, heuristic, .. } = *args;
    let options = CreateOptions { kind, blocks, force, heuristic, shape };
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

fn shape(args: &Args) -> Result<Shape, Failure> {
    let blocks = args.segment.blocks();
    if !blocks.is_power_of_two() || !(4..=256).contains(&blocks) {
        return Err(Failure::usage(format!("--segment: {} is not possible", args.segment))
            .hint("a segment has a power of two of bytes, from 16k to 1M"));
    }
    Ok(Shape { segment_blocks: blocks as u32, log_blocks: args.log_size.map(Size::blocks) })
}

/// Puts a log in front of what is there.
fn attach(args: &Args, log: &Path, blocks: Option<u64>, out: &mut dyn Write) -> Outcome {
    if args.layout != Kind::Dcd {
        let reason = format!("--log: a volume of layout {} has no log apart", args.layout);
        return Err(Failure::usage(reason).hint("--layout dcd has one"));
    }
    let shape = Shape { log_blocks: None, ..shape(args)? };
    let log_blocks = args.log_size.map(Size::blocks);
    let options = AttachOptions { blocks, log_blocks, shape, force: args.force };
    image::attach(&args.image, log, &options)?;
    writeln!(
        out,
        "{}: origin of a dcd volume with its log in {}; serve it with --log",
        args.image.display(),
        log.display()
    )?;
    Ok(())
}
