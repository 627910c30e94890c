//! Namespaces without root: a worker makes a user namespace first, where its user is itself and has
//! the rights that mounts need. Its commands have no such rights.

use std::ffi::CString;
use std::io;

/// The rights of a worker, by number: `CAP_DAC_OVERRIDE` over its own files, as overlays make
/// directories of mode 0; `CAP_NET_ADMIN` for its loopback; `CAP_SYS_ADMIN` for mounts.
const RIGHTS: [u32; 3] = [1, 12, SYS_ADMIN];
/// The number of `CAP_SYS_ADMIN` among the capabilities.
const SYS_ADMIN: u32 = 21;
/// `_LINUX_CAPABILITY_VERSION_3`: two structures of 32 capabilities each.
const VERSION: u32 = 0x2008_0522;

/// True if this process may make namespaces and mounts as it is.
pub(crate) fn has_rights() -> bool {
    has_admin(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Reads the effective capabilities of `/proc/self/status`.
fn has_admin(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    set.is_some_and(|set| set >> SYS_ADMIN & 1 == 1)
}

/// True in a user namespace that has one user only, as [`Maps`] makes it.
pub(super) fn is_of_user() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().nth(2) == Some("1")
}

/// What a process writes about itself after it has made a user namespace: paths and text.
#[derive(Debug)]
pub(super) struct Maps([(CString, String); 3]);

impl Maps {
    /// The user and the group are those of this process.
    ///
    /// # Errors
    /// None, unless a constant has a zero byte.
    pub(super) fn of_this_process() -> io::Result<Maps> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let (uid, gid) = (uid.as_raw(), gid.as_raw());
        Ok(Maps([
            (CString::new("/proc/self/setgroups")?, "deny".to_owned()),
            (CString::new("/proc/self/uid_map")?, format!("{uid} {uid} 1")),
            (CString::new("/proc/self/gid_map")?, format!("{gid} {gid} 1")),
        ]))
    }

    /// Writes them, and lets the rights of a worker outlive its next `execve`. False if the kernel
    /// refuses.
    ///
    /// # Safety
    /// To be called in the copy of a process that `clone` has just made with `CLONE_NEWUSER`. It
    /// calls only what is async-signal-safe, and allocates nothing.
    pub(super) unsafe fn write(&self) -> bool {
        for (path, text) in &self.0 {
            // SAFETY: both strings live through the calls.
            let is_written = unsafe {
                let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                let length = libc::write(fd, text.as_ptr().cast(), text.len());
                libc::close(fd);
                usize::try_from(length) == Ok(text.len())
            };
            if !is_written {
                return false;
            }
        }
        let wanted = RIGHTS.iter().fold(0_u32, |set, right| set | 1 << right);
        let header = [VERSION, 0];
        // Effective, permitted, inheritable; twice, for capabilities below and above 32.
        let sets = [wanted, wanted, wanted, 0, 0, 0];
        // SAFETY: the kernel reads the two structures, which live through the calls.
        unsafe {
            libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) == 0
                && RIGHTS.iter().all(|right| {
                    let raise = libc::PR_CAP_AMBIENT_RAISE;
                    libc::prctl(libc::PR_CAP_AMBIENT, raise, u64::from(*right), 0, 0) == 0
                })
        }
    }
}

/// Gives the rights of a worker up, for its commands.
///
/// # Errors
/// As the system refuses it.
pub(super) fn give_up() -> io::Result<()> {
    // SAFETY: this changes what the next `execve` of this thread gives, and no memory.
    let done =
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_as_the_kernel_writes_them() {
        assert!(has_admin("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!has_admin("CapEff:\t00000000a80425fb\n"), "a container by default");
        assert!(!has_admin(""));
    }
}
