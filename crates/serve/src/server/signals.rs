//! SIGINT and SIGTERM as something to read, so that the loop needs no handlers.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Takes both signals away from their default action and returns a descriptor that becomes
/// readable when one arrives.
pub fn block_and_watch() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by `sigemptyset` before it is used, the pointers live through
    // the calls, and the descriptor that `signalfd` returns belongs to nobody else.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}
