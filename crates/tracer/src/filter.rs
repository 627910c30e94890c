//! The seccomp filter: which calls stop the program, decided in the kernel.
//!
//! Calls of [`CALLS`] stop it, some only with certain arguments. All others run at full speed.

use crate::arch::{AUDIT_ARCH, CALLS, FOREIGN_BIT, When};
use std::io;

/// What comes with a stop: a call of the table.
pub(crate) const OF_TABLE: u32 = 0;
/// What comes with a stop: a call of another architecture.
pub(crate) const OF_FOREIGN: u32 = 1;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;

/// Offsets in `seccomp_data`. Arguments have 64 bits; the low half comes first on the processors
/// of `arch`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `O_TMPFILE` without the bit of `O_DIRECTORY`.
const TMPFILE_BIT: i32 = 0o20_000_000;
const MAKES: u32 = (libc::O_CREAT | libc::O_TRUNC | TMPFILE_BIT) as u32;
/// `MAP_SHARED` and `MAP_SHARED_VALIDATE` have this bit, `MAP_PRIVATE` has not.
const SHARED_BIT: u32 = 1;
/// `FICLONE` and `FICLONERANGE`.
const CLONES: [u32; 2] = [0x4004_9409, 0x4020_940d];

/// A filter that a program installs in itself before it begins.
#[derive(Debug)]
pub(crate) struct Filter {
    code: Vec<libc::sock_filter>,
}

impl Filter {
    pub(crate) fn new() -> Filter {
        let trace = |data: u32| libc::SECCOMP_RET_TRACE | data;
        let mut filter = Filter { code: Vec::new() };
        filter.step(LOAD, ARCH);
        filter.branch(EQUAL, AUDIT_ARCH, 1, 0);
        filter.step(RETURN, trace(OF_FOREIGN));
        filter.step(LOAD, NUMBER);
        if let Some(bit) = FOREIGN_BIT {
            filter.branch(AT_LEAST, bit, 0, 1);
            filter.step(RETURN, trace(OF_FOREIGN));
        }
        for &(number, _, when) in &CALLS {
            filter.call(number as u32, when, trace(OF_TABLE));
        }
        filter.step(RETURN, libc::SECCOMP_RET_ALLOW);
        filter
    }

    /// The steps of one call; other calls jump over them.
    fn call(&mut self, number: u32, when: When, trace: u32) {
        let argument = |index: usize| ARGUMENTS + 8 * index as u32;
        let allow = libc::SECCOMP_RET_ALLOW;
        match when {
            When::Always => {
                self.branch(EQUAL, number, 0, 1);
                self.step(RETURN, trace);
            }
            When::Opens(flags) => {
                self.branch(EQUAL, number, 0, 4);
                self.step(LOAD, argument(flags));
                self.branch(ANY_BIT, MAKES, 0, 1);
                self.step(RETURN, trace);
                self.step(RETURN, allow);
            }
            When::Shared => {
                self.branch(EQUAL, number, 0, 5);
                self.step(LOAD, argument(3));
                self.branch(ANY_BIT, SHARED_BIT, 0, 2);
                self.branch(ANY_BIT, libc::MAP_ANONYMOUS as u32, 1, 0);
                self.step(RETURN, trace);
                self.step(RETURN, allow);
            }
            When::Writable => {
                self.branch(EQUAL, number, 0, 4);
                self.step(LOAD, argument(2));
                self.branch(ANY_BIT, libc::PROT_WRITE as u32, 0, 1);
                self.step(RETURN, trace);
                self.step(RETURN, allow);
            }
            When::Clones => {
                self.branch(EQUAL, number, 0, 5);
                self.step(LOAD, argument(1));
                self.branch(EQUAL, CLONES[0], 1, 0);
                self.branch(EQUAL, CLONES[1], 0, 1);
                self.step(RETURN, trace);
                self.step(RETURN, allow);
            }
        }
    }

    fn step(&mut self, code: u16, k: u32) {
        self.code.push(libc::sock_filter { code, jt: 0, jf: 0, k });
    }

    fn branch(&mut self, code: u16, k: u32, jt: u8, jf: u8) {
        self.code.push(libc::sock_filter { code, jt, jf, k });
    }

    /// Installs the filter in this process, for good. Async-signal-safe.
    pub(crate) fn install(&self) -> io::Result<()> {
        let program =
            libc::sock_fprog { len: self.code.len() as u16, filter: self.code.as_ptr().cast_mut() };
        // SAFETY: the kernel copies the program, which lives through the calls, and does not write
        // to it.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    != 0
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
