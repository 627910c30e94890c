//! What is known of a call between its entry and its exit.

use crate::arch::{Of, Op};
use crate::ptrace::Entered;
use crate::stat::Stat;
use crate::tracee::{Opened, Tracee};
use bytes::Bytes;
use seekless_fs::call::Ino;
use std::io;
use std::path::{Path, PathBuf};

/// Modes of `fallocate` that move what is behind a place.
pub(crate) const MOVES: i32 = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
/// Bytes that such a call moves at most; each page of them is on record.
const MOST_MOVED: u64 = 64 << 20;

/// A name in a directory, as a call gives it.
#[derive(Debug)]
pub(crate) struct Spot {
    /// The directory, if it is the one of the run, or below it.
    pub(crate) dir: Option<Ino>,
    pub(crate) name: Bytes,
    /// A path of the name that the recorder can use.
    pub(crate) path: PathBuf,
}

impl Spot {
    /// The name in a directory of the run.
    pub(crate) fn own(&self) -> Option<(Ino, Bytes)> {
        self.dir.map(|dir| (dir, self.name.clone()))
    }
}

/// How the object of a call is reached.
#[derive(Debug)]
pub(crate) enum Reached {
    Fd(Opened),
    /// By a path; a symbolic link at its end is followed if this is true.
    Path(PathBuf, bool),
}

impl Reached {
    /// The attributes as they are now.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        match self {
            Reached::Fd(opened) => opened.again(),
            Reached::Path(path, follow) => Stat::of_path(path, *follow),
        }
    }

    /// A path to it, and whether a symbolic link at its end is followed.
    pub(crate) fn path(&self) -> (PathBuf, bool) {
        match self {
            Reached::Fd(opened) => (opened.path(), true),
            Reached::Path(path, follow) => (path.clone(), *follow),
        }
    }
}

/// What a call is about, found at its entry.
#[derive(Debug)]
pub(crate) enum Subject {
    /// An open with these flags, of a name if that is clear beforehand.
    Open(i32, Option<Spot>),
    /// A file, and how it is open.
    File(Ino, Opened),
    /// The file of acknowledgements.
    Acks(Opened),
    /// A name.
    Name(Spot),
    /// Two names.
    Names(Spot, Spot),
    /// A name for an object, which is known or not.
    Link(Option<Ino>, Spot),
    /// An object whose attributes or size change.
    Object(Ino, Reached),
    /// Paths that are of no interest, as long as no other change makes them lead elsewhere.
    Elsewhere,
    /// Syncs, by the numbers of their calls.
    Syncs(Vec<u64>),
}

/// A call that goes on.
#[derive(Debug)]
pub(crate) struct InCall {
    pub(crate) entered: Entered,
    pub(crate) op: Op,
    pub(crate) subject: Subject,
}

/// What a thread does. There is one a thread, so its size matters less than an allocation a call.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(crate) enum State {
    /// It runs, or stands for a reason that is not the recorder's.
    Runs,
    /// It stands at the entry of a call until the call of another thread has ended.
    Waits,
    /// It carries out a call.
    InCall(InCall),
}

/// A thread of the program.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) tracee: Tracee,
    pub(crate) state: State,
}

/// True if a call reports what others changed, and changes nothing: such calls overlap.
pub(crate) fn is_sync(op: Op) -> bool {
    matches!(op, Op::SyncMap | Op::SyncFile(_) | Op::SyncAll(_))
}

/// True if a call is about paths: what they lead to depends on the changes before it.
pub(crate) fn has_path(op: Op) -> bool {
    match op {
        Op::Open(..) | Op::OpenHow | Op::Rename(..) | Op::Remove(_) | Op::Make(_) => true,
        Op::Symlink(_) | Op::Link(..) | Op::Bind => true,
        Op::Truncate(of) | Op::Attributes(of) | Op::Times(of) => of != Of::Fd,
        Op::SetXattr(of, _) | Op::RemoveXattr(of, _) => of != Of::Fd,
        _ => false,
    }
}

/// True if a call may wait for other processes: it overlaps with their calls.
pub(crate) fn may_block(entered: &Entered) -> bool {
    entered.number == libc::SYS_splice || entered.number == libc::SYS_sendfile
}

/// True if a call would move more of a file than is kept on record.
pub(crate) fn moves_too_much(op: Op, args: &[u64; 6], subject: &Subject) -> bool {
    let Subject::File(_, opened) = subject else { return false };
    let moves = op == Op::Allocate && args[1] as i32 & MOVES != 0;
    moves && opened.stat.size.saturating_sub(args[2]) > MOST_MOVED
}

/// Extended attributes of a path.
pub(crate) fn xattr(path: &Path, follow: bool, name: &[u8]) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let name = std::ffi::CString::new(name)?;
    let call = if follow { libc::getxattr } else { libc::lgetxattr };
    // 64 KiB is the most that the kernel gives.
    let mut value = vec![0; 1 << 16];
    // SAFETY: both texts end with a zero byte, and the kernel writes at most the length of `value`.
    let got = unsafe { call(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    value.truncate(usize::try_from(got).map_err(|_| io::Error::last_os_error())?);
    Ok(value)
}

/// Names of the extended attributes of a path, in their order.
pub(crate) fn xattrs(path: &Path, follow: bool) -> io::Result<Vec<Vec<u8>>> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let call = if follow { libc::listxattr } else { libc::llistxattr };
    let mut names = vec![0_u8; 1 << 16];
    // SAFETY: the path ends with a zero byte, and the kernel writes at most the length of `names`.
    let got = unsafe { call(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(usize::try_from(got).map_err(|_| io::Error::last_os_error())?);
    let mut names: Vec<Vec<u8>> =
        names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(Vec::from).collect();
    names.sort();
    Ok(names)
}
