//! Numbers of calls of aarch64, the generic table.

use super::{At, FCHMODAT2, Follow, Of, Op, Place, REMOVEXATTRAT, Row, SETXATTRAT, When};

/// What seccomp calls this processor: `AUDIT_ARCH_AARCH64`.
pub(crate) const AUDIT_ARCH: u32 = 0xc000_00b7;
/// No number belongs to another convention; 32-bit programs have another architecture.
pub(crate) const FOREIGN_BIT: Option<u32> = None;
/// Calls of this processor are known.
pub(crate) const IS_OFFERED: bool = true;

const OLD: [Row; 1] =
    [(libc::SYS_renameat, Op::Rename(At::Dir(0), At::Dir(2), None), When::Always)];

const COMMON: [Row; 45] = super::common!();

/// All calls of interest.
pub(crate) static CALLS: [Row; 46] = super::joined(COMMON, OLD);

/// Register sets of `PTRACE_SETREGSET`: general registers, and the number of the call.
const NT_PRSTATUS: usize = 1;
const NT_ARM_SYSTEM_CALL: usize = 0x404;

/// Has the call at whose entry a thread stands not carried out, and answered with `result`.
pub(crate) fn skip(tid: i32, result: i64) -> bool {
    let mut number: i32 = -1;
    // SAFETY: all zeros are a valid set of registers, which is only written to.
    let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let data = &raw mut regs;
    let mut number_part =
        libc::iovec { iov_base: (&raw mut number).cast(), iov_len: size_of::<i32>() };
    let mut part =
        libc::iovec { iov_base: data.cast(), iov_len: size_of::<libc::user_regs_struct>() };
    // SAFETY: both parts name memory of their length that lives through the calls.
    unsafe {
        if libc::ptrace(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, &raw mut part) != 0 {
            return false;
        }
        (*data).regs[0] = result.cast_unsigned();
        libc::ptrace(libc::PTRACE_SETREGSET, tid, NT_ARM_SYSTEM_CALL, &raw mut number_part) == 0
            && libc::ptrace(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, &raw mut part) == 0
    }
}
