//! What the kernel says of a file: which one it is, and its attributes.

use seekless_fs::call::FileKind;
use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Tells files apart while they exist: device and inode number.
pub(crate) type Key = (u64, u64);

/// Which file it is, and its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) key: Key,
    pub(crate) kind: FileKind,
    /// Permission bits (07777).
    pub(crate) mode: u16,
    pub(crate) links: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) device: u32,
    /// Nanoseconds since 1970.
    pub(crate) atime: i64,
    /// Nanoseconds since 1970.
    pub(crate) mtime: i64,
}

impl Stat {
    fn of(stat: &libc::stat) -> Stat {
        let kind = match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFLNK => FileKind::Symlink,
            libc::S_IFIFO => FileKind::Fifo,
            libc::S_IFSOCK => FileKind::Socket,
            libc::S_IFCHR => FileKind::CharDevice,
            libc::S_IFBLK => FileKind::BlockDevice,
            _ => FileKind::File,
        };
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000) + nanos;
        Stat {
            key: (stat.st_dev, stat.st_ino),
            kind,
            mode: (stat.st_mode & 0o7777) as u16,
            #[allow(clippy::unnecessary_cast)] // The width depends on the processor.
            links: stat.st_nlink as u64,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size.cast_unsigned(),
            // The encoding of the kernel and that of the C library agree in the low half.
            device: stat.st_rdev as u32,
            atime: nanos(stat.st_atime, stat.st_atime_nsec),
            mtime: nanos(stat.st_mtime, stat.st_mtime_nsec),
        }
    }

    /// Of an open file.
    pub(crate) fn of_fd(fd: RawFd) -> io::Result<Stat> {
        let mut stat = std::mem::MaybeUninit::uninit();
        // SAFETY: the kernel fills the structure if it reports success.
        unsafe {
            match libc::fstat(fd, stat.as_mut_ptr()) {
                0 => Ok(Stat::of(&stat.assume_init())),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Of a path; a symbolic link at its end is followed if `follow` says so.
    pub(crate) fn of_path(path: &Path, follow: bool) -> io::Result<Stat> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
        let mut stat = std::mem::MaybeUninit::uninit();
        // SAFETY: the path ends with a zero byte, and the kernel fills the structure if it
        // reports success.
        unsafe {
            match libc::fstatat(libc::AT_FDCWD, path.as_ptr(), stat.as_mut_ptr(), flags) {
                0 => Ok(Stat::of(&stat.assume_init())),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}
