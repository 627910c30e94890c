//! A request to stop long work before it is done, mostly by a signal: work on states would leave
//! processes and files behind if it could not clean up.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};

/// A request to stop. Once it is made it stays.
#[derive(Debug)]
pub struct Stop {
    /// Readable from the request on.
    wake: OwnedFd,
    /// The signal that made it; 0 before.
    signal: AtomicI32,
}

/// What the signals of this process request.
static SIGNALS: OnceLock<Arc<Stop>> = OnceLock::new();

impl Stop {
    /// No stop is requested yet.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Stop> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stop { wake, signal: AtomicI32::new(0) })
    }

    /// A request by SIGINT, SIGTERM or SIGHUP: the first one requests the stop, the second one ends
    /// the process. A signal that was ignored still is. Signals are not blocked: processes that are
    /// started would inherit that.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn on_signals() -> io::Result<Arc<Stop>> {
        if let Some(stop) = SIGNALS.get() {
            return Ok(Arc::clone(stop));
        }
        let stop = Arc::clone(SIGNALS.get_or_init({
            let new = Arc::new(Stop::new()?);
            || new
        }));
        seekless_serve::signals::handle(heard)?;
        Ok(stop)
    }

    /// Requests the stop in the name of a signal.
    pub fn ask(&self, signal: i32) {
        debug_assert_ne!(signal, 0, "0 stands for no request");
        self.signal.store(signal, Ordering::Release);
        // The counter cannot be full.
        let _ = rustix::io::write(&self.wake, &1_u64.to_le_bytes());
    }

    /// The signal that requested the stop.
    pub fn asked(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Acquire)).filter(|&signal| signal != 0)
    }

    /// Readable from the request on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Only does what a handler may: atomic loads and stores, and one bare system call.
extern "C" fn heard(signal: i32) {
    if let Some(stop) = SIGNALS.get() {
        stop.ask(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn a_request_to_stop_stays_and_can_be_waited_for() {
        let stop = Stop::new().expect("a descriptor");
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let seen = || poll(&mut [PollFd::new(&stop.fd(), PollFlags::IN)], Some(&now));
        assert_eq!((stop.asked(), seen()), (None, Ok(0)));
        stop.ask(15);
        for _ in 0..2 {
            assert_eq!((stop.asked(), seen()), (Some(15), Ok(1)));
        }
    }
}
