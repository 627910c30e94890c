//! Which system calls change files or sync them, and where their arguments stand.
//!
//! Everything that depends on the processor is in the file of its name below `arch/`: the numbers
//! of calls, and how a call is skipped. The rest of the crate knows calls as [`Op`].

#![cfg_attr(
    not(any(target_arch = "aarch64", target_arch = "x86_64")),
    allow(dead_code, unused_imports, unused_macros)
)]

/// Calls with the same arguments on every processor.
macro_rules! common {
    () => {
        [
            (libc::SYS_write, Op::Write(Place::Position), When::Always),
            (libc::SYS_pwrite64, Op::Write(Place::Offset), When::Always),
            (libc::SYS_openat, Op::Open(At::Dir(0), Some(2)), When::Opens(2)),
            (libc::SYS_writev, Op::Write(Place::Position), When::Always),
            (libc::SYS_pwritev, Op::Write(Place::Offset), When::Always),
            (libc::SYS_pwritev2, Op::Write(Place::OffsetFlags), When::Always),
            (libc::SYS_fsync, Op::SyncFile(false), When::Always),
            (libc::SYS_fdatasync, Op::SyncFile(true), When::Always),
            (libc::SYS_openat2, Op::OpenHow, When::Always),
            (libc::SYS_sendfile, Op::Send(0), When::Always),
            (libc::SYS_copy_file_range, Op::Copy, When::Always),
            (libc::SYS_splice, Op::Copy, When::Always),
            (libc::SYS_renameat2, Op::Rename(At::Dir(0), At::Dir(2), Some(4)), When::Always),
            (libc::SYS_unlinkat, Op::Remove(At::Dir(0)), When::Always),
            (libc::SYS_mkdirat, Op::Make(At::Dir(0)), When::Always),
            (libc::SYS_mknodat, Op::Make(At::Dir(0)), When::Always),
            (libc::SYS_symlinkat, Op::Symlink(At::Dir(1)), When::Always),
            (libc::SYS_linkat, Op::Link(At::Dir(0), Follow::If(4), At::Dir(2)), When::Always),
            (libc::SYS_truncate, Op::Truncate(Of::Path(At::Cwd(0), Follow::Always)), When::Always),
            (libc::SYS_ftruncate, Op::Truncate(Of::Fd), When::Always),
            (libc::SYS_fallocate, Op::Allocate, When::Always),
            (libc::SYS_mmap, Op::Map, When::Shared),
            (libc::SYS_mprotect, Op::Protect, When::Writable),
            (libc::SYS_pkey_mprotect, Op::Protect, When::Writable),
            (libc::SYS_msync, Op::SyncMap, When::Always),
            (libc::SYS_sync, Op::SyncAll(false), When::Always),
            (libc::SYS_syncfs, Op::SyncAll(true), When::Always),
            (libc::SYS_fchmod, Op::Attributes(Of::Fd), When::Always),
            (
                libc::SYS_fchmodat,
                Op::Attributes(Of::Path(At::Dir(0), Follow::Always)),
                When::Always,
            ),
            (FCHMODAT2, Op::Attributes(Of::Path(At::Dir(0), Follow::Unless(3))), When::Always),
            (libc::SYS_fchown, Op::Attributes(Of::Fd), When::Always),
            (
                libc::SYS_fchownat,
                Op::Attributes(Of::Path(At::Dir(0), Follow::Unless(4))),
                When::Always,
            ),
            (libc::SYS_utimensat, Op::Times(Of::Path(At::Dir(0), Follow::Unless(3))), When::Always),
            (
                libc::SYS_setxattr,
                Op::SetXattr(Of::Path(At::Cwd(0), Follow::Always), 1),
                When::Always,
            ),
            (
                libc::SYS_lsetxattr,
                Op::SetXattr(Of::Path(At::Cwd(0), Follow::Never), 1),
                When::Always,
            ),
            (libc::SYS_fsetxattr, Op::SetXattr(Of::Fd, 1), When::Always),
            (SETXATTRAT, Op::SetXattr(Of::Path(At::Dir(0), Follow::Unless(2)), 3), When::Always),
            (
                libc::SYS_removexattr,
                Op::RemoveXattr(Of::Path(At::Cwd(0), Follow::Always), 1),
                When::Always,
            ),
            (
                libc::SYS_lremovexattr,
                Op::RemoveXattr(Of::Path(At::Cwd(0), Follow::Never), 1),
                When::Always,
            ),
            (libc::SYS_fremovexattr, Op::RemoveXattr(Of::Fd, 1), When::Always),
            (
                REMOVEXATTRAT,
                Op::RemoveXattr(Of::Path(At::Dir(0), Follow::Unless(2)), 3),
                When::Always,
            ),
            (libc::SYS_ioctl, Op::Clone, When::Clones),
            (libc::SYS_bind, Op::Bind, When::Always),
            (libc::SYS_io_uring_setup, Op::Refused("io_uring_setup", libc::EPERM), When::Always),
            (libc::SYS_io_setup, Op::Refused("io_setup", libc::ENOSYS), When::Always),
        ]
    };
}
use common;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod other;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{AUDIT_ARCH, CALLS, FOREIGN_BIT, IS_OFFERED, skip};
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub(crate) use other::{AUDIT_ARCH, CALLS, FOREIGN_BIT, IS_OFFERED, skip};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{AUDIT_ARCH, CALLS, FOREIGN_BIT, IS_OFFERED, skip};

/// Where a path stands in the arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The path is this argument; it is relative to the working directory.
    Cwd(usize),
    /// This argument is the descriptor of a directory, the next one the path.
    Dir(usize),
}

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Always,
    Never,
    /// Not if this argument has `AT_SYMLINK_NOFOLLOW`.
    Unless(usize),
    /// Only if this argument has `AT_SYMLINK_FOLLOW`.
    If(usize),
}

/// The object that a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// The descriptor in the first argument.
    Fd,
    /// A path.
    Path(At, Follow),
}

/// Where a write puts its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the position of the open file.
    Position,
    /// At the offset in the fourth argument.
    Offset,
    /// As [`Place::Offset`], with `RWF` flags in the sixth argument; -1 is the position.
    OffsetFlags,
}

/// What a call does, with the places of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Opens; the flags are in this argument. `None`: `creat`.
    Open(At, Option<usize>),
    /// `openat2`.
    OpenHow,
    Write(Place),
    /// Copies to the descriptor in this argument, at its position.
    Send(usize),
    /// Copies to the third argument, at the offset that the fourth points to, if it does.
    Copy,
    /// With flags in this argument.
    Rename(At, At, Option<usize>),
    /// `unlink` or `rmdir`.
    Remove(At),
    /// `mkdir` or `mknod`.
    Make(At),
    /// The text is the first argument.
    Symlink(At),
    Link(At, Follow, At),
    Truncate(Of),
    Allocate,
    Map,
    /// Makes memory writable.
    Protect,
    SyncMap,
    /// `true`: data only.
    SyncFile(bool),
    /// `sync`, or `syncfs` if it is true.
    SyncAll(bool),
    /// Mode, owner or group.
    Attributes(Of),
    Times(Of),
    /// The name is this argument.
    SetXattr(Of, usize),
    RemoveXattr(Of, usize),
    /// An `ioctl` that shares blocks of another file.
    Clone,
    /// `bind`, which makes the name of a socket.
    Bind,
    /// `io_uring_setup`, `io_setup`: refused.
    Refused(&'static str, i32),
}

/// When a call stops the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// If this argument has a flag that makes or empties a file.
    Opens(usize),
    /// If it maps a file that others see.
    Shared,
    /// If it makes memory writable.
    Writable,
    /// If it shares blocks.
    Clones,
}

/// A system call: its number, what it does, and when it is of interest.
pub(crate) type Row = (i64, Op, When);

/// The row of a call, by its number.
pub(crate) fn op(number: i64) -> Option<Op> {
    CALLS.iter().find(|row| row.0 == number).map(|row| row.1)
}

/// Calls whose numbers `libc` has not got for every target; they are the same everywhere.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;

/// Two tables as one.
const fn joined<const A: usize, const B: usize, const BOTH: usize>(
    first: [Row; A],
    second: [Row; B],
) -> [Row; BOTH] {
    let mut all = [first[0]; BOTH];
    let mut at = 1;
    while at < BOTH {
        all[at] = if at < A { first[at] } else { second[at - A] };
        at += 1;
    }
    all
}
