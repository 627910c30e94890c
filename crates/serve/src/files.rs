//! File systems on volumes, mounted through `/dev/fuse`.
//!
//! Threads of `fuser` hear the kernel; one loop owns the file system, the volume and the clock.
//! A request goes `bridge` (a call is made of it) → `queue` → `driver` (the loop) → file system →
//! volume, and the reply back through `pending` (an answer is made of it). [`Volume`] is the volume
//! before and after: it is formatted, checked and repaired as a plain disk.

mod bridge;
mod driver;
mod leaving;
mod listing;
mod offline;
mod pending;
mod queue;
mod translate;
mod volume;

#[cfg(test)]
mod tests;

pub use driver::Ended;
pub use offline::Offline;
pub use volume::{Volume, VolumeOptions};

use crate::fuse::mount::{self, MountPoint, Right, Traits};
use bridge::Bridge;
use driver::Driver;
use fuser::{Config, Session, SessionACL};
use queue::Queue;
use seekless_engine::io::IoError;
use seekless_fs::system::FileSystem;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Threads that hear the kernel. They only hand requests on, so that few are enough.
const THREADS: usize = 2;
/// Bytes of entries that are listed at once.
const LIST_BYTES: u32 = 4096;

/// Stands between the images in the source of a mount.
const BETWEEN: char = '+';

/// Where and how a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The directory.
    pub point: PathBuf,
    /// The images below, which lists of mounts name as the source.
    pub images: Vec<PathBuf>,
    /// Changes are refused.
    pub read_only: bool,
}

/// Why a file system cannot be mounted, or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// There is no such directory.
    #[error("{} does not exist; make it with mkdir", .0.display())]
    NoDirectory(PathBuf),
    /// It is no directory.
    #[error("{} is not a directory; name one to mount at", .0.display())]
    NotDirectory(PathBuf),
    /// A mount whose process has ended is in the way.
    #[error(
        "{} is the mount point of a process that has ended; free it with fusermount3 -u {}",
        .0.display(),
        .0.display()
    )]
    Abandoned(PathBuf),
    /// The kernel has no FUSE.
    #[error("this machine has no /dev/fuse; load the kernel module: modprobe fuse")]
    NoFuse,
    /// The helper is missing.
    #[error("fusermount3 is not installed; install the package fuse3, or mount as root")]
    NoHelper,
    /// The kernel, or its helper, refuses.
    #[error("cannot mount at {}: {source}", .point.display())]
    Mount {
        /// The directory.
        point: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system refuses something that every mount needs.
    #[error("cannot serve the file system: {0}")]
    Os(#[from] io::Error),
    /// The volume failed.
    #[error("the backing store failed while the file system was mounted: {0}")]
    Failed(IoError),
}

/// Mounts a file system and serves it until it is unmounted, or until SIGINT, SIGTERM or SIGHUP.
/// `ready` is called once it is mounted.
///
/// # Errors
/// See [`FilesError`]. After an error of the volume the file system is not clean.
pub fn serve(
    fs: Box<dyn FileSystem>,
    volume: Volume,
    options: &MountOptions,
    ready: &mut dyn FnMut(),
) -> Result<Ended, FilesError> {
    check_point(&options.point)?;
    // First of all threads that are started here leave signals alone.
    let stop_fd = crate::signals::block_and_watch()?;
    let queue = Queue::new()?;
    let (point, refused) = match attach(&queue, options) {
        Ok(point) => (Some(point), None),
        Err(refused) => (None, Some(refused)),
    };
    let mut driver = Driver::new(fs, volume, queue, stop_fd, point)?;
    match refused {
        None => ready(),
        // The file system is in use already: it must come to a clean end.
        Some(_) => driver.stop_files(),
    }
    let (volume, ended) = driver.run()?;
    let durable = match ended.failed {
        Some(reason) => Err(reason),
        None => volume.make_durable(),
    };
    match refused {
        Some(refused) => Err(refused),
        None => durable.map(|()| ended).map_err(FilesError::Failed),
    }
}

/// Looks at the directory before anything is changed.
///
/// # Errors
/// If it cannot be mounted at.
pub fn check_point(point: &Path) -> Result<(), FilesError> {
    match std::fs::metadata(point) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(FilesError::NotDirectory(point.to_owned())),
        Err(error) => Err(match error.raw_os_error() {
            Some(libc::ENOENT) => FilesError::NoDirectory(point.to_owned()),
            Some(libc::ENOTCONN | libc::ECONNABORTED) => FilesError::Abandoned(point.to_owned()),
            _ => FilesError::Mount { point: point.to_owned(), source: error },
        }),
    }
}

/// Mounts, and starts the threads that hear the kernel.
fn attach(queue: &Queue, options: &MountOptions) -> Result<MountPoint, FilesError> {
    let right = Right::of_this_process();
    let (source, read_only) = (source(&options.images), options.read_only);
    let traits = Traits { source, read_only, permissions: true };
    let bridge = Bridge::new(queue.clone());
    let attached =
        mount::attached(right, &options.point, &traits, |device| hear(right, bridge, device));
    let ((), point) = attached.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if !Path::new("/dev/fuse").exists() => FilesError::NoFuse,
        io::ErrorKind::NotFound if right == Right::Helper => FilesError::NoHelper,
        _ => FilesError::Mount { point: options.point.clone(), source },
    })?;
    Ok(point)
}

/// The images as lists of mounts name them.
fn source(images: &[PathBuf]) -> String {
    let names = images.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    let names: Vec<String> = names.map(|path| path.display().to_string()).collect();
    names.join(BETWEEN.encode_utf8(&mut [0; 4]))
}

fn hear(right: Right, bridge: Bridge, device: OwnedFd) -> io::Result<()> {
    // The kernel checks permissions; who may use the mount at all is decided by how it was mounted.
    let acl = match right {
        Right::Root => SessionACL::All,
        Right::Helper => SessionACL::Owner,
    };
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config.acl = acl;
    let session = Session::from_fd(bridge, device, acl, config)?;
    // Its threads end by themselves when the file system does.
    session.spawn()?;
    Ok(())
}

/// Tells people who watch. A mount goes on when its messages cannot be written.
fn say(message: &str) {
    let _ = writeln!(io::stderr(), "seekless: {message}");
}
