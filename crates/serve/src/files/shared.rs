//! What the threads of a mount share: the file system, its volume and the requests under way,
//! behind one lock.
//!
//! The thread that hears a request carries it out as far as it goes without waiting and answers it.
//! No other thread runs in between, since each change of threads costs more than the request. The
//! loop ([`super::driver`]) does what no request brings about: answers of devices, deadlines, the
//! end. Invariant: nothing is due before the loop wakes; a thread that changes that wakes it.

use super::pending::Answered;
use super::state::State;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use seekless_engine::units::Time;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The state, until the loop takes it away, and when the loop looks at it again.
#[derive(Debug)]
struct Guarded {
    state: Option<State>,
    /// `None` while the loop is awake: it looks again before it sleeps.
    loop_sleeps_until: Option<Time>,
}

#[derive(Debug)]
struct Inner {
    guarded: Mutex<Guarded>,
    wake: OwnedFd,
}

/// Access to the state; its copies are access to the same.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Inner>);

/// What the loop does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It looks again at once.
    Again,
    /// It sleeps so many nanoseconds, or until something happens.
    Sleep(Option<Time>),
    /// It ends.
    End,
}

impl Shared {
    /// Shares a state.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub(super) fn new(state: State) -> io::Result<Shared> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let guarded = Guarded { state: Some(state), loop_sleeps_until: None };
        Ok(Shared(Arc::new(Inner { guarded: Mutex::new(guarded), wake })))
    }

    /// Does something to the state, and all that follows from it now. `None` after the end.
    pub(super) fn enter<T>(&self, act: impl FnOnce(&mut State) -> T) -> Option<T> {
        let mut guarded = self.0.guarded.lock();
        let guarded_now = &mut *guarded;
        let state = guarded_now.state.as_mut()?;
        let result = act(state);
        state.turn();
        let answered = state.take_answered();
        let due = state.due().unwrap_or(Time::MAX);
        let wakes = guarded_now.loop_sleeps_until.take_if(|until| due < *until).is_some();
        drop(guarded);
        if wakes {
            self.wake();
        }
        send(answered);
        Some(result)
    }

    /// The same for the loop, which learns what to do next.
    pub(super) fn look(&self) -> Next {
        let mut guarded = self.0.guarded.lock();
        let guarded_now = &mut *guarded;
        let Some(state) = guarded_now.state.as_mut() else { return Next::End };
        state.turn();
        state.advance_end();
        let answered = state.take_answered();
        let due = state.due();
        let now = state.now();
        let next = match due {
            _ if state.is_over() => Next::End,
            Some(due) if due <= now => Next::Again,
            due => {
                guarded_now.loop_sleeps_until = Some(due.unwrap_or(Time::MAX));
                Next::Sleep(due.map(|due| due - now))
            }
        };
        drop(guarded);
        send(answered);
        next
    }

    /// Takes the state away: requests that come now fail.
    pub(super) fn take(&self) -> Option<State> {
        self.0.guarded.lock().state.take()
    }

    /// Wakes the loop.
    pub(super) fn wake(&self) {
        // Any number but zero wakes it. The loop reads the counter each time it wakes, so the
        // counter stays far from its limit.
        let _ = rustix::io::write(&self.0.wake, &1_u64.to_le_bytes());
    }

    /// Becomes readable when the loop is to wake.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }

    /// Makes the descriptor unreadable again after a wake-up.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0.wake, &mut [0; 8]);
    }
}

/// Answers the kernel, without the lock.
fn send(answered: Vec<Answered>) {
    answered.into_iter().for_each(Answered::send);
}
