//! `seekless fs map`: where the bytes of a file lie in the volume, as FIEMAP tells elsewhere.

use super::ImageArgs;
use crate::failure::{Exit, Failure, Outcome};
use crate::filesystem::{blame, blame_device};
use seekless_engine::units::SECTOR_BYTES;
use seekless_formats::FsError;
use seekless_formats::ffs::offline::store::Store;
use seekless_formats::ffs::ondisk::format::SECTOR_ADDRESSES;
use seekless_formats::ffs::ondisk::inode::INODE_BYTES;
use seekless_formats::ffs::{self, Fragment, Inode, SealKind};
use seekless_fs::call::{FileKind, Ino};
use seekless_serve::files::Volume;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;

/// Arguments of `seekless fs map`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs map disk.img /var/db
  seekless fs map disk.img /var/db --json | jq 'map(select(.volume == null))'    # its holes

Offsets in the volume are those that clients of `seekless serve` use. Where a layout puts a block of
the volume is for the layout to say (`seekless dump`). For a mounted file system use SEEK_DATA and
SEEK_HOLE: the kernel offers no FIEMAP for file systems in user space.")]
pub struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// The file.
    #[arg(value_name = "PATH")]
    path: OsString,
    /// Print a JSON array of extents.
    #[arg(long)]
    json: bool,
}

/// Neighbouring bytes of a file that are neighbours in the volume, too, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Extent {
    /// Offset in the file.
    file: u64,
    /// Bytes.
    length: u64,
    /// Offset in the volume; none for a hole.
    volume: Option<u64>,
}

/// Prints the extents of a file.
///
/// # Errors
/// If there is no such file, or the image is unusable or in use.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let images = args.image.images();
    let mut found = None;
    args.image.with(true, &mut |files| {
        found = Some(files.resolve(args.path.as_bytes(), true)?);
        Ok(())
    })?;
    let Some(attr) = found.filter(|attr| attr.kind == FileKind::File) else {
        let cause = format!(":{}: it is no file", args.path.display());
        return Err(Failure::usage(cause).hint("name a file"));
    };
    let mut volume = args.image.volume.open(&images, true)?;
    let extents = extents(&mut volume, attr.ino).map_err(|error| blame(&images, &error));
    let closed = volume.close().map_err(|error| blame_device(&images, error));
    let Some(extents) = extents.and_then(|extents| closed.map(|()| extents))? else {
        let cause = format!(":{}: its inode is damaged", args.path.display());
        return Err(Failure::new(Exit::Image, cause).hint("run `seekless fsck --repair`"));
    };
    if args.json {
        let text = serde_json::to_string(&extents).map_err(std::io::Error::from)?;
        return Ok(writeln!(out, "{text}")?);
    }
    writeln!(out, "{:>16} {:>16} {:>20}", "file", "length", "volume")?;
    for Extent { file, length, volume } in extents {
        let place = volume.map_or_else(|| "hole".to_owned(), |at| at.to_string());
        writeln!(out, "{file:>16} {length:>16} {place:>20}")?;
    }
    Ok(())
}

/// The extents of a file up to its end; none if its inode is damaged.
fn extents(volume: &mut Volume, ino: Ino) -> Result<Option<Vec<Extent>>, FsError> {
    let superblock = ffs::load(volume)?.superblock;
    let geometry = superblock.geometry()?;
    let mut store = Store::new(volume, geometry, superblock.sealer());
    let number = u32::try_from(ino).unwrap_or(u32::MAX);
    let place = store.geometry.inode_place(number);
    let bytes = store.read(place.block, 1)?;
    if !store.is_whole(&bytes, place, SealKind::Inodes) {
        return Ok(None);
    }
    let inode = Inode::decode(&bytes[place.at..place.at + INODE_BYTES]);
    let count = inode.size_blocks(&store.geometry) as usize;
    let mut blocks = inode.direct.to_vec();
    for (level, &first) in inode.indirect.iter().enumerate() {
        if blocks.len() < count {
            indirect(&mut store, first, level, count, &mut blocks)?;
        }
    }
    blocks.truncate(count);
    let block_bytes = store.geometry.block_bytes() as u64;
    let mut extents: Vec<Extent> = Vec::new();
    for (index, &first) in (0_u64..).zip(&blocks) {
        let file = index * block_bytes;
        let length = block_bytes.min(inode.size - file);
        let volume =
            (first != 0).then(|| u64::from(first) * store.geometry.fragment_bytes() as u64);
        match extents.last_mut() {
            Some(last) if last.volume.map(|at| at + last.length) == volume => last.length += length,
            _ => extents.push(Extent { file, length, volume }),
        }
    }
    Ok(Some(extents))
}

/// Adds the addresses below an indirect block, or holes in their place.
fn indirect(
    store: &mut Store<'_>,
    first: Fragment,
    level: usize,
    most: usize,
    blocks: &mut Vec<Fragment>,
) -> Result<(), FsError> {
    let each = store.geometry.addresses_per_block();
    if !store.geometry.is_data(first, 1) {
        let below = each.saturating_pow(level as u32 + 1);
        let holes = below.min(most.saturating_sub(blocks.len()));
        blocks.resize(blocks.len() + holes, 0);
        return Ok(());
    }
    let bytes = store.read(store.geometry.block_of(first), 1)?;
    for index in 0..each {
        if blocks.len() >= most {
            break;
        }
        let at = index / SECTOR_ADDRESSES * SECTOR_BYTES + index % SECTOR_ADDRESSES * 4;
        let address = bytes[at..at + 4].try_into().map_or(0, Fragment::from_le_bytes);
        match level {
            0 => blocks.push(address),
            _ => indirect(store, address, level - 1, most, blocks)?,
        }
    }
    Ok(())
}
