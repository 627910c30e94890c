//! A timer that wakes the recorder from `waitpid`, so that limits of time hold while no program
//! reports anything.
//!
//! `waitpid` has no time limit, and `SIGCHLD` belongs to the whole process. So a timer sends a
//! signal with an empty handler to this thread alone.

use std::io;
use std::sync::OnceLock;

/// Nanoseconds between two ticks.
const PERIOD: i64 = 10_000_000;

/// Ticks until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticks {
    timer: libc::timer_t,
}

/// A signal that programs and the C library leave alone.
fn signal() -> i32 {
    libc::SIGRTMAX() - 3
}

extern "C" fn ignore(_signal: libc::c_int) {}

/// Installs the handler, once in a process.
fn install() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        // SAFETY: all zeros are a valid action. Without `SA_RESTART`, `waitpid` comes back.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the action lives through the call, and its handler does nothing.
        unsafe { libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) == 0 }
    })
}

impl Ticks {
    /// Starts ticks for this thread.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn start() -> io::Result<Ticks> {
        if !install() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all zeros are valid for both; what matters is set below.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        let each = libc::timespec { tv_sec: 0, tv_nsec: PERIOD };
        let spec = libc::itimerspec { it_interval: each, it_value: each };
        // SAFETY: the pointers name values that live through the calls, and the set is
        // initialised before it is used.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal());
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
            event.sigev_notify_thread_id = libc::gettid();
            let clock = libc::CLOCK_MONOTONIC;
            if libc::timer_create(clock, &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            let ticks = Ticks { timer };
            match libc::timer_settime(timer, 0, &raw const spec, std::ptr::null_mut()) {
                0 => Ok(ticks),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `start` and is deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}
