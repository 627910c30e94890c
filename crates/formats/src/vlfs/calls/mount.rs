//! Mounting: reads the superblock and what slices say of files without a name. It writes nothing.

use super::personality::{Format, Vlfs};
use crate::error::FsError;
use crate::options::MountOptions;
use crate::vlfs::numbers::own_of;
use crate::vlfs::ondisk::attributes::Inode;
use crate::vlfs::ondisk::slice::Slice;
use crate::vlfs::ondisk::superblock::load;
use crate::vlfs::ondisk::{ROOT_OBJECT, attributes_of, next_slice};
use crate::vlfs::volume::Volume;
use seekless_engine::disk::Disk;
use seekless_engine::objects::{SLICE_OBJECTS, WITHIN_BITS};
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::call::Ino;
use seekless_fs::core::Core;
use seekless_fs::core::page::Shape;
use seekless_fs::mounted::Mounted;
use seekless_fs::policy::{Policy, PolicyKind, patched};
use seekless_fs::seal::Unsealed;
use std::sync::Arc;

/// Whether calls that change names or inodes are answered at once, or when their transaction is
/// durable. A crash leaves the file system as it was after one of its operations under both.
pub const POLICIES: [PolicyKind; 2] = [PolicyKind::Async, PolicyKind::Sync];

/// Mounts the file system on a volume of objects. The file system sends its requests to the same
/// volume afterwards, as port 0.
///
/// # Errors
/// Those of [`load`]; [`FsError::BadVlfs`] without a root directory; for writing also
/// [`FsError::NoPolicy`] and [`FsError::NeedsTransactions`].
pub fn mount(disk: &mut dyn Disk, options: &MountOptions) -> Result<Vlfs, FsError> {
    load(disk)?;
    let read_only = options.core.read_only;
    if !read_only {
        check_policy(disk, options.policy)?;
    }
    let root = Inode::decode(&disk.read(attributes_of(ROOT_OBJECT), 1)?.to_bytes());
    if !root.is_directory() || root.links == 0 {
        let mode = root.mode;
        let why = format!("object {ROOT_OBJECT} has mode {mode:#o}, and is no directory");
        return Err(FsError::BadVlfs(why));
    }
    let mut volume = Volume::new(disk.blocks() >> WITHIN_BITS);
    let orphans = if read_only { Vec::new() } else { unnamed(disk, &mut volume)? };
    volume.commit();
    let shape = Shape {
        block_bytes: BLOCK_BYTES,
        fragment_bytes: BLOCK_BYTES,
        mixed: false,
        engine_blocks: disk.blocks(),
    };
    let core = Core::new(shape, Arc::new(Unsealed), policy_of(options), options.core);
    let mut mounted = Mounted::new(core, Format { volume });
    mounted.delete_orphans(orphans);
    Ok(mounted)
}

fn check_policy(disk: &dyn Disk, policy: PolicyKind) -> Result<(), FsError> {
    if !POLICIES.contains(&policy) {
        return Err(FsError::NoPolicy { kind: "VLFS", asked: policy, has: &POLICIES });
    }
    let (needed, found) = (patched::NEEDED_BLOCKS, disk.transaction_blocks());
    if found < needed || disk.patch_bytes() < patched::NEEDED_BYTES {
        return Err(FsError::NeedsTransactions { policy, needed, found });
    }
    Ok(())
}

fn policy_of(options: &MountOptions) -> Box<dyn Policy> {
    match options.core.read_only {
        // Nothing is written, so nothing is ordered.
        true => PolicyKind::Async.policy(),
        false => Box::new(patched::Patched::new(options.policy, options.journal.group_commit)),
    }
}

/// Files that lost their last name while they were open, before a crash.
fn unnamed(disk: &mut dyn Disk, volume: &mut Volume) -> Result<Vec<Ino>, FsError> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(slice) = next_slice(disk, from) {
        from = slice + 1;
        let own = own_of(slice);
        let bytes = disk.read(attributes_of(own), 1)?.to_bytes();
        let Some(says) = Slice::decode(&bytes) else {
            volume.meets(format!("object {own} says nothing possible of its slice"));
            continue;
        };
        for member in (0..SLICE_OBJECTS).filter(|member| says.unnamed >> member & 1 == 1) {
            let object = own + member;
            let inode = Inode::decode(&disk.read(attributes_of(object), 1)?.to_bytes());
            match inode.kind() {
                Some(_) if inode.links == 0 => found.push(Ino::from(object)),
                _ => volume.meets(format!("object {object} is noted as without a name")),
            }
        }
    }
    Ok(found)
}
