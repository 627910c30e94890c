//! How late metadata reaches the disk, and how long a mount takes after a crash.
//!
//! The power fails when nothing is on its way: the disk then has what completed, and a mount finds
//! a log that nothing has moved the start of.

use super::driver::{FilesDriver, FilesError, Next, Program};
use crate::sim::Target;
use bytes::Bytes;
use seekless_engine::device::medium::Cells;
use seekless_engine::units::{SECONDS, Time};
use seekless_formats::{FsError, Kind, MkfsOptions, MountOptions, MountedFs};
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Credentials, Errno, Ino, New, ROOT, Reply, Request};
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::JournalOptions;
use seekless_fs::system::FileSystem as _;
use serde::{Deserialize, Serialize};

/// Blocks of the volume: 2 GiB, of which little is written.
const BLOCKS: u64 = 512 << 10;
/// Idleness before the crash: longer than a log waits, and shorter than blocks do.
const BEFORE_CRASH: Time = 2 * SECONDS;
/// A file system that has not written everything after so long never does.
const MOST_AGE_S: u64 = 600;

/// What is measured.
#[derive(Clone, Debug)]
pub struct RecoveryOptions {
    /// The format.
    pub file_system: Kind,
    /// How writes of metadata are ordered.
    pub policy: PolicyKind,
    /// How the log is written, if the policy keeps one.
    pub journal: JournalOptions,
    /// Sizes of the file system.
    pub mkfs: MkfsOptions,
    /// Empty files that are made before the crash.
    pub files: u32,
    /// Directories that are made one in the other before the files.
    pub depth: u32,
    /// As [`CoreOptions::write_age_s`].
    pub write_age_s: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveryReport {
    /// Bytes that the log holds at the crash.
    pub log_bytes: f64,
    /// Milliseconds of the mount after it; none if only a check may follow.
    pub mount_ms: Option<f64>,
    /// Seconds from the last call until everything is on the disk, without a crash.
    pub age_seconds: f64,
    /// Blocks that were written meanwhile.
    pub blocks: f64,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The file system cannot be made or mounted.
    #[error(transparent)]
    FileSystem(#[from] FsError),
    /// The program came to a halt.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A call of the program failed.
    #[error("a call of the program failed: {0}")]
    Call(Errno),
    /// Something is never written.
    #[error("changes are in memory only, {0} seconds after the last call")]
    NeverWritten(u64),
}

/// Makes files, and mounts after a crash; and again without one, to see when all is written.
///
/// # Errors
/// [`RecoveryError`].
pub fn run(target: &Target, options: &RecoveryOptions) -> Result<RecoveryReport, RecoveryError> {
    let (log_bytes, mount_ms) = mounted_after_crash(target, options)?;
    let mut settled = worked(target, options)?;
    let before = stat(&settled, "blocks written");
    let mut age = 0;
    while settled.fs().unwritten_bytes() > 0 {
        if age == MOST_AGE_S {
            return Err(RecoveryError::NeverWritten(age));
        }
        settled.idle(SECONDS)?;
        age += 1;
    }
    let blocks = stat(&settled, "blocks written") - before;
    Ok(RecoveryReport { log_bytes, mount_ms, age_seconds: age as f64, blocks })
}

/// Bytes that the log holds at a crash, and milliseconds of the mount after it; none if only a
/// check may follow.
fn mounted_after_crash(
    target: &Target,
    options: &RecoveryOptions,
) -> Result<(f64, Option<f64>), RecoveryError> {
    let mut crashed = worked(target, options)?;
    crashed.idle(BEFORE_CRASH)?;
    let log_bytes = stat(&crashed, "log bytes");
    let (node, begun) = crashed.crash_at();
    let mount = mount_options(options, begun);
    let mounted = FilesDriver::mount_at(node, begun, |disk: &mut NodeDisk<'_>| {
        (options.file_system.mount)(disk, &mount)
    });
    match mounted {
        Ok(mounted) => Ok((log_bytes, Some((mounted.now() - begun) as f64 / 1e6))),
        Err(FsError::NotClean) => Ok((log_bytes, None)),
        Err(error) => Err(error.into()),
    }
}

type Driver = FilesDriver<Box<dyn MountedFs>>;

/// A file system in which the program has run.
fn worked(target: &Target, options: &RecoveryOptions) -> Result<Driver, RecoveryError> {
    let node = Plain::node(target.device(Box::new(Cells::new(BLOCKS))));
    let mkfs = MkfsOptions { policy: options.policy, ..options.mkfs.clone() };
    let mount = mount_options(options, 0);
    let mut driver: Driver = FilesDriver::mount(node, |disk: &mut NodeDisk<'_>| {
        (options.file_system.mkfs)(disk, &mkfs)?;
        (options.file_system.mount)(disk, &mount)
    })?;
    let mut maker = Maker { at: ROOT, depth: options.depth, files: options.files, failed: None };
    driver.run(&mut [&mut maker as &mut dyn Program], |_| {})?;
    match maker.failed {
        Some(errno) => Err(RecoveryError::Call(errno)),
        None => Ok(driver),
    }
}

fn mount_options(options: &RecoveryOptions, now: Time) -> MountOptions {
    let RecoveryOptions { policy, journal, write_age_s, .. } = *options;
    // Virtual time begins with the epoch.
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let core = CoreOptions { write_age_s, ..CoreOptions::default() };
    MountOptions { core, policy, journal, now }
}

fn stat(driver: &Driver, name: &str) -> f64 {
    driver.fs().stats().into_iter().find(|one| one.0 == name).map_or(0.0, |one| one.1)
}

/// Makes directories, one in the other, and files in the last one.
struct Maker {
    at: Ino,
    depth: u32,
    files: u32,
    failed: Option<Errno>,
}

impl Program for Maker {
    fn next(&mut self, reply: Option<Reply>, _now: Time) -> Next {
        match reply.map(|reply| reply.result) {
            Some(Err(errno)) => {
                self.failed = Some(errno);
                return Next::End;
            }
            Some(Ok(Answer::Object(attr, _))) if self.depth > 0 => {
                self.at = attr.ino;
                self.depth -= 1;
            }
            Some(Ok(_)) => self.files -= 1,
            None => {}
        }
        let (what, name) = match (self.depth, self.files) {
            (0, 0) => return Next::End,
            (0, left) => (New::File, format!("f{left}")),
            (left, _) => (New::Directory, format!("d{left}")),
        };
        let name = Bytes::from(name);
        let make = Request::Make { dir: self.at, name, what, mode: 0o755, open: false };
        Next::Call(Credentials::default(), make)
    }
}
