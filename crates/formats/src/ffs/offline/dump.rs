//! Text about a file system for people: the superblock, the groups, an inode.
//!
//! A dump reads only what it prints, and what the log holds of it. A damaged part is named as
//! damaged.

use crate::error::FsError;
use crate::ffs::journal::held::held_by;
use crate::ffs::journal::overlay::Overlay;
use crate::ffs::offline::check::read_inode;
use crate::ffs::offline::store::Store;
use crate::ffs::offline::superblocks::{Found, load};
use crate::ffs::ondisk::format::Superblock;
use crate::ffs::ondisk::group::GroupHeader;
use crate::ffs::ondisk::inode::Inode;
use crate::ffs::ondisk::seal::SealKind;
use seekless_engine::disk::Disk;
use std::fmt::Write as _;

/// The superblock.
///
/// # Errors
/// No superblock, one that this program refuses, errors of the volume.
pub fn dump_superblock(disk: &mut dyn Disk) -> Result<String, FsError> {
    let Found { superblock, at, .. } = load(disk)?;
    let geometry = superblock.geometry()?;
    let Superblock { sizes, id, state, recovery, policy, mounts, .. } = &superblock;
    let mut out = String::new();
    line(&mut out, format_args!("superblock at byte {at}: FFS version 1, id {id:032x}"));
    line(&mut out, format_args!("label: \"{}\"", superblock.label.escape_ascii()));
    let bytes = geometry.bytes();
    let (block, fragment) = (sizes.block_bytes, sizes.fragment_bytes);
    line(
        &mut out,
        format_args!("size: {bytes} bytes, blocks of {block}, fragments of {fragment} bytes"),
    );
    let (groups, fragments) = (geometry.groups(), sizes.fragments_per_group);
    let inodes = sizes.inodes_per_group;
    line(
        &mut out,
        format_args!("groups: {groups}, each of {fragments} fragments and {inodes} inodes"),
    );
    let Superblock { minfree, maxcontig, maxbpg, optimisation, .. } = &superblock;
    line(
        &mut out,
        format_args!(
            "allocation: {minfree} % for root, clusters of {maxcontig} blocks, {maxbpg} blocks of \
             a file in a group, for {optimisation:?}"
        ),
    );
    line(&mut out, format_args!("state: {state:?}, recovery {recovery:?}, {mounts} mounts"));
    line(&mut out, format_args!("policy: {}", policy.name()));
    if let Some(range) = superblock.log_range()? {
        let (first, end, id) = (range.start, range.end, superblock.log.id);
        line(&mut out, format_args!("log: blocks {first} to {end} of the volume, id {id:032x}"));
    }
    let Superblock { made, mounted, written, .. } = &superblock;
    line(&mut out, format_args!("times (ns): made {made}, mounted {mounted}, written {written}"));
    Ok(out)
}

/// The headers of all groups, one a line.
///
/// # Errors
/// As for [`dump_superblock`].
pub fn dump_groups(disk: &mut dyn Disk) -> Result<String, FsError> {
    match &held_by(disk)? {
        Some(held) => groups_of(&mut Overlay::new(disk, &held.patches)),
        None => groups_of(disk),
    }
}

fn groups_of(disk: &mut dyn Disk) -> Result<String, FsError> {
    let mut store = opened(disk)?;
    let mut out = String::new();
    for group in 0..store.geometry.groups() {
        let place = store.geometry.header_of(group);
        let bytes = store.read(place.block, 1)?;
        let is_whole = store.is_whole(&bytes, place, SealKind::Map);
        let metadata = store.geometry.metadata_of(group);
        let (first, end) = (metadata.start, metadata.end);
        match GroupHeader::decode(&bytes).filter(|_| is_whole) {
            None => line(&mut out, format_args!("group {group}: the header is damaged")),
            Some(GroupHeader { counters, initialised, .. }) => line(
                &mut out,
                format_args!(
                    "group {group}: metadata {first} to {end}, {} directories, free {} blocks, {} \
                     fragments, {} inodes; {initialised} inodes initialised",
                    counters.directories,
                    counters.free_blocks,
                    counters.free_fragments,
                    counters.free_inodes,
                ),
            ),
        }
    }
    Ok(out)
}

/// An inode.
///
/// # Errors
/// As for [`dump_superblock`]; a number that no inode has.
pub fn dump_inode(disk: &mut dyn Disk, ino: u32) -> Result<String, FsError> {
    match &held_by(disk)? {
        Some(held) => inode_of(&mut Overlay::new(disk, &held.patches), ino),
        None => inode_of(disk, ino),
    }
}

fn inode_of(disk: &mut dyn Disk, ino: u32) -> Result<String, FsError> {
    let mut store = opened(disk)?;
    let most = store.geometry.inodes();
    if ino >= most {
        return Err(FsError::BadOption(format!(
            "there is no inode {ino}; use a number below {most}"
        )));
    }
    let place = store.geometry.inode_place(ino);
    let mut out = String::new();
    let (block, at) = (place.block, place.at);
    line(&mut out, format_args!("inode {ino} at block {block}, byte {at}"));
    let Some(inode) = read_inode(&mut store, ino)? else {
        line(&mut out, format_args!("not initialised, or damaged: the seal is bad"));
        return Ok(out);
    };
    let Inode { mode, links, uid, gid, flags, generation, size, sectors, .. } = inode;
    let kind = match inode.kind() {
        Some(kind) => format!("{kind:?}"),
        None => "free".to_string(),
    };
    line(&mut out, format_args!("kind: {kind}, mode {mode:#o}, links {links}"));
    line(&mut out, format_args!("owner {uid}, group {gid}, flags {flags:#x}"));
    line(&mut out, format_args!("generation {generation}, size {size}, sectors {sectors}"));
    let Inode { atime, mtime, ctime, btime, .. } = inode;
    line(
        &mut out,
        format_args!("times (ns): read {atime}, written {mtime}, changed {ctime}, made {btime}"),
    );
    if inode.has_blocks() {
        line(&mut out, format_args!("direct: {:?}", inode.direct));
        line(&mut out, format_args!("indirect: {:?}", inode.indirect));
    } else if inode.kind() == Some(seekless_fs::call::FileKind::Symlink) {
        line(&mut out, format_args!("text: \"{}\"", inode.short_text().escape_ascii()));
    }
    Ok(out)
}

fn opened(disk: &mut dyn Disk) -> Result<Store<'_>, FsError> {
    let superblock = load(disk)?.superblock;
    Ok(Store::new(disk, superblock.geometry()?, superblock.sealer()))
}

/// Adds a line. Writing to a string does not fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffs::kit::sample::{SHORT, SMALL, change_inode, geometry, sample};
    use seekless_engine::data::Data;
    use seekless_engine::disk::MediumDisk;

    #[test]
    fn the_sample_is_described() {
        let mut cells = sample(8192, 1024);
        let mut disk = MediumDisk(&mut cells);
        let text = dump_superblock(&mut disk).expect("whole");
        assert!(text.contains("blocks of 8192, fragments of 1024"), "{text}");
        assert!(text.contains("state: Clean"), "{text}");
        let text = dump_groups(&mut disk).expect("whole");
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("group 0") && text.contains("3 directories"), "{text}");
        let text = dump_inode(&mut disk, SMALL).expect("whole");
        assert!(text.contains("kind: File") && text.contains("size 8292"), "{text}");
        let text = dump_inode(&mut disk, SHORT).expect("whole");
        assert!(text.contains("text: \"abc\""), "{text}");
        assert!(dump_inode(&mut disk, u32::MAX).is_err());
    }

    #[test]
    fn damage_is_named() {
        let geometry = geometry(8192, 4096);
        let mut cells = sample(8192, 4096);
        change_inode(&mut cells, &geometry, SMALL, |inode| inode.mode = 0);
        let mut disk = MediumDisk(&mut cells);
        assert!(dump_inode(&mut disk, SMALL).expect("whole").contains("kind: free"));
        let block = geometry.maps_of(1) * 2;
        disk.write(block, Data::zeros(2)).expect("memory");
        assert!(dump_groups(&mut disk).expect("readable").contains("group 1: the header is"));
        disk.write(geometry.table_of(0) * 2, Data::zeros(2)).expect("memory");
        assert!(dump_inode(&mut disk, SMALL).expect("readable").contains("damaged"));
    }
}
