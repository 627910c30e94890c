//! Numbers of calls of x86-64.

use super::{At, FCHMODAT2, Follow, Of, Op, Place, REMOVEXATTRAT, Row, SETXATTRAT, When};

/// What seccomp calls this processor: `AUDIT_ARCH_X86_64`.
pub(crate) const AUDIT_ARCH: u32 = 0xc000_003e;
/// Numbers with this bit are those of x32, whose arguments differ.
pub(crate) const FOREIGN_BIT: Option<u32> = Some(0x4000_0000);
/// Calls of this processor are known.
pub(crate) const IS_OFFERED: bool = true;

/// Calls without a counterpart on newer processors.
const OLD: [Row; 16] = [
    (libc::SYS_open, Op::Open(At::Cwd(0), Some(1)), When::Opens(1)),
    (libc::SYS_creat, Op::Open(At::Cwd(0), None), When::Always),
    (libc::SYS_rename, Op::Rename(At::Cwd(0), At::Cwd(1), None), When::Always),
    (libc::SYS_renameat, Op::Rename(At::Dir(0), At::Dir(2), None), When::Always),
    (libc::SYS_unlink, Op::Remove(At::Cwd(0)), When::Always),
    (libc::SYS_rmdir, Op::Remove(At::Cwd(0)), When::Always),
    (libc::SYS_mkdir, Op::Make(At::Cwd(0)), When::Always),
    (libc::SYS_mknod, Op::Make(At::Cwd(0)), When::Always),
    (libc::SYS_symlink, Op::Symlink(At::Cwd(1)), When::Always),
    (libc::SYS_link, Op::Link(At::Cwd(0), Follow::Never, At::Cwd(1)), When::Always),
    (libc::SYS_chmod, Op::Attributes(Of::Path(At::Cwd(0), Follow::Always)), When::Always),
    (libc::SYS_chown, Op::Attributes(Of::Path(At::Cwd(0), Follow::Always)), When::Always),
    (libc::SYS_lchown, Op::Attributes(Of::Path(At::Cwd(0), Follow::Never)), When::Always),
    (libc::SYS_utime, Op::Times(Of::Path(At::Cwd(0), Follow::Always)), When::Always),
    (libc::SYS_utimes, Op::Times(Of::Path(At::Cwd(0), Follow::Always)), When::Always),
    (libc::SYS_futimesat, Op::Times(Of::Path(At::Dir(0), Follow::Always)), When::Always),
];

const COMMON: [Row; 45] = super::common!();

/// All calls of interest.
pub(crate) static CALLS: [Row; 61] = super::joined(COMMON, OLD);

/// Has the call at whose entry a thread stands not carried out, and answered with `result`.
pub(crate) fn skip(tid: i32, result: i64) -> bool {
    // SAFETY: all zeros are a valid set of registers, which is only written to.
    let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let data = &raw mut regs;
    // SAFETY: `data` points to a set of registers, the size that both requests are documented with.
    unsafe {
        if libc::ptrace(libc::PTRACE_GETREGS, tid, 0, data) != 0 {
            return false;
        }
        (*data).orig_rax = u64::MAX;
        (*data).rax = result.cast_unsigned();
        libc::ptrace(libc::PTRACE_SETREGS, tid, 0, data) == 0
    }
}
