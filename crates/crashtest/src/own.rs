//! File systems of Seekless under crash test: no kernel file system and no loop device.
//!
//! The workload runs on a file system that this process serves through FUSE, over a volume in
//! memory that records ([`device`], [`run`]). A crash state is an image in memory: it is recovered
//! as its owner would recover it ([`recover`]) and shown to the check as a directory ([`check`]),
//! unless a state with an equal tree was. Where this process may not mount, its tree is copied to a
//! plain directory ([`mod@tree`]).
//! [`crate::calls`] records calls in place of blocks, and replays them under each policy.

pub mod check;
pub mod device;
pub mod policy;
pub mod recover;
pub mod run;
pub mod tree;

use crate::file_system::MakeError;
use crate::sandbox::Mounting;
use policy::OwnPolicy;
use seekless_engine::disk::Disk;
use seekless_engine::units::BLOCK_BYTES;
use seekless_formats::{FsError, Kind, MkfsOptions, MountedFs};
use seekless_fs::call::Timestamp;
use seekless_fs::core::CoreOptions;
use seekless_serve::files::{Volume, VolumeOptions};
use std::path::Path;
use std::time::SystemTime;

/// What names of formats begin with in `--fs`.
pub const PREFIX: &str = "seekless:";
/// The kind of a [`Mounting`] whose descriptor is a mount, not a file.
pub const ATTACHED: &str = "seekless";
/// Bytes of the cache of a mounted state.
const CACHE_BYTES: u64 = 16 << 20;

/// How a worker attaches a mount that it is given.
pub fn mounting() -> Mounting {
    Mounting { kind: ATTACHED.to_owned(), flags: 0, options: String::new() }
}

/// Makes a file system in an image, with a log if the policy keeps one.
///
/// # Errors
/// If the image cannot be used, or is too small.
pub fn make(kind: Kind, policy: OwnPolicy, image: &Path) -> Result<(), MakeError> {
    let failed = |error: String| MakeError::Own { path: image.display().to_string(), error };
    let options = VolumeOptions::new(vec![image.to_owned()], false);
    let mut volume = Volume::open(&options).map_err(|error| failed(error.to_string()))?;
    let policy = policy.kind;
    // The more writes the log has, the more there is to cut.
    let journal_unit = BLOCK_BYTES as u32;
    let options = MkfsOptions { policy, journal_unit, now: wall_clock(), ..MkfsOptions::default() };
    let made = (kind.mkfs)(&mut volume, &options);
    let closed = volume.close();
    made.map_err(|error| failed(error.to_string()))?;
    closed.map_err(|error| failed(error.to_string()))
}

/// Mounts a file system that is clean, or that its policy mounts after a crash.
///
/// # Errors
/// Those of the format's mount.
pub(crate) fn mount(
    disk: &mut dyn Disk,
    policy: OwnPolicy,
    now: Timestamp,
) -> Result<Box<dyn MountedFs>, FsError> {
    let core = CoreOptions { cache_bytes: CACHE_BYTES, ..CoreOptions::default() };
    (Kind::of(disk)?.mount)(disk, &policy.mount_options(core, now))
}

/// Nanoseconds since the epoch.
pub(crate) fn wall_clock() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::try_from(elapsed.as_nanos()).unwrap_or(Timestamp::MAX)
}
