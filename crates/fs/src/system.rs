//! The seam of file systems: what a driver needs of one, whatever it is.
//!
//! A driver hands calls in and moves answers of volumes with the exchange of the engine
//! ([`seekless_engine::client::Exchange`]); replies are collected and never given from inside a
//! call. The ports of a file system are the nodes that the driver gives it.

use crate::call::{Call, Reply};
use seekless_engine::client::Below;
use seekless_engine::io::{Done, IoError};
use seekless_engine::layer::Port;
use seekless_engine::units::Time;
use std::fmt::Debug;

/// What a file system may see and do while it handles an event.
#[derive(Debug)]
pub struct FsCx<'w, 'n> {
    /// The volumes below, and the time.
    pub below: &'w mut Below<'n>,
    /// Replies to calls, in the order in which they are given.
    pub replies: &'w mut Vec<Reply>,
}

impl FsCx<'_, '_> {
    /// The time of the driver.
    pub fn now(&self) -> Time {
        self.below.now()
    }
}

/// A mounted file system.
///
/// The driver calls, never re-entrantly: `submit` for each call, `complete` for each answer from
/// below, then `pump` once. Calling `pump` once too often does no harm.
pub trait FileSystem: Debug {
    /// Takes a call.
    fn submit(&mut self, call: Call, cx: &mut FsCx<'_, '_>);

    /// Takes an answer from below.
    fn complete(&mut self, port: Port, done: Done, cx: &mut FsCx<'_, '_>);

    /// Runs what is ready, then at most one bounded piece of background work.
    fn pump(&mut self, cx: &mut FsCx<'_, '_>);

    /// When to pump again though nothing happens.
    fn deadline(&self) -> Option<Time>;

    /// Asks for a clean unmount: calls in flight are answered, everything is written, and the
    /// volume is marked clean.
    fn stop(&mut self, cx: &mut FsCx<'_, '_>);

    /// True when a clean unmount that was asked for is complete.
    fn stopped(&self) -> bool;

    /// Why the file system refuses changes, if it does: the first error of its write path.
    fn failed(&self) -> Option<IoError>;

    /// The same as a message with cause and remedy, which names the block and what it holds if the
    /// file system knows.
    fn failure(&self) -> Option<String> {
        self.failed().map(|error| error.to_string())
    }

    /// Requests that it has sent to its volumes.
    fn requests(&self) -> u64;

    /// Named counters for reports, in a fixed order.
    fn stats(&self) -> Vec<(&'static str, f64)>;

    /// Bytes of changes that its volumes do not have yet.
    fn unwritten_bytes(&self) -> u64 {
        0
    }
}

impl<F: FileSystem + ?Sized> FileSystem for Box<F> {
    fn submit(&mut self, call: Call, cx: &mut FsCx<'_, '_>) {
        (**self).submit(call, cx);
    }

    fn complete(&mut self, port: Port, done: Done, cx: &mut FsCx<'_, '_>) {
        (**self).complete(port, done, cx);
    }

    fn pump(&mut self, cx: &mut FsCx<'_, '_>) {
        (**self).pump(cx);
    }

    fn deadline(&self) -> Option<Time> {
        (**self).deadline()
    }

    fn stop(&mut self, cx: &mut FsCx<'_, '_>) {
        (**self).stop(cx);
    }

    fn stopped(&self) -> bool {
        (**self).stopped()
    }

    fn failed(&self) -> Option<IoError> {
        (**self).failed()
    }

    fn failure(&self) -> Option<String> {
        (**self).failure()
    }

    fn requests(&self) -> u64 {
        (**self).requests()
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        (**self).stats()
    }

    fn unwritten_bytes(&self) -> u64 {
        (**self).unwritten_bytes()
    }
}

/// A system that answers each call at once: the model, or a file system with its volumes below.
///
/// [`crate::call::Request::Forget`] has no reply of its own; a runner answers it with
/// [`crate::call::Answer::Done`].
pub trait Runs {
    /// Runs a call to its reply.
    fn run(&mut self, call: Call) -> Reply;
}

impl<R: Runs + ?Sized> Runs for &mut R {
    fn run(&mut self, call: Call) -> Reply {
        (**self).run(call)
    }
}

impl<R: Runs + ?Sized> Runs for Box<R> {
    fn run(&mut self, call: Call) -> Reply {
        (**self).run(call)
    }
}
