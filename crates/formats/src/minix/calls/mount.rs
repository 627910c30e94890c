//! Mounting: reads the superblock and the maps. It writes nothing: the superblock has no mark that
//! says whether the file system is in use.
//!
//! So a mount cannot tell what a crash has left. Under `async` a check is due after each crash.
//! Transactions of the volume leave nothing behind but inodes without a name, of files that were
//! open or under deletion. A mount with them frees such inodes, unless a check finds more.

use super::personality::{Format, Minix};
use crate::error::{FsError, is_damage};
use crate::minix::inodes::outer;
use crate::minix::offline::check::check;
use crate::minix::ondisk::geometry::{Geometry, Map, load};
use crate::minix::ondisk::inode::{INODE_BYTES, Inode, ROOT_INODE};
use crate::minix::space::bits::count_free;
use crate::minix::volume::{Volume, Which};
use crate::options::MountOptions;
use crate::report::{Finding as _, Nature};
use seekless_engine::disk::Disk;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::call::Ino;
use seekless_fs::core::Core;
use seekless_fs::core::page::Shape;
use seekless_fs::mounted::Mounted;
use seekless_fs::policy::{Policy, PolicyKind, atomic};
use seekless_fs::seal::Unsealed;
use std::sync::Arc;

/// The policies that order nothing, and that hold back nothing but whole operations. The rules of
/// the others are those of FFS.
pub const POLICIES: [PolicyKind; 3] = [PolicyKind::Async, PolicyKind::Atomic, PolicyKind::Unit];

/// Mounts the file system on a disk. The file system sends its requests to the same volume
/// afterwards, as port 0.
///
/// # Errors
/// Those of [`load`]; [`FsError::BadMinix`] without a root directory; for writing also
/// [`FsError::NoPolicy`] and [`FsError::NeedsTransactions`].
pub fn mount(disk: &mut dyn Disk, options: &MountOptions) -> Result<Minix, FsError> {
    let geometry = load(disk)?;
    let read_only = options.core.read_only;
    if !read_only {
        check_policy(disk, options.policy)?;
    }
    let root = inode(disk, &geometry, ROOT_INODE)?;
    if !root.is_directory() || root.links == 0 {
        let mode = root.mode;
        return Err(FsError::BadMinix(format!("inode 1 has mode {mode:#o}, and is no directory")));
    }
    let mut volume = Volume::new(geometry);
    load_map(disk, &mut volume, Which::Inodes)?;
    load_map(disk, &mut volume, Which::Zones)?;
    let orphans = match options.policy.wants_transactions() && !read_only {
        true => orphans(disk, &mut volume)?,
        false => Vec::new(),
    };
    volume.commit();
    let shape = Shape {
        block_bytes: BLOCK_BYTES,
        fragment_bytes: geometry.zone_bytes(),
        mixed: geometry.zone_bytes() < BLOCK_BYTES,
        engine_blocks: disk.blocks(),
    };
    let core = Core::new(shape, Arc::new(Unsealed), policy_of(options), options.core);
    let mut mounted = Mounted::new(core, Format { volume });
    mounted.delete_orphans(orphans);
    Ok(mounted)
}

fn check_policy(disk: &dyn Disk, policy: PolicyKind) -> Result<(), FsError> {
    if !POLICIES.contains(&policy) {
        return Err(FsError::NoPolicy { kind: "Minix", asked: policy, has: &POLICIES });
    }
    let (needed, found) = (atomic::needed_blocks(policy), disk.transaction_blocks());
    if policy.wants_transactions() && found < needed {
        return Err(FsError::NeedsTransactions { policy, needed, found });
    }
    Ok(())
}

fn policy_of(options: &MountOptions) -> Box<dyn Policy> {
    match options.policy {
        // Nothing is written, so nothing is ordered.
        _ if options.core.read_only => PolicyKind::Async.policy(),
        policy if policy.wants_transactions() => {
            Box::new(atomic::Atomic::new(policy, options.journal.group_commit))
        }
        policy => policy.policy(),
    }
}

fn inode(disk: &mut dyn Disk, geometry: &Geometry, number: u32) -> Result<Inode, FsError> {
    let place = geometry.inode_place(number);
    let bytes = disk.read(place.page, 1)?.to_bytes();
    Ok(Inode::decode(&bytes[place.at..place.at + INODE_BYTES]))
}

/// Counts the free bits of a map. A page that cannot be read is closed.
fn load_map(disk: &mut dyn Disk, volume: &mut Volume, which: Which) -> Result<(), FsError> {
    let geometry = volume.geometry;
    let map = match which {
        Which::Inodes => geometry.imap(),
        Which::Zones => geometry.zmap(),
    };
    for index in 0..map.zones() {
        let place = geometry.place_of(map.first + index);
        match disk.read(place.page, 1) {
            Ok(data) => {
                let bytes = &data.to_bytes()[place.at..place.at + geometry.zone_bytes()];
                volume.load((which, index), count_free(&map, index, bytes));
            }
            Err(error) if is_damage(&error) => _ = volume.close(place.page),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Inodes that are in use and have no name, if they are all that a check finds.
fn orphans(disk: &mut dyn Disk, volume: &mut Volume) -> Result<Vec<Ino>, FsError> {
    let geometry = volume.geometry;
    let mut orphans = Vec::new();
    let map = geometry.imap();
    for index in 0..map.zones() {
        orphans_of(disk, &geometry, (&map, index), &mut orphans)?;
    }
    if orphans.is_empty() {
        return Ok(orphans);
    }
    let found = check(disk)?;
    match found.list.iter().find(|finding| finding.nature() != Nature::Leak) {
        None => Ok(orphans),
        Some(worse) => {
            volume.meets(format!("{worse}"));
            Ok(Vec::new())
        }
    }
}

/// Those of one zone of the map.
fn orphans_of(
    disk: &mut dyn Disk,
    geometry: &Geometry,
    (map, index): (&Map, u32),
    orphans: &mut Vec<Ino>,
) -> Result<(), FsError> {
    let place = geometry.place_of(map.first + index);
    let bytes = disk.read(place.page, 1)?.to_bytes();
    let bits = &bytes[place.at..place.at + geometry.zone_bytes()];
    let first = index * map.zone_bits;
    let mut page = None;
    for bit in 0..(map.bits - first).min(map.zone_bits) {
        let number = first + bit;
        if number == 0 || bits[bit as usize / 8] >> (bit % 8) & 1 == 0 {
            continue;
        }
        let place = geometry.inode_place(number);
        if page.as_ref().is_none_or(|(known, _)| *known != place.page) {
            page = Some((place.page, disk.read(place.page, 1)?.to_bytes()));
        }
        let inode =
            page.as_ref().map(|(_, bytes)| Inode::decode(&bytes[place.at..place.at + INODE_BYTES]));
        if inode.is_some_and(|inode| inode.links == 0 && inode.kind().is_some()) {
            orphans.push(outer(number));
        }
    }
    Ok(())
}
