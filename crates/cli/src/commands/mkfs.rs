//! `seekless mkfs`: makes a file system, and the volume below it if that is asked for.

use crate::failure::{Failure, Outcome};
use crate::filesystem::{
    JournalArgs, VolumeArgs, blame, blame_device, formats, names, policies, wall_clock,
};
use crate::making::{make_file, make_journal, refuse_content, refuse_journal};
use seekless_engine::disk::Disk as _;
use seekless_engine::size::{Size, parse_bytes};
use seekless_formats::{Kind as FsKind, MkfsOptions};
use seekless_fs::policy::PolicyKind;
use seekless_layouts::{Kind, read_superblock};
use seekless_serve::files::Volume;
use seekless_serve::image::{self, CreateOptions};
use std::io::Write;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

/// Arguments of `seekless mkfs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless mkfs disk.img --fs ffs --layout vlog --size 1G    # makes the volume, too
  seekless mkfs disk.img --fs ffs                            # on a volume that exists
  seekless mkfs plain.img --fs ffs --size 1G                 # in a file without a layout
  seekless mkfs disk.img --fs ffs --block 8k --fragment 1k --force
  sudo seekless mkfs /dev/sdb1 --fs ffs                      # all of a device
  sudo seekless mkfs /dev/sdb1 --fs ffs --layout vlog        # the same with a layout
  seekless mkfs a.img b.img c.img --fs ffs                   # on an array that exists
  seekless mkfs disk.img --fs vlfs --size 1G                 # with a drive of its own
  seekless mkfs floppy.img --fs minix --block 1k --size 1440k    # fsck.minix reads it, too
  seekless mkfs disk.img --policy wafs-1async --size 1G      # with a log: mounts in a second
  seekless mkfs disk.img --policy wafs-2async --size 1G --journal log.img --journal-size 64M

`seekless create` has more options for volumes and makes arrays.")]
pub struct Args {
    /// The image, file or block device; of an array all members, in any order.
    #[arg(required = true, value_name = "IMAGE")]
    image: Vec<PathBuf>,
    /// The kind of file system.
    #[arg(long, value_name = "KIND", default_value = "ffs", value_parser = formats())]
    fs: FsKind,
    /// How `mount` orders writes of metadata unless it is told otherwise.
    #[arg(long, value_name = "POLICY", default_value = "async", value_parser = policies())]
    policy: PolicyKind,
    #[command(flatten)]
    journal: JournalArgs,
    /// Size of the log. [default: 1 % of the volume, 4M to 128M; of a device of its own all of it,
    /// up to 128M]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    journal_size: Option<u64>,
    /// Bytes of the largest write of the log: 4k to 64k. What nothing waits for goes out in such
    /// units, or after a second.
    #[arg(long, value_name = "SIZE", default_value = "64k", value_parser = parse_bytes)]
    journal_unit: u64,
    /// Bytes of a block: of ffs 4k or 8k, of minix 1k, 2k or 4k. [default: ffs 8k, minix 4k]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    block: Option<u64>,
    /// Bytes of a fragment, the unit of space of ffs: a block or a half, quarter or eighth of one.
    /// [default: 4k]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    fragment: Option<u64>,
    /// Make an inode for each so many bytes of the volume. [default: ffs 16k, minix 12k]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bytes_per_inode: Option<u64>,
    /// Make so many inodes, rounded up to a whole block of them: minix only.
    #[arg(long, value_name = "N", conflicts_with = "bytes_per_inode")]
    inodes: Option<u32>,
    /// Percent of the space that only root may use: ffs only. [default: 8]
    #[arg(long, value_name = "PERCENT")]
    minfree: Option<u8>,
    /// A name for people, at most 32 bytes.
    #[arg(long, value_name = "NAME", default_value = "")]
    label: String,
    /// Make a volume of this layout first.
    #[arg(long, short, value_name = "LAYOUT")]
    layout: Option<Kind>,
    /// Size of the new volume; without --layout, of a new file without a layout. A block device
    /// has its own: then a volume gets all of it, less what its layout needs to work well.
    #[arg(long, short, value_name = "SIZE")]
    size: Option<Size>,
    #[command(flatten)]
    volume: VolumeArgs,
    /// Overwrite what is there.
    #[arg(long)]
    force: bool,
}

/// Makes the file system.
///
/// # Errors
/// If something is there already, the sizes are not possible, or the image is unusable or in use.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let options = options(args)?;
    let made = make_volume(args)?;
    let journal = make_journal(args.journal.journal.as_deref(), args.journal_size);
    let has_journal = matches!(journal, Ok(true));
    let outcome = journal.and_then(|_| make(args, options, made));
    if outcome.is_err() {
        // What did not exist before does not stay.
        let volume = args.image.first().filter(|_| made);
        let journal = args.journal.journal.as_ref().filter(|_| has_journal);
        for path in volume.into_iter().chain(journal) {
            let _ = std::fs::remove_file(path);
        }
    }
    writeln!(out, "{}: {}", names(&args.image), outcome?)?;
    Ok(())
}

fn make(args: &Args, mut options: MkfsOptions, fresh: bool) -> Result<String, Failure> {
    let how = args.volume.options(&args.image, false);
    let journal = args.journal.journal.as_ref();
    let journal = journal.map(|path| Volume::open_journal(&how, path)).transpose()?;
    let mut volume = Volume::open(&how)?;
    let own = volume.blocks();
    if !FsKind::possible_on(&volume).any(|kind| kind == args.fs) {
        let refused = refuse_kind(args);
        // The volume is left as it was found.
        let _ = volume.close();
        return Err(refused);
    }
    let mut made = match fresh || args.force {
        true => Ok(()),
        false => refuse_content(&args.image, &mut volume),
    };
    if let Some(journal) = journal {
        options.journal_blocks = Some(journal.blocks());
        volume = volume.join(journal, own)?;
        if let Some(path) = args.journal.journal.as_deref().filter(|_| made.is_ok() && !args.force)
        {
            made = refuse_journal((&args.image, path), own, &mut volume);
        }
    }
    let made = made.and_then(|()| {
        args.fs
            .erase_others(&mut volume)
            .and_then(|()| (args.fs.mkfs)(&mut volume, &options))
            .map_err(|error| blame(&args.image, &error))
    });
    // Also after an error: else the volume is left as after a crash.
    let closed = volume.close().map_err(|error| blame_device(&args.image, error));
    made.and_then(|report| closed.map(|()| report))
}

/// The volume holds objects, and the file system lies on blocks, or the other way round.
fn refuse_kind(args: &Args) -> Failure {
    let (names, title) = (names(&args.image), args.fs.title);
    match args.fs.needs_objects {
        true => {
            Failure::usage(format!("{names}: {title} lies on a drive of its own, with objects"))
                .hint("--size makes it, with --force in place of what is there")
        }
        false => Failure::usage(format!("{names} is the drive of a VLFS, {title} needs blocks"))
            .hint("use --fs vlfs, or make another volume: --layout LAYOUT --force"),
    }
}

fn options(args: &Args) -> Result<MkfsOptions, Failure> {
    let defaults = (args.fs.defaults)();
    let bytes = |named: Option<u64>, default: u32| named.map_or(Ok(default), u32::try_from);
    let units = [
        bytes(args.block, defaults.block),
        bytes(args.fragment, defaults.fragment),
        bytes(args.bytes_per_inode, defaults.bytes_per_inode),
    ];
    let [Ok(block), Ok(fragment), Ok(bytes_per_inode)] = units else {
        return Err(Failure::usage("a block, a fragment or the bytes of an inode are too many")
            .hint("use blocks of 4k or 8k"));
    };
    Ok(MkfsOptions {
        block,
        fragment,
        bytes_per_inode,
        inodes: args.inodes,
        minfree: args.minfree.unwrap_or(defaults.minfree),
        label: args.label.clone().into_bytes(),
        id: image::fresh_id().map_err(std::io::Error::from)?,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        now: wall_clock(),
        policy: args.policy,
        journal: args.journal_size,
        journal_unit: u32::try_from(args.journal_unit).unwrap_or(u32::MAX),
        ..defaults
    })
}

/// Makes the volume if that is asked for. True if its file is new.
fn make_volume(args: &Args) -> Result<bool, Failure> {
    if args.fs.needs_objects {
        return make_drive(args);
    }
    let flag = match (args.layout, args.size) {
        (None, None) => return Ok(false),
        (Some(_), _) => "--layout",
        (None, Some(_)) => "--size",
    };
    let [path] = args.image.as_slice() else {
        return Err(Failure::usage(format!("{flag}: only a volume in one image is made here"))
            .hint("make the array first: seekless create --raid"));
    };
    let existed = path.exists();
    if let Some(kind) = args.layout {
        let (blocks, force) = (args.size.map(Size::blocks), args.force);
        let options = Default::default();
        image::create(path, &CreateOptions { kind, blocks, force, headers: false, options })?;
        return Ok(!existed);
    }
    let Some(size) = args.size else { return Ok(false) };
    if existed {
        let problem = format!("{} exists, --size is for a new file", path.display());
        return Err(Failure::usage(problem).hint("leave out --size"));
    }
    make_file(path, size.bytes())?;
    Ok(true)
}

/// Makes the drive of a file system that has one of its own: in a new file of this size, on a
/// device, or where `--force` overwrites what is there. True if its file is new.
fn make_drive(args: &Args) -> Result<bool, Failure> {
    let title = args.fs.title;
    if args.layout.is_some() {
        return Err(Failure::usage(format!("--layout: {title} has a drive of its own"))
            .hint("leave out --layout"));
    }
    let [path] = args.image.as_slice() else {
        return Err(
            Failure::usage(format!("{title} lies in one image")).hint("give one file or device")
        );
    };
    let existed = path.exists();
    let is_device = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    let is_drive = existed
        && image::open(path, true).is_ok_and(|mut image| {
            read_superblock(&mut image).is_ok_and(|found| Kind::of(&found).has_objects())
        });
    let makes = args.size.is_some() || is_device && !is_drive;
    if !makes {
        return Ok(false);
    }
    let (blocks, force) = (args.size.map(Size::blocks), args.force);
    let options = Default::default();
    let drive = CreateOptions { kind: Kind::VLFS, blocks, force, headers: false, options };
    image::create(path, &drive)?;
    Ok(!existed)
}
