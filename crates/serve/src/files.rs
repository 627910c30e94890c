//! File systems on volumes, mounted through `/dev/fuse`.
//!
//! A thread of `fuser` hears the kernel and carries out what it asks: `bridge` (a call is made of
//! it) → `shared` (the lock) → `state` → file system → volume, and the reply back through `pending`
//! (an answer is made of it). The loop, `driver`, does what no request brings about. [`Volume`] is
//! the volume before and after: it is formatted, checked and repaired as a plain disk.

mod bridge;
mod detached;
mod driver;
mod leaving;
mod listing;
mod offline;
mod pending;
mod power;
mod report;
mod shared;
mod state;
mod translate;
mod unread;
mod volume;
mod waiting;

#[cfg(test)]
mod tests;

pub use detached::Detached;
pub use offline::Offline;
pub use state::Ended;
pub use volume::{Volume, VolumeOptions};

use crate::fuse::mount::{self, MountPoint, Right, Traits};
use bridge::Bridge;
use driver::{Driver, Outside};
use fuser::{Config, Session, SessionACL};
use seekless_engine::io::IoError;
use seekless_fs::system::FileSystem;
use shared::Shared;
use state::State;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Threads that hear the kernel. Each carries out what it hears under one lock, so more would wait.
const THREADS: usize = 1;
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
    /// The kernel keeps what programs write and hands it on later.
    pub writeback: bool,
    /// Options of the kernel by their names in `mount`, such as `noatime`.
    pub kernel: Vec<String>,
    /// How writes of metadata are ordered, for reports.
    pub policy: String,
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
    /// The helper opens the device with the rights of its user.
    #[error("this user may not open /dev/fuse; get rights to it, or mount as root")]
    NoRight,
    /// The kernel, or its helper, refuses.
    #[error("cannot mount at {}: {source}", .point.display())]
    Mount {
        /// The directory.
        point: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel refuses a mount that is in no directory.
    #[error("cannot mount for a check: {0}; it takes root rights and Linux 5.11")]
    Detached(io::Error),
    /// The system refuses something that every mount needs.
    #[error("cannot serve the file system: {0}")]
    Os(#[from] io::Error),
    /// The volume failed.
    #[error("{images}: the backing store failed while the file system was mounted: {error}")]
    Failed {
        /// The images of the volume.
        images: String,
        /// What the store said.
        error: IoError,
    },
}

/// Mounts a file system and serves it until it is unmounted, or until SIGINT, SIGTERM or SIGHUP.
/// `ready` is called once it is mounted.
///
/// # Errors
/// See [`FilesError`]. After an error of the volume the file system is not clean.
pub fn serve(
    fs: Box<dyn FileSystem + Send>,
    mut volume: Volume,
    options: &MountOptions,
    ready: &mut dyn FnMut(),
) -> Result<Ended, FilesError> {
    check_point(&options.point)?;
    // First of all threads that are started here leave signals alone.
    let stop_fd = crate::signals::block_and_watch()?;
    let usr1_fd = crate::signals::watch_usr1()?;
    let (mut control, device_fds) = (volume.take_control()?, volume.take_device_fds());
    crate::server::register(&mut control);
    control.start()?;
    let point = options.point.canonicalize().unwrap_or_else(|_| options.point.clone());
    let served = volume.mounted.served(&point.to_string_lossy(), options.read_only);
    let state = State::new(fs, volume, served, options.policy.clone());
    let shared = Shared::new(state)?;
    let outside = Outside { stop_fd, usr1_fd: Some(usr1_fd), control: Some(control) };
    let mut driver = Driver::new(shared.clone(), &device_fds, outside)?;
    let refused = match attach(&shared, options) {
        Ok(point) => {
            driver.mounted(point);
            ready();
            None
        }
        Err(refused) => {
            // The file system is in use already: it must come to a clean end.
            let _ = shared.enter(State::stop_files);
            Some(refused)
        }
    };
    let (volume, ended) = driver.run()?;
    let images = volume.images();
    let durable = match ended.failed {
        _ if ended.cut => Ok(()),
        Some(reason) => Err(reason),
        None => volume.make_durable().inspect(|()| volume.release()),
    };
    match refused {
        Some(refused) => Err(refused),
        None => durable.map(|()| ended).map_err(|error| FilesError::Failed { images, error }),
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
fn attach(shared: &Shared, options: &MountOptions) -> Result<MountPoint, FilesError> {
    let right = Right::of_this_process();
    let (source, read_only) = (source(&options.images), options.read_only);
    let kernel = options.kernel.clone();
    let traits = Traits { source, read_only, permissions: true, kernel };
    let bridge = Bridge::new(shared.clone(), options.writeback);
    let attached =
        mount::attached(right, &options.point, &traits, |device| hear(right, bridge, device));
    let ((), point) = attached.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if !Path::new("/dev/fuse").exists() => FilesError::NoFuse,
        io::ErrorKind::NotFound if right == Right::Helper => FilesError::NoHelper,
        _ if right == Right::Helper && is_denied("/dev/fuse") => FilesError::NoRight,
        _ => FilesError::Mount { point: options.point.clone(), source },
    })?;
    Ok(point)
}

/// True if this user may not open a device.
fn is_denied(device: &str) -> bool {
    let opened = std::fs::File::options().read(true).write(true).open(device);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
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
