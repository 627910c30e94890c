//! The structures of Minix as text.

use crate::failure::{Failure, Outcome};
use crate::files::list::{letter, permissions, time};
use crate::filesystem::{blame, blame_device};
use seekless_engine::disk::Disk as _;
use seekless_formats::minix::ondisk::inode::{DIRECT, INODE_BYTES, timestamp};
use seekless_formats::minix::{Geometry, Inode, KIND, load};
use seekless_serve::files::Volume;
use std::io::Write;
use std::path::PathBuf;

/// The format.
pub const NAME: &str = KIND.name;

/// Prints the superblock, or inodes by their numbers on the disk.
pub fn dump(
    images: &[PathBuf],
    inodes: &[u32],
    volume: &mut Volume,
    out: &mut dyn Write,
) -> Outcome {
    let geometry = load(volume).map_err(|error| blame(images, &error))?;
    if inodes.is_empty() {
        return Ok(superblock(&geometry, out)?);
    }
    for &number in inodes {
        if number == 0 || number > geometry.inodes() {
            let cause = format!("there is no inode {number}: they go to {}", geometry.inodes());
            return Err(Failure::usage(cause).hint("inode 1 is the root directory"));
        }
        let place = geometry.inode_place(number);
        let bytes = volume.read(place.page, 1).map_err(|error| blame_device(images, error))?;
        let bytes = bytes.to_bytes();
        let found = Inode::decode(&bytes[place.at..place.at + INODE_BYTES]);
        inode((number, &found), place.page * 4096 + place.at as u64, out)?;
    }
    Ok(())
}

fn superblock(geometry: &Geometry, out: &mut dyn Write) -> std::io::Result<()> {
    let (zones, bytes) = (geometry.zones(), geometry.zone_bytes());
    writeln!(out, "superblock at byte 1024: Minix V3")?;
    writeln!(out, "  {zones} blocks of {bytes} bytes, {} inodes", geometry.inodes())?;
    let (imap, zmap) = geometry.map_zones();
    let (first_imap, first_zmap) = (geometry.imap().first, geometry.zmap().first);
    writeln!(out, "  map of inodes: {imap} blocks from {first_imap} on")?;
    writeln!(out, "  map of blocks: {zmap} blocks from {first_zmap} on")?;
    writeln!(
        out,
        "  inodes from block {} on, data from {}",
        geometry.table(),
        geometry.first_data()
    )?;
    writeln!(out, "  files of {} bytes at most", geometry.most_file_bytes())
}

fn inode((number, inode): (u32, &Inode), at: u64, out: &mut dyn Write) -> std::io::Result<()> {
    let Some(kind) = inode.kind() else {
        return writeln!(out, "inode {number} at byte {at}: free, mode {:#o}", inode.mode);
    };
    let Inode { mode, links, uid, gid, size, .. } = inode;
    let shown = format!("{}{}", letter(kind), permissions(*mode));
    writeln!(out, "inode {number} at byte {at}: {shown}, {links} links, owner {uid}:{gid}")?;
    let [read, changed, attributes] =
        [inode.atime, inode.mtime, inode.ctime].map(|seconds| time(timestamp(seconds)));
    writeln!(out, "  {size} bytes, read {read}, changed {changed}, attributes {attributes} UTC")?;
    let (direct, indirect) = inode.zones.split_at(DIRECT);
    writeln!(out, "  blocks {direct:?}, indirect {indirect:?}")
}
