//! The mount point of states, which all processes that replay one recording share.
//!
//! A check sees its state at one path, whichever process runs it: software keeps absolute paths in
//! its files, and equal states are to give equal messages. Each process mounts there in a namespace
//! of its own. But the kernel takes every mount away from a directory that is removed, in all
//! namespaces. So each process holds a shared lock on the directory, and only the last one, which
//! gets the exclusive lock, removes it.

use super::worker::DEVICE_PATH;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How often a directory that another process removes at this moment is made again.
const ATTEMPTS: u32 = 1000;

/// The mount points `mnt` and `mnt2` and the link `device` in a directory. They go with the last
/// process that has them.
#[derive(Debug)]
pub struct Point {
    path: PathBuf,
    /// Where the second of two disks is mounted.
    second: PathBuf,
    link: PathBuf,
    directory: File,
    /// False where directories have no locks. Then no process can tell that it is the last, and
    /// both stay.
    is_locked: bool,
}

impl Point {
    /// Makes the mount point in `dir`, or shares it.
    ///
    /// # Errors
    /// If the directory cannot be used.
    pub fn new(dir: &Path) -> io::Result<Point> {
        let dir = std::path::absolute(dir)?;
        let (path, second, link) = (dir.join("mnt"), dir.join("mnt2"), dir.join("device"));
        let (directory, is_locked) = held(&path)?;
        exists_already(std::fs::create_dir(&second))?;
        // Each worker has another file behind the same name.
        exists_already(std::os::unix::fs::symlink(DEVICE_PATH, &link))?;
        Ok(Point { path, second, link, directory, is_locked })
    }

    /// Where states are mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the second disk of a state is mounted.
    pub fn second(&self) -> &Path {
        &self.second
    }

    /// The link to the file of a state.
    pub fn link(&self) -> &Path {
        &self.link
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        // This gives the shared lock up even if it fails.
        let is_last = flock(&self.directory, FlockOperation::NonBlockingLockExclusive).is_ok();
        if self.is_locked && is_last {
            let _ = std::fs::remove_file(&self.link);
            let _ = std::fs::remove_dir(&self.second);
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// The directory, open and with a shared lock; false if it cannot be locked.
fn held(path: &Path) -> io::Result<(File, bool)> {
    for _ in 0..ATTEMPTS {
        exists_already(std::fs::create_dir(path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(rustix::io::Errno::NOENT) => continue,
            Err(errno) => return Err(errno.into()),
        };
        // Waits only while a process removes it.
        match flock(&directory, FlockOperation::LockShared) {
            Ok(()) if is_at(&directory, path)? => return Ok((directory, true)),
            // Removed meanwhile.
            Ok(()) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Ok((directory, false)),
        }
    }
    Err(io::Error::other(format!("{}: other processes keep removing it", path.display())))
}

/// Whether the path still leads to this directory.
fn is_at(directory: &File, path: &Path) -> io::Result<bool> {
    let held = directory.metadata()?;
    Ok(std::fs::metadata(path).is_ok_and(|at| (at.dev(), at.ino()) == (held.dev(), held.ino())))
}

fn exists_already(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_removes_the_mount_point() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("mnt");
        let first = Point::new(dir.path()).expect("a mount point");
        let inode = std::fs::metadata(&path).expect("it is there").ino();
        let second = Point::new(dir.path()).expect("the same");
        assert_eq!((first.path(), first.link()), (second.path(), second.link()));
        drop(first);
        assert_eq!(std::fs::metadata(&path).expect("it stays").ino(), inode);
        drop(second);
        assert_eq!(std::fs::read_dir(dir.path()).expect("it lists").count(), 0);
    }

    #[test]
    fn a_mount_point_is_there_as_long_as_it_is_held() {
        let dir = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let point = Point::new(dir.path()).expect("a mount point");
                        assert!(is_at(&point.directory, point.path()).expect("it is open"));
                        assert!(point.link().symlink_metadata().is_ok(), "the link is there");
                    }
                });
            }
        });
    }
}
