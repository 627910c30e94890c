//! The hard cases once more, by a recorder with fewer rights.

use crate::harness::{PLAIN_USER, copy_program, is_root};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has `pidfd_getfd` answered with `EPERM` in this process, as the filter of Docker does.
fn deny_copies() -> std::io::Result<()> {
    let step = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let code = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_pidfd_getfd as u32, 1),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which lives through the calls.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// A recorder without root and without capabilities, of programs that are its own.
#[test]
fn hard_cases_are_on_record_without_root() {
    if !is_root() {
        eprintln!("skipped: all tests run without root");
        return;
    }
    // The user may not reach the directory of the build.
    let place = tempfile::TempDir::new().unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(place.path(), open.clone()).unwrap();
    let program = place.path().join("suite");
    copy_program(&std::env::current_exe().unwrap(), &program);
    std::fs::set_permissions(&program, open).unwrap();
    let mut command = Command::new(program);
    command.args(["edges::", "basics::", "checks::", "limits::a_run", "limits::no_child"]);
    command.uid(PLAIN_USER).gid(PLAIN_USER).current_dir(place.path());
    let output = command.env("TMPDIR", place.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("edges::threads_that_append ... ok"), "{text}");
}

/// Runtimes of containers deny copies of descriptors: the recorder asks `/proc` instead.
#[test]
fn hard_cases_are_on_record_without_copies_of_descriptors() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["edges::", "basics::"]);
    // SAFETY: only calls to the kernel are made between `fork` and `exec`.
    unsafe { command.pre_exec(deny_copies) };
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("edges::threads_that_append ... ok"), "{text}");
}
