//! Mounts that are in no tree of directories: mounted, opened, and detached at once.
//!
//! What is left is the open root, which alone keeps the file system alive. When the process ends,
//! however it ends, the kernel closes the root and takes the file system away.
//!
//! A mount that other processes must reach by its path stays at its [`MountPoint`] instead. One
//! that another namespace attaches is a descriptor alone ([`floating`]).

use rustix::fs::{Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How this process may mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// It is root and mounts by itself; every user may use the file system.
    Root,
    /// Through `fusermount3`, which is set-user-ID root; only the own user may use it.
    Helper,
}

impl Right {
    pub(crate) fn of_this_process() -> Right {
        if rustix::process::geteuid().is_root() { Right::Root } else { Right::Helper }
    }
}

/// What a mount is to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    /// The source that lists of mounts name.
    pub(crate) source: String,
    /// The kernel refuses changes.
    pub(crate) read_only: bool,
    /// The kernel checks permissions by the attributes of objects.
    pub(crate) permissions: bool,
    /// Options by their names in `mount`, such as `noatime`. A floating mount has none.
    pub(crate) kernel: Vec<String>,
}

impl Default for Traits {
    fn default() -> Traits {
        let source = "seekless".to_owned();
        Traits { source, read_only: false, permissions: false, kernel: Vec::new() }
    }
}

/// The flag of `mount(2)` for an option; none for a name that it does not know.
fn kernel_flag(name: &str) -> libc::c_ulong {
    match name {
        "noexec" => libc::MS_NOEXEC,
        "noatime" => libc::MS_NOATIME,
        "nodiratime" => libc::MS_NODIRATIME,
        "relatime" => libc::MS_RELATIME,
        "strictatime" => libc::MS_STRICTATIME,
        "lazytime" => libc::MS_LAZYTIME,
        "sync" => libc::MS_SYNCHRONOUS,
        "dirsync" => libc::MS_DIRSYNC,
        "nosymfollow" => libc::MS_NOSYMFOLLOW,
        _ => 0,
    }
}

impl Traits {
    fn mount(&self, right: Right, point: &Path) -> io::Result<OwnedFd> {
        match right {
            Right::Root => mount_as_root(point, self),
            Right::Helper => mount_by_helper(point, self),
        }
    }
}

/// Mounts at the empty directory `point`, lets `serve` take the device, and detaches. Gives what
/// `serve` gave, and the root: the file system ends when that is closed.
///
/// # Errors
/// If there is no FUSE here or the process may not mount. Nothing stays mounted then.
pub(crate) fn detached<T>(
    right: Right,
    point: &Path,
    serve: impl FnOnce(OwnedFd) -> io::Result<T>,
) -> io::Result<(T, OwnedFd)> {
    let device = Traits::default().mount(right, point)?;
    // Opening the root asks the file system nothing, but the kernel answers it only when the file
    // system has been initialised: so it is served first.
    let served = serve(device);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(point, flags, Mode::empty());
    // Whatever has failed, first of all the mount goes.
    detach(right, point)?;
    Ok((served?, root?))
}

/// A place of the mount namespace at which a file system is mounted until this is dropped.
#[derive(Debug)]
pub(crate) struct MountPoint {
    right: Right,
    path: PathBuf,
}

impl MountPoint {
    /// Lets go of it after the end of the file system. Another one may be mounted there meanwhile,
    /// so nothing is detached, unless the process behind the mount has ended.
    pub(crate) fn was_left(self) {
        let found = std::fs::metadata(&self.path);
        let is_dead = found.is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN));
        if !is_dead {
            std::mem::forget(self);
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        // What is still open keeps the file system alive until it is closed.
        let _ = detach(self.right, &self.path);
    }
}

/// Mounts at the empty directory `point` and lets `serve` take the device. Gives what `serve` gave,
/// and the mount.
///
/// # Errors
/// If there is no FUSE here or the process may not mount. Nothing stays mounted then.
pub(crate) fn attached<T>(
    right: Right,
    point: &Path,
    traits: &Traits,
    serve: impl FnOnce(OwnedFd) -> io::Result<T>,
) -> io::Result<(T, MountPoint)> {
    // It must be found from any working directory.
    let path = point.canonicalize()?;
    let device = traits.mount(right, &path)?;
    let at = MountPoint { right, path };
    let served = serve(device)?;
    // The kernel answers this once the file system is initialised.
    rustix::fs::open(&at.path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((served, at))
}

/// Mounts in no tree of directories and lets `serve` take the device. Gives what `serve` gave, and
/// the mount, which `move_mount` attaches in any namespace. Only for root.
///
/// # Errors
/// If there is no FUSE here, the kernel is older than Linux 5.2, or the process may not mount.
pub(crate) fn floating<T>(
    traits: &Traits,
    serve: impl FnOnce(OwnedFd) -> io::Result<T>,
) -> io::Result<(T, OwnedFd)> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let number = device.as_raw_fd().to_string();
    let values = [
        ("source", traits.source.as_str()),
        ("subtype", "seekless"),
        ("fd", number.as_str()),
        ("rootmode", "40000"),
        ("user_id", "0"),
        ("group_id", "0"),
        ("max_read", "1048576"),
    ];
    for (key, value) in values {
        fsconfig_set_string(context.as_fd(), key, value)?;
    }
    fsconfig_set_flag(context.as_fd(), "allow_other")?;
    if traits.permissions {
        fsconfig_set_flag(context.as_fd(), "default_permissions")?;
    }
    if traits.read_only {
        fsconfig_set_flag(context.as_fd(), "ro")?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    // The kernel has sent its first request by now.
    Ok((serve(device.into())?, mount))
}

fn detach(right: Right, point: &Path) -> io::Result<()> {
    match right {
        Right::Root => {
            let path = CString::new(point.as_os_str().as_bytes())?;
            // SAFETY: `path` is a string that ends in zero and lives through the call.
            if unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) } < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        }
        Right::Helper => helper(&["-u", "-z"], point, Stdio::null()),
    }
}

fn mount_as_root(point: &Path, traits: &Traits) -> io::Result<OwnedFd> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let permissions = if traits.permissions { ",default_permissions" } else { "" };
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,max_read=1048576{permissions}",
        device.as_raw_fd()
    );
    let (options, target) = (CString::new(options)?, CString::new(point.as_os_str().as_bytes())?);
    let source = CString::new(traits.source.as_str())?;
    let read_only = if traits.read_only { libc::MS_RDONLY } else { 0 };
    let chosen = traits.kernel.iter().fold(0, |flags, name| flags | kernel_flag(name));
    let flags = libc::MS_NOSUID | libc::MS_NODEV | read_only | chosen;
    // SAFETY: the strings end in zero and live through the call.
    let result = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            c"fuse.seekless".as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(device.into()) }
}

/// Lets the system's helper mount, which sends the open device back through a socket.
fn mount_by_helper(point: &Path, traits: &Traits) -> io::Result<OwnedFd> {
    let (own, theirs) = UnixStream::pair()?;
    let access = if traits.read_only { "ro" } else { "rw" };
    let permissions = if traits.permissions { ",default_permissions" } else { "" };
    // Commas separate options.
    let source = traits.source.replace('\\', "\\\\").replace(',', "\\,");
    let kernel: String = traits.kernel.iter().map(|name| format!(",{name}")).collect();
    let options =
        format!("{access},nosuid,nodev{kernel},subtype=seekless{permissions},fsname={source}");
    helper(&["-o", &options], point, Stdio::from(OwnedFd::from(theirs)))?;
    let mut byte = [0; 1];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(&own, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(descriptor);
        }
    }
    Err(io::Error::other("fusermount3 sent no device"))
}

fn helper(arguments: &[&str], point: &Path, socket: Stdio) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    // The socket takes the place of standard input.
    command.args(arguments).arg("--").arg(point).stdin(socket).env("_FUSE_COMMFD", "0");
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
