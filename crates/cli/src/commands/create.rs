//! `seekless create`: makes an image.

use crate::effect::Given;
use crate::failure::{Failure, Outcome};
use crate::layout_flags::{Format, LayoutFlags};
use seekless_arrays::Level;
use seekless_engine::disk::Disk as _;
use seekless_engine::size::Size;
use seekless_layouts::dcd::LOG_SIZE;
use seekless_layouts::{Kind, read_superblock};
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
  seekless create disk.img --layout loge --size 1G --sparse 20G    # more addresses than space
  sudo seekless create /dev/sdb --layout vlog      # as large as works well there
  seekless create --raid 5 --chunk 64k --layout inplace --size 1G a.img b.img c.img
  sudo seekless create /dev/sdb --layout dcd --log /dev/nvme0n1p3    # keeps what is on sdb

The image is a sparse file: it takes space as it is written.")]
pub struct Args {
    /// The file to make, or an empty block device; with --raid, one for each member.
    #[arg(required = true)]
    images: Vec<PathBuf>,
    /// The layout of the volume; `seekless layouts` lists them.
    #[arg(long, short, value_name = "LAYOUT")]
    layout: Kind,
    /// Size that clients see, in whole 4 KiB blocks: bytes, or with k, M, G, T. Optional for a
    /// block device: the volume then gets all of it, less what the layout needs to work well.
    #[arg(long, short, value_name = "SIZE")]
    size: Option<Size>,
    /// Keep the labels of `loge` in sector headers, where they cost no time: for an image that is
    /// always served at the pace of a disk (`serve --disk`).
    #[arg(long)]
    headers: bool,
    /// Make an array of the images: 0 (striped), 1 (mirrored) or 5 (with parity).
    #[arg(long, value_name = "LEVEL", conflicts_with = "headers")]
    raid: Option<Level>,
    /// Length of a chunk: so much lies on one member of an array before the next member is used. In
    /// whole 4 KiB blocks, at most 1M.
    #[arg(
        long = "chunk",
        alias = "stripe",
        value_name = "SIZE",
        default_value = "64k",
        requires = "raid"
    )]
    chunk: Size,
    /// Put the log of `dcd` here, a file or an empty block device, and leave the content of IMAGE
    /// as it is.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["raid", "headers"])]
    log: Option<PathBuf>,
    #[command(flatten)]
    layout_flags: LayoutFlags<Format>,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
}

/// Makes the image.
///
/// # Errors
/// If something is there already, the size does not fit, or the file cannot be written.
pub fn run(args: &Args, given: &Given, out: &mut dyn Write) -> Outcome {
    let blocks = args.size.map(Size::blocks);
    given.refuse_without_effect(&[args.layout], "choose --layout")?;
    refuse_combinations(args)?;
    let (kind, force, headers) = (args.layout, args.force, args.headers);
    let chosen = args.layout_flags.options.clone();
    let options = CreateOptions { kind, blocks, force, headers, options: chosen };
    let path = match (args.raid, args.images.as_slice()) {
        (Some(level), _) => return array(args, level, out),
        (None, [image]) => image,
        (None, _) if args.log.is_some() => {
            let problem = "--log: a volume on several images has no log of its own";
            return Err(Failure::usage(problem).hint("give one image, the origin"));
        }
        (None, _) => {
            let problem = "several images need --raid";
            return Err(Failure::usage(problem).hint("choose the level: --raid 0, 1 or 5"));
        }
    };
    if let Some(log) = &args.log {
        return attach(args, path, log, blocks, out);
    }
    let mut image = image::create(path, &options)?;
    let superblock = read_superblock(&mut image).map_err(|error| image.blame(error))?;
    writeln!(
        out,
        "{}: {} volume of {}, image of {}",
        path.display(),
        Kind::of(&superblock),
        Size::from_blocks(superblock.blocks),
        Size::from_blocks(image.blocks())
    )?;
    if kind == Kind::LOGE && !headers && !image.is_block_device() {
        out.flush()?;
        crate::term::say(
            "note: with `serve --disk` this volume is slower than one in place; for that use make \
             it with --headers",
        );
    }
    Ok(())
}

/// Makes an array and a volume on it.
fn array(args: &Args, level: Level, out: &mut dyn Write) -> Outcome {
    let chunk = u32::try_from(args.chunk.blocks()).unwrap_or(u32::MAX);
    let options = CreateArrayOptions {
        level,
        chunk,
        kind: args.layout,
        blocks: args.size.map(Size::blocks),
        force: args.force,
        options: args.layout_flags.options.clone(),
    };
    let (members, superblock) = create_array(&args.images, &options)?;
    let geometry = members.superblock().geometry;
    writeln!(
        out,
        "{level} of {} members, chunks of {}: {} volume of {}, members of {}",
        geometry.members,
        Size::from_blocks(u64::from(geometry.chunk)),
        Kind::of(&superblock),
        Size::from_blocks(superblock.blocks),
        Size::from_blocks(members.superblock().device_blocks())
    )?;
    Ok(())
}

/// Refuses options of the layout that do not go together with the rest.
fn refuse_combinations(args: &Args) -> Outcome {
    let given = |name| args.layout_flags.options.names().any(|one| one == name);
    let refuse = |problem: String| Err(Failure::usage(problem).hint("leave one of the two out"));
    if given("sparse") && args.size.is_none() {
        return Err(
            Failure::usage("--sparse: the size of the volume is missing").hint("add --size")
        );
    }
    let cannot = [
        (args.raid.is_some(), "--raid", &["sparse", "segment", "log-size"][..]),
        (args.log.is_some(), "--log", &["sparse"]),
        (given("table"), "--table", &["sparse"]),
    ];
    for (is_given, flag, others) in cannot {
        if let Some(other) = others.iter().find(|other| is_given && given(other)) {
            return refuse(format!("{flag} does not go together with --{other}"));
        }
    }
    Ok(())
}

/// Attaches a log to a disk whose content stays.
fn attach(
    args: &Args,
    origin: &Path,
    log: &Path,
    blocks: Option<u64>,
    out: &mut dyn Write,
) -> Outcome {
    if args.layout != Kind::DCD {
        let reason =
            format!("--log: a volume of layout {} has no log on a device of its own", args.layout);
        return Err(Failure::usage(reason).hint("--layout dcd has one"));
    }
    let options = args.layout_flags.options.clone();
    let log_blocks = options.get(&LOG_SIZE);
    let options = AttachOptions { blocks, log_blocks, options, force: args.force };
    image::attach(origin, log, &options)?;
    writeln!(
        out,
        "{}: origin of a dcd volume with its log in {}; serve it with --log",
        origin.display(),
        log.display()
    )?;
    Ok(())
}
