//! Mounting: reads the superblock and the maps, and marks the file system as in use.
//!
//! A mount for writing refuses a file system that was not unmounted: only a check knows what a
//! crash has left. Soft updates leave no damage, so a file system that was mounted with them is
//! mounted with them again at once; what has leaked is freed while it is mounted
//! ([`crate::ffs::reclaim`]). So it is with transactions of the volume. With a log, the mount
//! recovers first ([`crate::ffs::journal`]).
//! Otherwise no policy takes over from another one without a repair. A mount
//! that only reads takes it as it is and writes nothing. It needs the first superblock or a copy.
//!
//! A group with damaged maps is closed: its files can be read and written, but nothing is allocated
//! in it, and what is freed in it stays marked as used. The unmount then leaves the mark of an
//! error, so that the next mount for writing asks for a check.

use crate::error::{FsError, is_damage};
use crate::ffs::calls::personality::{Ffs, Format};
use crate::ffs::calls::piece::Piece;
use crate::ffs::journal::file::LogFile;
use crate::ffs::journal::held::{self, may_hold_groups};
use crate::ffs::journal::recover::recover;
use crate::ffs::offline::superblocks;
use crate::ffs::offline::superblocks::{Found, load};
use crate::ffs::ondisk::format::{
    LOG_IN_USE, PolicyAdvice, Recovery, SPARE_COPIES, SUPERBLOCK_AT, SUPERBLOCK_BLOCK, State,
    Superblock,
};
use crate::ffs::reclaim::Reclaim;
use crate::ffs::space::alloc::{group, inode as inode_alloc};
use crate::ffs::volume::Volume;
use crate::options::MountOptions;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::call::Ino;
use seekless_fs::core::Core;
use seekless_fs::core::page::Shape;
use seekless_fs::core::tx::CoreTx;
use seekless_fs::log::Space;
use seekless_fs::mounted::Mounted;
use seekless_fs::policy::journal::{Journal, OpenLog};
use seekless_fs::policy::ordered::Ordered;
use seekless_fs::policy::{Policy, PolicyKind, atomic};
use seekless_fs::tx::Stop;
use std::sync::Arc;

/// Mounts the file system on a disk. The file system sends its requests to the same volume
/// afterwards, as port 0.
///
/// # Errors
/// Those of [`load`]; for writing also [`FsError::LostSuperblock`],
/// [`FsError::ReadOnlyFeatures`], [`FsError::NotClean`], [`FsError::OtherPolicy`],
/// [`FsError::MetDamage`], [`FsError::NoLog`], and those of [`recover`].
pub fn mount(disk: &mut dyn Disk, options: &MountOptions) -> Result<Ffs, FsError> {
    let found = load(disk)?;
    if options.core.read_only {
        return mount_to_read(disk, found, options);
    }
    check_writable(&found, options.policy)?;
    let Found { mut superblock, counter, .. } = found;
    let logged = options.policy.is_logged();
    if options.policy.wants_transactions() {
        let engine_blocks = u64::from(superblock.geometry()?.engine_blocks());
        let needed = atomic::needed_blocks(options.policy) * engine_blocks;
        let found = disk.transaction_blocks();
        if found < needed {
            let policy = options.policy;
            return Err(FsError::NeedsTransactions { policy, needed, found });
        }
    }
    if logged && (superblock.sizes.fragment_bytes as usize) < BLOCK_BYTES && !disk.takes_parts() {
        return Err(FsError::NeedsParts { fragment: superblock.sizes.fragment_bytes });
    }
    let recovered = logged.then(|| recover(disk, &superblock)).transpose()?;
    let after_crash = recovered.as_ref().filter(|_| superblock.state == State::InUse);
    let applied = after_crash.map(ToString::to_string);
    let log: Option<OpenLog> = recovered.map(OpenLog::from);
    let open = log.as_ref().map(open_of).unwrap_or_default();
    let policy = policy_of(options, log);
    let (mut core, mut volume) = parts(disk, &superblock, policy, options)?;
    // A log leaves nothing behind that is not in it.
    let leaks = superblock.state == State::InUse && !logged;
    if leaks {
        volume.follows_crash();
    }
    for group in 0..volume.geometry.groups() {
        load_group(&mut core, &mut volume, disk, group)?;
        // A transaction has the mark with the inode.
        if leaks && !options.policy.wants_transactions() {
            let raise = &mut |tx: &mut CoreTx<'_>, volume: &mut Volume| {
                inode_alloc::raise_mark(tx, volume, group)
            };
            step(&mut core, &mut volume, disk, raise)?;
        }
    }
    for &space in &open.0 {
        owe(&mut volume, space);
    }
    let counter = counter.wrapping_add(1);
    superblock.compatible |= SPARE_COPIES;
    superblocks::complete(disk, &superblock)?;
    mark_in_use(&mut superblock, options);
    write(disk, &superblock, counter)?;
    if leaks {
        let log = LogFile::of(&superblock)?.map(|file| file.fragments);
        let reclaim = Reclaim::new(&volume.geometry).with_log(log.unwrap_or_default());
        volume.reclaim = Some(Box::new(reclaim));
    }
    let format = Format::new(volume, superblock, counter, leaks).with_recovered(applied);
    let mut mounted = Mounted::new(core, format);
    mounted.delete_orphans(open.1.into_iter().map(Ino::from));
    Ok(mounted)
}

/// What a recovery has left to be freed: space, and inodes without a name.
fn open_of(log: &OpenLog) -> (Vec<Space>, Vec<u32>) {
    (log.intents.clone(), log.orphans.clone())
}

/// Space that the policy hands back later is free for users already.
fn owe(volume: &mut Volume, (what, first, count): Space) {
    volume.change_owed(|owed| match Piece::of_space((what, first, count)) {
        Piece::Fragments { count, .. } => owed.fragments += u64::from(count),
        _ => owed.inodes += 1,
    });
    volume.commit();
}

/// Mounts without a write: what the log holds is seen through an overlay. A log that cannot be used
/// is damage, which the mount names.
fn mount_to_read(
    disk: &mut dyn Disk,
    found: Found,
    options: &MountOptions,
) -> Result<Ffs, FsError> {
    let has_log = may_hold_groups(&found);
    let Found { superblock, counter, .. } = found;
    let held = match has_log.then(|| held::read(disk, &superblock, true)).transpose() {
        Err(error @ FsError::Io(_)) => return Err(error),
        held => held,
    };
    let damage = match &held {
        Ok(held) => {
            held.as_ref().filter(|held| held.damage.is_some()).map(|held| held.report().to_string())
        }
        Err(error) => Some(error.to_string()),
    };
    // Nothing is written, so nothing is ordered.
    let policy = PolicyKind::Async.policy();
    let (mut core, mut volume) = parts(disk, &superblock, policy, options)?;
    let recovers = superblock.recovers_from_log() && damage.is_none();
    let leaks = superblock.state == State::InUse && !recovers;
    if leaks {
        volume.follows_crash();
    }
    if let Ok(Some(held)) = held {
        core.read_through(Arc::new(held.patches));
    }
    for group in 0..volume.geometry.groups() {
        load_group(&mut core, &mut volume, disk, group)?;
    }
    let format = Format::new(volume, superblock, counter.wrapping_add(1), leaks);
    Ok(Mounted::new(core, format.with_log_damage(damage)))
}

/// The core and the volume of a mount, with nothing loaded.
fn parts(
    disk: &dyn Disk,
    superblock: &Superblock,
    policy: Box<dyn Policy>,
    options: &MountOptions,
) -> Result<(Core, Volume), FsError> {
    let geometry = superblock.geometry()?;
    let shape = Shape {
        block_bytes: geometry.block_bytes(),
        fragment_bytes: geometry.fragment_bytes(),
        mixed: geometry.fragments_per_block() > 1,
        engine_blocks: disk.blocks(),
    };
    let sealer = Arc::new(superblock.sealer());
    Ok((Core::new(shape, sealer, policy, options.core), Volume::new(superblock)?))
}

/// The policy of a mount that writes.
fn policy_of(options: &MountOptions, log: Option<OpenLog>) -> Box<dyn Policy> {
    match log {
        Some(log) => Box::new(Journal::new(options.policy, options.journal, log)),
        None if options.policy.wants_transactions() => {
            Box::new(atomic::Atomic::new(options.policy, options.journal.group_commit))
        }
        None if options.core.data_order => options.policy.policy(),
        None => Box::new(Ordered::new(options.policy).without_data_order()),
    }
}

/// What must run after a crash of a mount with this policy.
fn recovery_of(policy: PolicyKind) -> Recovery {
    match policy {
        PolicyKind::Soft | PolicyKind::Atomic | PolicyKind::Unit => Recovery::None,
        PolicyKind::Async | PolicyKind::Sync => Recovery::Fsck,
        PolicyKind::LffsFile
        | PolicyKind::Wafs1Sync
        | PolicyKind::Wafs1Async
        | PolicyKind::Wafs2Sync
        | PolicyKind::Wafs2Async => Recovery::Log,
    }
}

fn mark_in_use(superblock: &mut Superblock, options: &MountOptions) {
    superblock.recovery = recovery_of(options.policy);
    if options.policy.is_logged() {
        superblock.incompatible |= LOG_IN_USE;
    }
    superblock.mounted_with = Some(options.policy.into());
    superblock.state = State::InUse;
    superblock.mounts = superblock.mounts.wrapping_add(1);
    superblock.mounted = options.now;
    superblock.written = options.now;
}

/// Refuses a file system that must not be written.
fn check_writable(found: &Found, policy: PolicyKind) -> Result<(), FsError> {
    let Found { superblock, at, .. } = found;
    let (left_sound, asked) = (superblock.recovery == Recovery::None, policy);
    let leaves_sound = recovery_of(asked) == Recovery::None;
    let left = match superblock.mounted_with.map(PolicyAdvice::kind) {
        // A version that did not note the policy told soft updates apart.
        None => left_sound.then_some(PolicyKind::Soft),
        left => left,
    };
    if *at != SUPERBLOCK_AT {
        return Err(FsError::LostSuperblock { at: *at });
    }
    if asked.is_logged() && !superblock.log.serves(asked) {
        return Err(FsError::NoLog(asked));
    }
    match (superblock.read_only, superblock.state) {
        (0, State::Clean) => Ok(()),
        // What is in a log does not depend on when calls were answered.
        (0, State::InUse) if superblock.recovers_from_log() && asked.is_logged() => Ok(()),
        (0, State::InUse) => match left.filter(|&left| left != asked) {
            Some(left) => Err(FsError::OtherPolicy { left, asked }),
            // Soft updates and transactions leave nothing behind but space that is not in use.
            None if left_sound && leaves_sound => Ok(()),
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
            Err(_) => {
                tx.undo();
                volume.roll_back();
                return Ok(false);
            }
        }
    }
}
