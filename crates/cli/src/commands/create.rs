//! `seekless create`: makes an image.

use crate::effect::Given;
use crate::failure::{Failure, Outcome};
use crate::size::Size;
use seekless_engine::disk::Disk as _;
use seekless_engine::layout::Kind;
use seekless_engine::layout::dcd::Shape;
use seekless_engine::layout::loge::{Heuristic, TableForm};
use seekless_engine::superblock::Superblock;
use seekless_engine::volume::Level;
use seekless_serve::image::array::{CreateArrayOptions, create_array};
use seekless_serve::image::{self, AttachOptions, CreateOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `seekless create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless create disk.img --layout vlog --size 10G
  seekless create disk.img --layout inplace --size 512M --force
  seekless create disk.img --layout loge --size 1G --headers   # to be served with --disk
  seekless create disk.img --layout loge --size 1G --table compressed    # less memory
  seekless create disk.img --layout loge --size 1G --sparse 20G    # more addresses than room
  sudo seekless create /dev/sdb --layout vlog      # as large as works well there
  seekless create --raid 5 --stripe 64k --layout inplace --size 1G a.img b.img c.img
  sudo seekless create /dev/sdb --layout dcd --log /dev/nvme0n1p3    # keeps what is on sdb

The image is a sparse file: it takes space as it is written.")]
pub struct Args {
    /// The file to make, or an empty block device; with --raid, one for each member.
    #[arg(required = true)]
    images: Vec<PathBuf>,
    /// How the volume places its blocks; `seekless layouts` lists them.
    #[arg(long, short, value_name = "LAYOUT")]
    layout: Kind,
    /// Size that clients see, in whole 4 KiB blocks: bytes, or with k, M, G, T. May be left out
    /// for a block device: all of it then, less what the layout needs to work well.
    #[arg(long, short, value_name = "SIZE")]
    size: Option<Size>,
    /// Give a `loge` volume so many addresses, as a size, though it can store no more than --size:
    /// clients free what they need no longer with trims, and a write that finds no room is refused
    /// with ENOSPC. At most 32 times the image.
    #[arg(long, value_name = "SIZE", requires = "size", conflicts_with_all = ["raid", "log"])]
    sparse: Option<Size>,
    /// How `loge` chooses places on a disk with a head: soonest, ls, cr, fr, r or pl, each with or
    /// without `+sg`.
    #[arg(long, value_name = "NAME", default_value_t = Heuristic::default())]
    heuristic: Heuristic,
    /// Form of the table of `loge` in memory, and so where blocks may lie: plain (anywhere),
    /// sorted:N (within N cylinders on either side of where each block belongs; 2 if left out) or
    /// compressed:P (where it belongs, but for P percent of the blocks; 5 if left out).
    #[arg(long, value_name = "FORM", default_value_t, conflicts_with = "sparse")]
    table: TableForm,
    /// Size of a segment of the log of `dcd`, a power of two from 16k to 1M (128k if not given), or
    /// of the segments of `lfs`, `wolf` and `hylog`: a power of two from 32k to 16M. What
    /// suits the size of the volume if left out.
    #[arg(long, value_name = "SIZE", conflicts_with = "raid")]
    segment: Option<Size>,
    /// Keep the labels of `loge` in sector headers, where they cost no time: for an image that is
    /// always served at the pace of a disk (`serve --disk`).
    #[arg(long)]
    headers: bool,
    /// Make an array of the images: 0 (striped), 1 (mirrored) or 5 (with parity).
    #[arg(long, value_name = "LEVEL", conflicts_with = "headers")]
    raid: Option<Level>,
    /// How much lies on one member of an array before the next one is used, in whole 4 KiB blocks,
    /// at most 1M.
    #[arg(long, value_name = "SIZE", default_value = "64k", requires = "raid")]
    stripe: Size,
    /// Put the log of `dcd` here, a file or an empty block device, and leave the content of IMAGE
    /// as it is.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["raid", "headers"])]
    log: Option<PathBuf>,
    /// Size of the log of `dcd`; a file is made large enough for it beside the volume. [default: a
    /// sixteenth of the device, at most 1G]
    #[arg(long, value_name = "SIZE", conflicts_with = "raid")]
    log_size: Option<Size>,
    /// Replace what is there.
    #[arg(long)]
    force: bool,
}

/// Makes the image.
///
/// # Errors
/// If there is something already, the size does not fit, or the file cannot be written.
pub fn run(args: &Args, given: &Given, out: &mut dyn Write) -> Outcome {
    let blocks = args.size.map(Size::blocks);
    given.refuse_without_effect(&[args.layout], "choose --layout")?;
    let shape = shape(args)?;
    let &Args { force, heuristic, table, headers, .. } = args;
    let segment = args.segment.map(|size| size.blocks().try_into().unwrap_or(u32::MAX));
    let kind = args.layout;
    let addresses = args.sparse.map(Size::blocks);
    let options =
        CreateOptions { kind, blocks, addresses, force, heuristic, table, headers, segment, shape };
    let path = match (args.raid, args.images.as_slice()) {
        (Some(level), _) => return array(args, level, out),
        (None, [image]) => image,
        (None, _) if args.log.is_some() => {
            let problem = "--log: several images have no log in front of them";
            return Err(Failure::usage(problem).hint("give one image, the origin"));
        }
        (None, _) => {
            let problem = "several images make an array";
            return Err(Failure::usage(problem).hint("say which: --raid 0, 1 or 5"));
        }
    };
    if let Some(log) = &args.log {
        return attach(args, path, log, blocks, out);
    }
    let mut image = image::create(path, &options)?;
    let superblock = Superblock::read(&mut image).map_err(|error| image.blame(error))?;
    writeln!(
        out,
        "{}: {} volume of {}, image of {}",
        path.display(),
        superblock.kind,
        Size::from_blocks(superblock.blocks),
        Size::from_blocks(image.blocks())
    )?;
    Ok(())
}

/// Makes an array and a volume on it.
fn array(args: &Args, level: Level, out: &mut dyn Write) -> Outcome {
    let chunk = u32::try_from(args.stripe.blocks()).unwrap_or(u32::MAX);
    let options = CreateArrayOptions {
        level,
        chunk,
        kind: args.layout,
        blocks: args.size.map(Size::blocks),
        force: args.force,
        heuristic: args.heuristic,
        table: args.table,
    };
    let (members, superblock) = create_array(&args.images, &options)?;
    let geometry = members.superblock().geometry;
    writeln!(
        out,
        "{level} of {} members, {} to a stripe: {} volume of {}, members of {}",
        geometry.members,
        Size::from_blocks(u64::from(geometry.chunk)),
        superblock.kind,
        Size::from_blocks(superblock.blocks),
        Size::from_blocks(members.superblock().device_blocks())
    )?;
    Ok(())
}

/// How the log is cut.
fn shape(args: &Args) -> Result<Shape, Failure> {
    let shape = Shape { log_blocks: args.log_size.map(Size::blocks), ..Shape::default() };
    let Some(segment) = args.segment.filter(|_| args.layout == Kind::Dcd) else {
        return Ok(shape);
    };
    let blocks = segment.blocks();
    if !blocks.is_power_of_two() || !(4..=256).contains(&blocks) {
        return Err(Failure::usage(format!("--segment: {segment} is not possible"))
            .hint("a segment of dcd has a power of two of bytes, from 16k to 1M"));
    }
    Ok(Shape { segment_blocks: blocks as u32, ..shape })
}

/// Puts a log in front of what is there.
fn attach(
    args: &Args,
    origin: &Path,
    log: &Path,
    blocks: Option<u64>,
    out: &mut dyn Write,
) -> Outcome {
    if args.layout != Kind::Dcd {
        let reason = format!("--log: a volume of layout {} has no log apart", args.layout);
        return Err(Failure::usage(reason).hint("--layout dcd has one"));
    }
    let shape = Shape { log_blocks: None, ..shape(args)? };
    let log_blocks = args.log_size.map(Size::blocks);
    let options = AttachOptions { blocks, log_blocks, shape, force: args.force };
    image::attach(origin, log, &options)?;
    writeln!(
        out,
        "{}: origin of a dcd volume with its log in {}; serve it with --log",
        origin.display(),
        log.display()
    )?;
    Ok(())
}
