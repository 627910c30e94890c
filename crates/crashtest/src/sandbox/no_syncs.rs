//! Checks that sync nothing: a state lives in a copy that goes, so no sync of it is worth waiting
//! for. A filter of the kernel answers such calls with success.

use std::io;

/// The architecture that this program is built for, from <linux/audit.h>: on another one, calls
/// have other numbers, and none is touched.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: u32 = 0;
/// Where `struct seccomp_data` has the number of the call, and the architecture.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
/// Calls that wait until something is durable.
const SYNCS: [libc::c_long; 6] = [
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_msync,
    libc::SYS_sync_file_range,
];
/// Instructions in front of the comparisons, and behind them.
const FRAME: usize = 5;

/// The filter. It allocates nothing, so it can be made between a fork and the new program.
fn filter() -> [libc::sock_filter; SYNCS.len() + FRAME] {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let allow = step(end, libc::SECCOMP_RET_ALLOW, 0, 0);
    let mut filter = [allow; SYNCS.len() + FRAME];
    let count = SYNCS.len() as u8;
    filter[0] = step(load, ARCHITECTURE_AT, 0, 0);
    // Another architecture: over the load and the comparisons, to the first end.
    filter[1] = step(equal, ARCHITECTURE, 0, 1 + count);
    filter[2] = step(load, NUMBER_AT, 0, 0);
    for (index, call) in SYNCS.iter().enumerate() {
        // To the second end if it is one of them.
        filter[3 + index] = step(equal, *call as u32, count - index as u8, 0);
    }
    filter[SYNCS.len() + FRAME - 1] = step(end, libc::SECCOMP_RET_ERRNO, 0, 0);
    filter
}

/// Lets this process and all that it starts sync nothing. It needs the right to make namespaces.
///
/// # Errors
/// As the kernel refuses it.
pub(super) fn install() -> io::Result<()> {
    let mut filter = filter();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives through the call.
    let done = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter answers to a call: what the machine of classic BPF does.
    fn answer(architecture: u32, number: u32) -> u32 {
        let (filter, mut at, mut loaded) = (filter(), 0, 0);
        loop {
            let one = filter[at];
            match u32::from(one.code) & 7 {
                libc::BPF_LD => loaded = if one.k == NUMBER_AT { number } else { architecture },
                libc::BPF_JMP => at += usize::from(if loaded == one.k { one.jt } else { one.jf }),
                _ => return one.k,
            }
            at += 1;
        }
    }

    #[test]
    fn syncs_are_answered_and_nothing_else() {
        for call in SYNCS {
            assert_eq!(answer(ARCHITECTURE, call as u32), libc::SECCOMP_RET_ERRNO);
            assert_eq!(answer(ARCHITECTURE + 1, call as u32), libc::SECCOMP_RET_ALLOW);
        }
        for call in [libc::SYS_read, libc::SYS_write, libc::SYS_exit, libc::SYS_execve] {
            assert_eq!(answer(ARCHITECTURE, call as u32), libc::SECCOMP_RET_ALLOW);
        }
    }
}
