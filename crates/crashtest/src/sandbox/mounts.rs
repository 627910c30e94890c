//! Mounting and unmounting by system calls, without the programs `mount` and `umount`.

use super::LoopDevice;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, UnmountFlags};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes that were just killed may hold files for a moment: attempts, and the time between.
const ATTEMPTS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(5);

/// The kind of a [`Mounting`] that is a directory.
const BOUND: &str = "bind";

/// How a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounting {
    /// Its name, as in `/proc/filesystems`.
    pub kind: String,
    /// `MS_` flags of mount(2).
    pub flags: u32,
    /// Options of the file system, separated by commas.
    pub options: String,
}

impl Mounting {
    /// The same with more options, separated by commas, as `mount -o` takes them.
    pub fn with_options(mut self, more: &str) -> Mounting {
        for option in more.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            match flag(option) {
                Some(flag) => self.flags |= flag.bits(),
                None if self.options.is_empty() => self.options = option.to_owned(),
                None => self.options = format!("{},{option}", self.options),
            }
        }
        self
    }

    /// A directory that is mounted once more at another place: its name among those that the worker
    /// was started with.
    pub fn bound(name: &Path) -> Mounting {
        let options = name.to_string_lossy().into_owned();
        Mounting { kind: BOUND.to_owned(), flags: 0, options }
    }

    /// True if it is such a directory.
    pub fn is_bound(&self) -> bool {
        self.kind == BOUND
    }

    /// True if what is to be mounted is given as a mount that is in no tree of directories.
    pub fn is_attached(&self) -> bool {
        self.kind == crate::own::ATTACHED
    }
}

/// An option that mount(2) has a flag for, and file systems do not know.
fn flag(option: &str) -> Option<MountFlags> {
    Some(match option {
        "sync" => MountFlags::SYNCHRONOUS,
        "dirsync" => MountFlags::DIRSYNC,
        "lazytime" => MountFlags::LAZYTIME,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        "strictatime" => MountFlags::STRICTATIME,
        "noexec" => MountFlags::NOEXEC,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        _ => return None,
    })
}

/// A mounted file system; it is detached when dropped.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    /// The device number that files on it have.
    device: u64,
}

/// Why a file system was not unmounted.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// It is not mounted any longer.
    #[error("{}: the file system is gone; let the command leave it mounted", .0.display())]
    Gone(PathBuf),
    /// A process uses it.
    #[error("{}: a process still uses the file system; end it in the command", .0.display())]
    Busy(PathBuf),
    /// The system refuses.
    #[error("{path}: it cannot be unmounted: {error}; look at the kernel's log")]
    Refused {
        /// Where.
        path: String,
        /// Why.
        error: io::Error,
    },
}

impl Mounted {
    /// Mounts the file system in `file` at the directory `point`, by a loop device that goes with
    /// the mount.
    ///
    /// # Errors
    /// If there is no loop device, or the kernel refuses the file system. The second kind has
    /// [`io::Error::raw_os_error`].
    pub fn file(file: &File, point: &Path, how: &Mounting) -> io::Result<Mounted> {
        let device = LoopDevice::attach(file, false)?;
        Mounted::device(device.path(), point, how)
    }

    /// Mounts the file system on a block device at the directory `point`.
    ///
    /// # Errors
    /// As the kernel refuses it.
    pub fn device(device: &Path, point: &Path, how: &Mounting) -> io::Result<Mounted> {
        match mount(device, point, how) {
            // The kernel remembers the newest state that it saw of this UUID, and refuses others.
            Err(Errno::EXIST) if how.kind == "btrfs" => {
                forget_btrfs()?;
                mount(device, point, how)?;
            }
            mounted => mounted?,
        }
        Ok(Mounted { point: point.to_owned(), device: device_of(point)? })
    }

    /// Attaches a mount that is in no tree of directories at the directory `point`.
    ///
    /// # Errors
    /// If it is no such mount, or is attached elsewhere.
    pub fn attach(mount: &File, point: &Path) -> io::Result<Mounted> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(mount, "", rustix::fs::CWD, point, flags)?;
        Ok(Mounted { point: point.to_owned(), device: device_of(point)? })
    }

    /// Mounts a directory at the directory `point` as well.
    ///
    /// # Errors
    /// If it is not in a mount of this namespace.
    pub fn bind(directory: &Path, point: &Path) -> io::Result<Mounted> {
        rustix::mount::mount_bind(directory, point)?;
        Ok(Mounted { point: point.to_owned(), device: device_of(point)? })
    }

    /// Where.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Whether what is mounted there is still this.
    pub fn is_there(&self) -> bool {
        // An error of a broken file system is no sign that it is gone.
        device_of(&self.point).is_ok_and(|device| device == self.device)
    }

    /// Writes back what is cached and unmounts. If that fails the file system is detached, so that
    /// it goes with its last user.
    ///
    /// # Errors
    /// If it was not mounted, or is in use.
    pub fn unmount(self) -> Result<(), UnmountError> {
        if !self.is_there() {
            return Err(UnmountError::Gone(self.point.clone()));
        }
        for _ in 0..ATTEMPTS {
            match rustix::mount::unmount(&self.point, UnmountFlags::NOFOLLOW) {
                Ok(()) => {
                    std::mem::forget(self);
                    return Ok(());
                }
                Err(Errno::BUSY) => std::thread::sleep(BETWEEN),
                Err(errno) => {
                    let path = self.point.display().to_string();
                    return Err(UnmountError::Refused { path, error: errno.into() });
                }
            }
        }
        Err(UnmountError::Busy(self.point.clone()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Never what lies below: it is not this one's to unmount.
        if self.is_there() {
            let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            let _ = rustix::mount::unmount(&self.point, flags);
        }
    }
}

fn mount(device: &Path, point: &Path, how: &Mounting) -> Result<(), Errno> {
    let flags = MountFlags::from_bits_retain(how.flags);
    let options = CString::new(how.options.as_str()).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(device, point, how.kind.as_str(), flags, options.as_c_str())
}

fn device_of(path: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.dev())
}

/// Lets the kernel forget btrfs devices that are not mounted.
fn forget_btrfs() -> io::Result<()> {
    // From <linux/btrfs.h>: `_IOW(0x94, 5, struct btrfs_ioctl_vol_args)`, of 4096 bytes. An empty
    // name stands for all devices.
    const FORGET_DEVICE: libc::c_ulong = 0x5000_9405;
    let control = File::options().read(true).write(true).open("/dev/btrfs-control")?;
    let arguments = [0_u8; 4096];
    let fd = std::os::fd::AsRawFd::as_raw_fd(&control);
    // SAFETY: the kernel reads 4096 bytes, which live through the call.
    let result = unsafe { libc::ioctl(fd, FORGET_DEVICE as _, arguments.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
