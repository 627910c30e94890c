//! Steps from tree to tree, done in a directory.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use seekless_calls::model::{Attributes, PAGE, Step};
use seekless_fs::call::New;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Nanoseconds of a second.
const SECOND_NS: i64 = 1_000_000_000;
/// Mode of what is being made: only its owner sees it before it has its own.
const UNDER_WAY: u32 = 0o700;

/// Where a path of a tree is.
pub(super) fn place(root: &Path, path: &[u8]) -> PathBuf {
    match path.is_empty() {
        true => root.to_owned(),
        false => root.join(OsStr::from_bytes(path)),
    }
}

/// An error of the system with the path that it is about.
pub(super) fn told(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Does a step below `root`. Its directories can be written.
///
/// # Errors
/// As the system refuses it, with the path: no space, or an object that this user may not make.
pub(super) fn apply(root: &Path, step: &Step) -> io::Result<()> {
    match step {
        Step::Remove { path, .. } => remove(&place(root, path)),
        Step::Make { path, what } => {
            let path = place(root, path);
            make(&path, what).map_err(told(&path))
        }
        Step::Link { to, path } => {
            let (to, path) = (place(root, to), place(root, path));
            rustix::fs::linkat(rustix::fs::CWD, &to, rustix::fs::CWD, &path, AtFlags::empty())
                .map_err(|errno| told(&path)(errno.into()))
        }
        Step::SetSize { path, size } => {
            let path = place(root, path);
            open(&path).and_then(|file| file.set_len(*size)).map_err(told(&path))
        }
        Step::Page { path, at, bytes } => {
            let path = place(root, path);
            page(&path, *at, bytes).map_err(told(&path))
        }
        Step::Attributes { path, set, extended } => {
            let path = place(root, path);
            attributes(&path, *set).map_err(told(&path))?;
            set_extended(&path, extended).map_err(told(&path))
        }
    }
}

/// Removes what is at a path, whatever it is; nothing if there is nothing.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let metadata = match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(told(path))?,
    };
    let removed = match metadata.is_dir() {
        true => remove_directory(path),
        false => std::fs::remove_file(path),
    };
    removed.map_err(told(path))
}

/// Removes all that is in a directory.
///
/// # Errors
/// As the system refuses it, with the path.
pub fn empty(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory).map_err(told(directory))? {
        remove(&entry.map_err(told(directory))?.path())?;
    }
    Ok(())
}

/// Removes a directory with all in it, though its rights may forbid that.
fn remove_directory(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(UNDER_WAY))?;
    for entry in std::fs::read_dir(path)? {
        remove(&entry?.path())?;
    }
    std::fs::remove_dir(path)
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        // Its mode may forbid its owner to write it.
        Err(rustix::io::Errno::ACCESS) => {
            std::fs::set_permissions(path, Permissions::from_mode(UNDER_WAY))?;
            Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
        }
        file => Ok(File::from(file?)),
    }
}

fn make(path: &Path, what: &New) -> io::Result<()> {
    let mode = Mode::from_raw_mode(UNDER_WAY);
    let node = |kind: FileType, device: u32| -> io::Result<()> {
        let device =
            rustix::fs::makedev(device >> 8 & 0xfff, device & 0xff | device >> 12 & 0x000f_ff00);
        Ok(rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, device)?)
    };
    match what {
        New::File => File::create_new(path).map(drop),
        New::Directory => std::fs::create_dir(path),
        New::Symlink(text) => std::os::unix::fs::symlink(OsStr::from_bytes(text), path),
        New::Fifo => node(FileType::Fifo, 0),
        New::Socket => node(FileType::Socket, 0),
        New::CharDevice(number) => node(FileType::CharacterDevice, *number),
        New::BlockDevice(number) => node(FileType::BlockDevice, *number),
    }
}

/// Writes a page: bytes, and zeros up to its end or that of the file.
fn page(path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
    let file = open(path)?;
    file.write_all_at(bytes, at)?;
    let end = file.metadata()?.len().min(at - at % PAGE + PAGE);
    let from = at + bytes.len() as u64;
    match end.checked_sub(from) {
        Some(zeros) if zeros > 0 => file.write_all_at(&vec![0; zeros as usize], from),
        _ => Ok(()),
    }
}

fn attributes(path: &Path, set: Attributes) -> io::Result<()> {
    let is_link = path.symlink_metadata()?.is_symlink();
    if rustix::process::geteuid().is_root() && (set.uid.is_some() || set.gid.is_some()) {
        let (uid, gid) = (set.uid, set.gid);
        std::os::unix::fs::lchown(path, uid, gid)?;
    }
    // The mode comes behind the owner, which takes bits away; a link has none.
    if let Some(mode) = set.mode.filter(|_| !is_link) {
        std::fs::set_permissions(path, Permissions::from_mode(mode.into()))?;
    }
    if set.atime.is_none() && set.mtime.is_none() {
        return Ok(());
    }
    let time = |time: Option<i64>| match time {
        Some(ns) => {
            Timespec { tv_sec: ns.div_euclid(SECOND_NS), tv_nsec: ns.rem_euclid(SECOND_NS) }
        }
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    let times = Timestamps { last_access: time(set.atime), last_modification: time(set.mtime) };
    Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Gives an object these extended attributes of the class `user`. Others are the machine's.
fn set_extended(path: &Path, extended: &[(bytes::Bytes, bytes::Bytes)]) -> io::Result<()> {
    use rustix::fs::{XattrFlags, llistxattr, lremovexattr, lsetxattr};
    let of_user = |name: &[u8]| name.starts_with(b"user.");
    let mut names = vec![0; 64 << 10];
    let length = match llistxattr(path, &mut names[..]) {
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    let there = names[..length].split(|&byte| byte == 0).filter(|name| of_user(name));
    for name in there.filter(|name| extended.iter().all(|(known, _)| known != name)) {
        lremovexattr(path, name)?;
    }
    for (name, value) in extended.iter().filter(|(name, _)| of_user(name)) {
        lsetxattr(path, &name[..], value, XattrFlags::empty())?;
    }
    Ok(())
}
