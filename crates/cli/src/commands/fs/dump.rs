//! `seekless fs dump`: the structures of a file system as text.

mod minix;

use super::ImageArgs;
use crate::failure::{Failure, Outcome};
use crate::files::list::{letter, permissions, time};
use crate::filesystem::{blame, blame_device, names};
use seekless_engine::disk::Disk as _;
use seekless_engine::io::IoError;
use seekless_engine::units::SECTOR_BYTES;
use seekless_formats::Kind;
use seekless_formats::ffs::{
    self, Geometry, GroupHeader, Inode, Place, SealKind, Sealer, Superblock,
};
use seekless_serve::files::Volume;
use std::io::Write;

/// Bytes of an inode; four lie in a sector.
const INODE_BYTES: usize = ffs::ondisk::inode::INODE_BYTES;

/// Arguments of `seekless fs dump`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs dump disk.img
  seekless fs dump disk.img --inode 2

SPEC.md describes every structure to the byte. The dump reads only what it prints, so it works on a
file system that `mount` refuses.")]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Print this inode instead of superblock and groups; may be repeated.
    #[arg(long, value_name = "NUMBER")]
    inode: Vec<u32>,
}

/// Prints the structures.
///
/// # Errors
/// If no superblock can be read, or the output cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let images = args.image.images();
    let mut volume = args.image.open(&images, true)?;
    let dumped = dump(args, &mut volume, out);
    let closed = volume.close().map_err(|error| blame_device(&images, error));
    dumped.and(closed)
}

fn dump(args: &Args, volume: &mut Volume, out: &mut dyn Write) -> Outcome {
    let images = args.image.images();
    let kind = Kind::of(volume).map_err(|error| blame(&images, &error))?;
    if kind.name == minix::NAME {
        return minix::dump(&images, &args.inode, volume, out);
    }
    if kind.needs_objects {
        let problem =
            format!("{}: {} has no structures beside its drive", names(&images), kind.title);
        return Err(Failure::usage(problem).hint("`seekless dump` shows those of the drive"));
    }
    let found = ffs::load(volume).map_err(|error| blame(&images, &error))?;
    let geometry = found.superblock.geometry().map_err(|error| blame(&images, &error))?;
    let sealer = found.superblock.sealer();
    if args.inode.is_empty() {
        superblock(&found.superblock, found.at, &geometry, out)?;
        for number in 0..geometry.groups() {
            let sector = sector(volume, &geometry, geometry.header_of(number));
            let header =
                whole(&sealer, sector, &geometry, geometry.header_of(number), SealKind::Map);
            group(number, header, &geometry, out)?;
        }
        return Ok(());
    }
    for number in &args.inode {
        if *number >= geometry.inodes() {
            let cause = format!("there is no inode {number}: {} are", geometry.inodes());
            return Err(Failure::usage(cause).hint("`seekless fs dump` shows the groups"));
        }
        let place = geometry.inode_place(*number);
        let read = sector(volume, &geometry, place);
        let read = whole(&sealer, read, &geometry, place, SealKind::Inodes);
        inode(*number, read, place, out)?;
    }
    Ok(())
}

/// The sector of a place.
fn sector(volume: &mut Volume, geometry: &Geometry, place: Place) -> Result<Vec<u8>, IoError> {
    let address = geometry.sector_of(place);
    let per_block = (seekless_engine::units::BLOCK_BYTES / SECTOR_BYTES) as u64;
    let block = volume.read(address / per_block, 1)?.to_bytes();
    let at = (address % per_block) as usize * SECTOR_BYTES;
    Ok(block[at..at + SECTOR_BYTES].to_vec())
}

/// A sector if its seal is right; else why there is none.
fn whole(
    sealer: &Sealer,
    read: Result<Vec<u8>, IoError>,
    geometry: &Geometry,
    place: Place,
    kind: SealKind,
) -> Result<Vec<u8>, String> {
    let sector = read.map_err(|error| format!("cannot be read: {error}"))?;
    match sealer.is_whole(&sector, geometry.sector_of(place), kind) {
        true => Ok(sector),
        false if sector.iter().all(|byte| *byte == 0) => Err("was never written".to_owned()),
        false => Err("is damaged: its seal is wrong".to_owned()),
    }
}

fn superblock(
    superblock: &Superblock,
    at: u64,
    geometry: &Geometry,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let Superblock { id, minfree, state, recovery, optimisation, .. } = superblock;
    let Superblock { maxcontig, maxbpg, mounts, made, mounted, written, .. } = superblock;
    let sizes = geometry.sizes();
    writeln!(out, "superblock at byte {at}: FFS, policy {}", superblock.policy.name())?;
    writeln!(out, "  id {id:032x}, label `{}`", String::from_utf8_lossy(&superblock.label))?;
    let (block, fragment) = (sizes.block_bytes, sizes.fragment_bytes);
    writeln!(out, "  blocks of {block} bytes, fragments of {fragment}, minfree {minfree} %")?;
    let (fragments, inodes) = (geometry.fragments(), geometry.inodes());
    writeln!(out, "  {fragments} fragments and {inodes} inodes in {} groups", geometry.groups())?;
    writeln!(out, "  {optimisation:?}, maxcontig {maxcontig}, maxbpg {maxbpg}")?;
    let (compatible, incompatible) = (superblock.compatible, superblock.incompatible);
    let read_only = superblock.read_only;
    writeln!(out, "  features {compatible:#x} {read_only:#x} {incompatible:#x}")?;
    writeln!(out, "  state {state:?}, recovery {recovery:?}, mounted {mounts} times")?;
    let (made, mounted, written) = (time(*made), time(*mounted), time(*written));
    writeln!(out, "  made {made}, mounted {mounted}, written {written} UTC")
}

fn group(
    number: u32,
    header: Result<Vec<u8>, String>,
    geometry: &Geometry,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let metadata = geometry.metadata_of(number);
    write!(out, "group {number}, metadata in fragments {}..{}", metadata.start, metadata.end)?;
    let header = match header.map(|sector| GroupHeader::decode(&sector)) {
        Ok(Some(header)) => header,
        Ok(None) => return writeln!(out, "; its header is that of no group"),
        Err(why) => return writeln!(out, "; its header {why}"),
    };
    let free = &header.counters;
    writeln!(out)?;
    writeln!(
        out,
        "  free: {} blocks, {} fragments, {} inodes; {} directories",
        free.free_blocks, free.free_fragments, free.free_inodes, free.directories
    )?;
    writeln!(
        out,
        "  rotors: block {}, fragment {}, inode {}; {} inodes initialised; written {} UTC",
        header.block_rotor,
        header.fragment_rotor,
        header.inode_rotor,
        header.initialised,
        time(header.written)
    )
}

fn inode(
    number: u32,
    sector: Result<Vec<u8>, String>,
    place: Place,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    write!(out, "inode {number} at byte {} of block {}", place.at, place.block)?;
    let sector = match sector {
        Ok(sector) => sector,
        Err(why) => return writeln!(out, ": its sector {why}"),
    };
    let at = place.at % SECTOR_BYTES;
    let inode = Inode::decode(&sector[at..at + INODE_BYTES]);
    let Some(kind) = inode.kind().filter(|_| !inode.is_free()) else {
        return writeln!(out, ": free, generation {}", inode.generation);
    };
    let Inode { mode, links, uid, gid, generation, size, sectors, .. } = inode;
    let (kind, mode) = (letter(kind), permissions(mode));
    writeln!(out, ": {kind}{mode}, {links} links, owner {uid}:{gid}, generation {generation}")?;
    writeln!(out, "  {size} bytes, {sectors} sectors of 512 bytes, flags {:#x}", inode.flags)?;
    let [atime, mtime] = [inode.atime, inode.mtime].map(time);
    writeln!(out, "  atime {atime}, mtime {mtime} UTC")?;
    let [ctime, btime] = [inode.ctime, inode.btime].map(time);
    writeln!(out, "  ctime {ctime}, btime {btime} UTC")?;
    if inode.has_blocks() {
        writeln!(out, "  direct {:?}", inode.direct)?;
        writeln!(out, "  indirect {:?}", inode.indirect)?;
    } else {
        writeln!(out, "  text `{}`", String::from_utf8_lossy(&inode.short_text()))?;
    }
    Ok(())
}
