//! SIGINT and SIGTERM as something to read, so that the loop needs no handlers.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Takes both signals away from their default action, in this thread and those it starts, and
/// returns a descriptor that becomes readable when one arrives.
pub(crate) fn block_and_watch() -> io::Result<OwnedFd> {
    let set = both();
    change(libc::SIG_BLOCK, &set)?;
    // SAFETY: `set` is initialised, and the descriptor that `signalfd` returns belongs to nobody
    // else.
    unsafe {
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Gives both signals their default action back in this thread: the next one ends the process,
/// even if a system call hangs.
pub(crate) fn release() -> io::Result<()> {
    change(libc::SIG_UNBLOCK, &both())
}

fn both() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before anything else uses it; adding valid signal
    // numbers to an initialised set cannot fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        set
    }
}

fn change(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is initialised and lives through the call; no old set is asked for.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}
