//! The queue of requests between the threads that hear the kernel and the loop.
//!
//! A thread that adds a request wakes the loop only if the loop sleeps, so that a busy loop costs
//! no system call. Invariant: the loop says that it will sleep before it looks for the last time,
//! so no request is left behind.

use super::pending::Pending;
use rustix::event::{EventfdFlags, eventfd};
use seekless_fs::call::{Credentials, Request, Timestamp};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What the kernel has asked.
#[derive(Debug)]
pub(super) enum Asked {
    /// A request, and how to answer it.
    Call {
        /// Who asks.
        who: Credentials,
        /// When it was asked.
        now: Timestamp,
        /// What is wanted.
        request: Request,
        /// The answer.
        pending: Pending,
    },
    /// The kernel asks nothing more: the file system is unmounted.
    Ended,
}

#[derive(Debug)]
struct Shared {
    asked: Mutex<VecDeque<Asked>>,
    sleeping: AtomicBool,
    wake: OwnedFd,
}

/// One end of the queue; its copies are the same queue.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Shared>);

impl Queue {
    /// An empty queue.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub(super) fn new() -> io::Result<Queue> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (asked, sleeping) = (Mutex::default(), AtomicBool::new(false));
        Ok(Queue(Arc::new(Shared { asked, sleeping, wake })))
    }

    /// Adds a request and wakes the loop if it sleeps.
    pub(super) fn push(&self, asked: Asked) {
        // A panic while the lock is held leaves a whole queue.
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).push_back(asked);
        if self.0.sleeping.swap(false, Ordering::SeqCst) {
            // Any number but zero wakes it. The loop reads the counter each time it wakes, so the
            // counter stays far from its limit.
            let _ = rustix::io::write(&self.0.wake, &1_u64.to_le_bytes());
        }
    }

    /// Moves all requests to the end of `into`.
    pub(super) fn take(&self, into: &mut VecDeque<Asked>) {
        into.append(&mut self.0.asked.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Announces that the loop will sleep. False if there are requests: then it must not.
    pub(super) fn may_sleep(&self) -> bool {
        self.0.sleeping.store(true, Ordering::SeqCst);
        let empty = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if !empty {
            self.0.sleeping.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// Takes note that the loop is awake.
    pub(super) fn awake(&self) {
        self.0.sleeping.store(false, Ordering::SeqCst);
    }

    /// Makes the descriptor unreadable again after a wake-up.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0.wake, &mut [0; 8]);
    }

    /// Becomes readable when the loop is to wake.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_loop_is_woken_once() {
        let queue = Queue::new().expect("a queue");
        let woken = || rustix::io::read(queue.wake_fd(), &mut [0; 8]).is_ok();
        queue.push(Asked::Ended);
        assert!(!woken(), "the loop is awake");
        assert!(!queue.may_sleep(), "there is a request");
        let mut taken = VecDeque::new();
        queue.take(&mut taken);
        assert_eq!(taken.len(), 1);
        assert!(queue.may_sleep());
        queue.push(Asked::Ended);
        assert!(woken());
        queue.push(Asked::Ended);
        assert!(!woken(), "it is awake already");
    }
}
