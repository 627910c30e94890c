//! Mounting: reads the superblock and the maps, and marks the file system as in use.
//!
//! A mount for writing refuses a file system that was not unmounted: only a check knows what a
//! crash has left. A mount that only reads takes it as it is and writes nothing.

use crate::call::Timestamp;
use crate::core::page::Shape;
use crate::core::tx::CoreTx;
use crate::core::{Core, CoreOptions};
use crate::ffs::alloc::group;
use crate::ffs::error::FsError;
use crate::ffs::format::{Recovery, SUPERBLOCK_AT, State, Superblock};
use crate::ffs::seal;
use crate::ffs::system::Ffs;
use crate::ffs::volume::Volume;
use crate::policy::none::Async;
use crate::tx::Stop;
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};

/// The block of the volume with the superblock.
pub(crate) const SUPERBLOCK_BLOCK: BlockNr = SUPERBLOCK_AT / BLOCK_BYTES as u64;

/// How to mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Cache and I/O.
    pub core: CoreOptions,
    /// The time, for the superblock.
    pub now: Timestamp,
}

impl Ffs {
    /// Mounts the file system on a disk. The file system sends its requests to the same volume
    /// afterwards, as port 0.
    ///
    /// # Errors
    /// What [`Superblock::decode`] says; [`FsError::NotClean`]; a volume that is shorter than the
    /// file system; errors of the volume.
    pub fn mount(disk: &mut dyn Disk, options: &MountOptions) -> Result<Ffs, FsError> {
        let (mut superblock, counter) = read(disk)?;
        let geometry = superblock.geometry()?;
        let found = disk.blocks() * BLOCK_BYTES as u64;
        if found < geometry.bytes() {
            return Err(FsError::Truncated { needed: geometry.bytes(), found });
        }
        let writes = !options.core.read_only;
        if writes && (superblock.state != State::Clean || superblock.read_only != 0) {
            return Err(match superblock.read_only {
                0 => FsError::NotClean,
                features => FsError::UnknownFeatures(features),
            });
        }
        let shape = Shape {
            block_bytes: geometry.block_bytes(),
            fragment_bytes: geometry.fragment_bytes(),
            mixed: geometry.fragments_per_block() > 1,
            engine_blocks: disk.blocks(),
        };
        let sealer = Box::new(superblock.sealer());
        let mut core = Core::new(shape, sealer, Box::new(Async), options.core);
        let mut volume = Volume::new(&superblock)?;
        for group in 0..geometry.groups() {
            load_group(&mut core, &mut volume, disk, group)?;
        }
        let counter = counter.wrapping_add(1);
        if writes {
            superblock.state = State::InUse;
            superblock.recovery = Recovery::Fsck;
            superblock.mounts = superblock.mounts.wrapping_add(1);
            superblock.mounted = options.now;
            superblock.written = options.now;
            write(disk, &superblock, counter)?;
        }
        Ok(Ffs::new(core, volume, superblock, counter))
    }
}

/// The superblock of a disk, and its write counter.
///
/// # Errors
/// Those of [`Superblock::decode`], and of the volume.
pub fn read(disk: &mut dyn Disk) -> Result<(Superblock, u16), FsError> {
    if disk.blocks() <= SUPERBLOCK_BLOCK {
        return Err(FsError::Foreign);
    }
    let bytes = disk.read(SUPERBLOCK_BLOCK, 1)?.to_bytes();
    let superblock = Superblock::decode(&bytes, SUPERBLOCK_AT)?;
    Ok((superblock, seal::counter(&bytes)))
}

/// Writes the superblock; it is durable afterwards.
fn write(disk: &mut dyn Disk, superblock: &Superblock, counter: u16) -> Result<(), IoError> {
    let block = superblock.encode(SUPERBLOCK_AT, counter);
    disk.write(SUPERBLOCK_BLOCK, seekless_engine::data::Data::bytes(block))?;
    disk.flush()
}

/// Loads the summary of a group; reads its maps if they are not cached.
fn load_group(
    core: &mut Core,
    volume: &mut Volume,
    disk: &mut dyn Disk,
    number: u32,
) -> Result<(), FsError> {
    loop {
        let mut tx = CoreTx::new(core, 0);
        match group::load(&mut tx, volume, number) {
            Ok(()) => {
                tx.commit(0);
                volume.commit();
                core.relieve();
                return Ok(());
            }
            Err(mut stop @ Stop::Miss(_)) => {
                tx.add_expected(&mut stop);
                tx.undo();
                volume.roll_back();
                let Stop::Miss(wanted) = stop else { continue };
                for (block, kind) in wanted {
                    core.read_now(block, kind, disk)?;
                }
            }
            Err(Stop::Refused(_) | Stop::Busy(_) | Stop::NoRoom) => {
                tx.undo();
                volume.roll_back();
                let what = format!("the maps of group {number} have bad seals");
                return Err(FsError::Damaged(what));
            }
        }
    }
}
