//! Mounting: reads the superblock and the maps, and marks the file system as in use.
//!
//! A mount for writing refuses a file system that was not unmounted: only a check knows what a
//! crash has left. Soft updates leave no damage, so a file system that was mounted with them is
//! mounted with them again at once; what has leaked is freed while it is mounted
//! ([`crate::ffs::reclaim`]). No policy takes over from another one without a repair. A mount
//! that only reads takes it as it is and writes nothing. It needs the first superblock or a copy.
//!
//! A group with damaged maps is closed: its files can be read and written, but nothing is allocated
//! in it, and what is freed in it stays marked as used. The unmount then leaves the mark of an
//! error, so that the next mount for writing asks for a check.

use crate::error::{FsError, is_damage};
use crate::ffs::calls::personality::{Ffs, Format};
use crate::ffs::offline::superblocks;
use crate::ffs::offline::superblocks::{Found, load};
use crate::ffs::ondisk::format::{
    PolicyAdvice, Recovery, SPARE_COPIES, SUPERBLOCK_AT, SUPERBLOCK_BLOCK, State, Superblock,
};
use crate::ffs::reclaim::Reclaim;
use crate::ffs::space::alloc::{group, inode as inode_alloc};
use crate::ffs::volume::Volume;
use crate::options::MountOptions;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_fs::core::Core;
use seekless_fs::core::page::Shape;
use seekless_fs::core::tx::CoreTx;
use seekless_fs::mounted::Mounted;
use seekless_fs::policy::PolicyKind;
use seekless_fs::tx::Stop;
use std::sync::Arc;

/// Mounts the file system on a disk. The file system sends its requests to the same volume
/// afterwards, as port 0.
///
/// # Errors
/// Those of [`load`]; for writing also [`FsError::LostSuperblock`],
/// [`FsError::ReadOnlyFeatures`], [`FsError::NotClean`], [`FsError::OtherPolicy`],
/// [`FsError::MetDamage`].
pub fn mount(disk: &mut dyn Disk, options: &MountOptions) -> Result<Ffs, FsError> {
    let found = load(disk)?;
    let writes = !options.core.read_only;
    if writes {
        check_writable(&found, options.policy)?;
    }
    let Found { mut superblock, counter, .. } = found;
    let geometry = superblock.geometry()?;
    let shape = Shape {
        block_bytes: geometry.block_bytes(),
        fragment_bytes: geometry.fragment_bytes(),
        mixed: geometry.fragments_per_block() > 1,
        engine_blocks: disk.blocks(),
    };
    let sealer = Arc::new(superblock.sealer());
    let policy = options.policy.policy();
    let mut core = Core::new(shape, sealer, policy, options.core);
    let mut volume = Volume::new(&superblock)?;
    if superblock.state == State::InUse {
        volume.follows_crash();
    }
    for group in 0..geometry.groups() {
        load_group(&mut core, &mut volume, disk, group)?;
        if writes && superblock.state == State::InUse {
            let raise = &mut |tx: &mut CoreTx<'_>, volume: &mut Volume| {
                inode_alloc::raise_mark(tx, volume, group)
            };
            step(&mut core, &mut volume, disk, raise)?;
        }
    }
    let counter = counter.wrapping_add(1);
    let leaks = superblock.state == State::InUse;
    if writes {
        superblock.compatible |= SPARE_COPIES;
        superblocks::complete(disk, &superblock)?;
        superblock.recovery = match options.policy {
            PolicyKind::Soft => Recovery::None,
            PolicyKind::Async | PolicyKind::Sync => Recovery::Fsck,
            _ => Recovery::Log,
        };
        superblock.mounted_with = Some(options.policy.into());
        superblock.state = State::InUse;
        superblock.mounts = superblock.mounts.wrapping_add(1);
        superblock.mounted = options.now;
        superblock.written = options.now;
        write(disk, &superblock, counter)?;
    }
    if leaks && writes {
        let reclaim = Reclaim::new(&volume.geometry);
        volume.reclaim = Some(Box::new(reclaim));
    }
    Ok(Mounted::new(core, Format::new(volume, superblock, counter, leaks)))
}

/// Refuses a file system that must not be written.
fn check_writable(found: &Found, policy: PolicyKind) -> Result<(), FsError> {
    let Found { superblock, at, .. } = found;
    let (left_soft, asked) = (superblock.recovery == Recovery::None, policy);
    let left = match superblock.mounted_with.and_then(PolicyAdvice::kind) {
        // A version that did not note the policy told soft updates apart.
        None => left_soft.then_some(PolicyKind::Soft),
        left => left,
    };
    if *at != SUPERBLOCK_AT {
        return Err(FsError::LostSuperblock { at: *at });
    }
    match (superblock.read_only, superblock.state) {
        (0, State::Clean) => Ok(()),
        (0, State::InUse) => match left.filter(|&left| left != asked) {
            Some(left) => Err(FsError::OtherPolicy { left, asked }),
            // Soft updates leave nothing behind but space that is not in use.
            None if left_soft && asked == PolicyKind::Soft => Ok(()),
            None => Err(FsError::NotClean),
        },
        (0, State::Error) => Err(FsError::MetDamage),
        (features, _) => Err(FsError::ReadOnlyFeatures(features)),
    }
}

/// Writes the superblock; it is durable afterwards.
fn write(disk: &mut dyn Disk, superblock: &Superblock, counter: u16) -> Result<(), IoError> {
    let block = superblock.encode(SUPERBLOCK_AT, counter);
    disk.write(SUPERBLOCK_BLOCK, seekless_engine::data::Data::bytes(block))?;
    disk.flush_for(Edge::MountMark)
}

/// Loads the summary of a group, or closes the group if its maps are damaged or unreadable.
fn load_group(
    core: &mut Core,
    volume: &mut Volume,
    disk: &mut dyn Disk,
    number: u32,
) -> Result<(), FsError> {
    let loaded = step(core, volume, disk, &mut |tx, volume| group::load(tx, volume, number))?;
    if loaded {
        return Ok(());
    }
    // The header may be whole. Without it, each inode of the table may be in use.
    let mut mark = volume.geometry.sizes().inodes_per_group;
    step(core, volume, disk, &mut |tx, volume| {
        mark = group::mark(tx, volume, number)?;
        Ok(())
    })?;
    volume.close_group(number, mark);
    Ok(())
}

/// Runs an operation of the mount, and reads what it misses; false if it met damage.
fn step(
    core: &mut Core,
    volume: &mut Volume,
    disk: &mut dyn Disk,
    run: &mut dyn FnMut(&mut CoreTx<'_>, &mut Volume) -> Result<(), Stop>,
) -> Result<bool, FsError> {
    loop {
        let mut tx = CoreTx::new(core, 0);
        match run(&mut tx, volume) {
            Ok(()) => {
                tx.commit(0);
                volume.commit();
                core.relieve();
                return Ok(true);
            }
            Err(mut stop @ Stop::Miss(_)) => {
                tx.add_expected(&mut stop);
                tx.undo();
                volume.roll_back();
                let Stop::Miss(wanted) = stop else { continue };
                for (block, kind) in wanted {
                    match core.read_now(block, kind, disk) {
                        Err(error) if is_damage(&error) => return Ok(false),
                        read => read?,
                    }
                }
            }
            Err(Stop::Refused(_) | Stop::Busy(_) | Stop::NoRoom | Stop::Guarded(_)) => {
                tx.undo();
                volume.roll_back();
                return Ok(false);
            }
        }
    }
}
