//! A mounted file system that is in no tree of directories: this process serves it, and another
//! one attaches its mount in a mount namespace of its own.
//!
//! A crash test serves many of them at once, each for one check. The mount is a descriptor
//! (`fsmount`), so no directory of this process leads to the file system. It ends when the last
//! mount of it is gone, and [`Detached::end`] waits for that. [`Detached::abandon`] does not wait
//! and writes nothing.

use super::bridge::Bridge;
use super::driver::{Driver, Outside};
use super::shared::Shared;
use super::state::{Ended, State};
use super::volume::Volume;
use super::{FilesError, hear};
use crate::fuse::mount::{self, Right, Traits};
use crate::status::Served;
use rustix::event::{EventfdFlags, eventfd};
use seekless_fs::system::FileSystem;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::JoinHandle;

/// A file system that this process serves.
#[derive(Debug)]
pub struct Detached {
    shared: Shared,
    mount: Option<OwnedFd>,
    thread: JoinHandle<Result<Ended, FilesError>>,
}

impl Detached {
    /// Mounts a file system nowhere and serves it. Lists of mounts call it `source`. Signals of
    /// this process do not end it.
    ///
    /// # Errors
    /// Without root rights or FUSE, or when the process has no descriptor or thread left.
    pub fn new(
        fs: Box<dyn FileSystem + Send>,
        mut volume: Volume,
        source: &str,
    ) -> Result<Detached, FilesError> {
        let device_fds = volume.take_device_fds();
        let shared = Shared::new(State::new(fs, volume, Served::default(), String::new()))?;
        let source = source.to_owned();
        let traits = Traits { source, permissions: true, ..Traits::default() };
        let bridge = Bridge::new(shared.clone(), false);
        let floating = mount::floating(&traits, |device| hear(Right::Root, bridge, device));
        let ((), mount) = floating.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound if !Path::new("/dev/fuse").exists() => FilesError::NoFuse,
            _ => FilesError::Detached(source),
        })?;
        let for_loop = shared.clone();
        let run = move || serve(for_loop, &device_fds);
        let thread = std::thread::Builder::new().name("files".to_owned()).spawn(run)?;
        Ok(Detached { shared, mount: Some(mount), thread })
    }

    /// The mount, for `move_mount`. The file system ends when this and all mounts made of it are
    /// gone. `None` if it was taken before.
    pub fn take_mount(&mut self) -> Option<OwnedFd> {
        self.mount.take()
    }

    /// Waits until no mount is left, and until the file system has come to its clean end.
    ///
    /// # Errors
    /// If the loop cannot go on, or the volume is not durable at the end.
    pub fn end(self) -> Result<Ended, FilesError> {
        drop(self.mount);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("its loop panicked").into()))
    }

    /// Drops the file system as it is: it writes nothing, and calls that come later fail.
    pub fn abandon(self) {
        drop(self.mount);
        drop(self.shared.take());
        self.shared.wake();
        let _ = self.thread.join();
    }
}

/// The loop of one file system, to its end.
fn serve(shared: Shared, device_fds: &[OwnedFd]) -> Result<Ended, FilesError> {
    // The loop watches for signals; none arrives here.
    let none = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let stop_fd = none.map_err(io::Error::from)?;
    let outside = Outside { stop_fd, usr1_fd: None, control: None };
    let (volume, ended) = Driver::new(shared, device_fds, outside)?.run()?;
    let durable = match ended.failed {
        Some(reason) => Err(reason),
        None => volume.make_durable(),
    };
    let images = volume.images();
    durable.map(|()| ended).map_err(|error| FilesError::Failed { images, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};
    use seekless_engine::device::medium::Cells;
    use seekless_engine::device::ram::Ram;
    use seekless_formats::ffs::{self, check, mkfs};
    use seekless_formats::{MkfsOptions, MountOptions};
    use std::fs;
    use tempfile::TempDir;

    /// A served file system in memory; `None`, with the reason on standard error, without rights.
    fn served() -> Option<Detached> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            eprintln!("skipped: it takes root rights and /dev/fuse");
            return None;
        }
        let device = Box::new(Ram::volatile(Box::new(Cells::new(2048))));
        let mut volume = Volume::of_device(device, "memory");
        mkfs(&mut volume, &MkfsOptions::default()).expect("a file system");
        assert!(check(&mut volume).expect("a check").is_clean());
        let fs = ffs::mount(&mut volume, &MountOptions::default()).expect("a mount");
        Some(Detached::new(Box::new(fs), volume, "served").expect("it is served"))
    }

    /// Attaches the mount to a directory until the value is dropped.
    struct Attached(TempDir);

    impl Attached {
        fn new(served: &mut Detached) -> Attached {
            let dir = tempfile::tempdir().expect("a directory");
            let mount = served.take_mount().expect("it is there");
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(&mount, "", rustix::fs::CWD, dir.path(), flags).expect("attached");
            assert!(served.take_mount().is_none(), "there is one mount");
            Attached(dir)
        }
    }

    impl Drop for Attached {
        fn drop(&mut self) {
            let _ = unmount(self.0.path(), UnmountFlags::DETACH);
        }
    }

    #[test]
    fn it_ends_when_no_mount_is_left() {
        let Some(mut served) = served() else { return };
        let attached = Attached::new(&mut served);
        let path = attached.0.path().join("file");
        fs::write(&path, "content").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"content");
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let line = mounts.lines().find(|line| line.contains(&*attached.0.path().to_string_lossy()));
        assert!(line.is_some_and(|line| line.starts_with("served ")), "{mounts}");
        drop(attached);
        let ended = served.end().expect("a clean end");
        assert!(ended.requests > 2 && ended.failed.is_none(), "{ended:?}");
        let writes = ended.stats.iter().find(|(name, _)| *name == "writes").expect("a count");
        assert!(writes.1 > 0.0, "the end writes what is dirty");
    }

    #[test]
    fn one_that_is_abandoned_fails_what_comes_later() {
        let Some(mut served) = served() else { return };
        let attached = Attached::new(&mut served);
        let path = attached.0.path().join("file");
        fs::write(&path, "content").expect("written");
        served.abandon();
        assert!(fs::write(attached.0.path().join("other"), "late").is_err());
    }

    #[test]
    fn one_that_nothing_attaches_ends_as_well() {
        let Some(served) = served() else { return };
        assert!(served.end().is_ok());
        let Some(served) = self::served() else { return };
        served.abandon();
    }
}
