//! SIGINT, SIGTERM and SIGHUP, and SIGUSR1, as file descriptors, so that the event loop needs no
//! handlers. And a handler for commands that start processes, which would inherit blocked signals.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks the signals that end this process, in this thread and those it starts. Returns a
/// descriptor that becomes readable when one arrives.
pub fn block_and_watch() -> io::Result<OwnedFd> {
    watch(&stop_signals()?)
}

fn watch(set: &libc::sigset_t) -> io::Result<OwnedFd> {
    change(libc::SIG_BLOCK, set)?;
    // SAFETY: `set` is initialised, and the descriptor that `signalfd` returns has no other owner.
    unsafe {
        let fd = libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Blocks SIGUSR1 in this thread and those it starts. Returns a descriptor that becomes readable
/// when it arrives.
pub fn watch_usr1() -> io::Result<OwnedFd> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before anything else uses it, and adding a valid
    // signal number to it cannot fail.
    let set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        libc::sigaddset(&mut set, libc::SIGUSR1);
        set
    };
    watch(&set)
}

/// Unblocks these signals in this thread: the next one ends the process, even if a system call
/// hangs.
pub fn release() -> io::Result<()> {
    change(libc::SIG_UNBLOCK, &stop_signals()?)
}

/// Has `handler` called when SIGINT, SIGTERM or SIGHUP arrives, once each: the next one has its
/// default action. Ignored signals stay ignored. The handler must be async-signal-safe.
pub fn handle(handler: extern "C" fn(libc::c_int)) -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all zeros are a valid action: the default one, without flags.
        let (mut action, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
        // SAFETY: the actions live through the calls, and the handler keeps to its rules.
        let result = unsafe {
            libc::sigemptyset(&raw mut action.sa_mask);
            match libc::sigaction(signal, std::ptr::null(), &raw mut before) {
                0 if before.sa_sigaction == libc::SIG_IGN => 0,
                0 => libc::sigaction(signal, &raw const action, std::ptr::null_mut()),
                failed => failed,
            }
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The signals that request a shutdown. SIGHUP is not among them if it is ignored, as under
/// `nohup`: `signalfd` would report it although it is ignored.
fn stop_signals() -> io::Result<libc::sigset_t> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: all zeros are a valid action, which `sigaction` only writes to; `sigemptyset`
    // initialises the set before anything else uses it; adding valid signal numbers to an
    // initialised set cannot fail.
    unsafe {
        let mut hangup: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut hangup) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigaddset(&mut set, libc::SIGTERM);
        if hangup.sa_sigaction != libc::SIG_IGN {
            libc::sigaddset(&mut set, libc::SIGHUP);
        }
        Ok(set)
    }
}

fn change(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is initialised and lives through the call; no old set is asked for.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}
