//! Hearing the calls of a mounted file system.
//!
//! [`Heard`] stands before the file system and hands everything on. A reply is on the recording
//! before the program gets it, and an acknowledgement when the program is told that it was taken.
//! So their order is that of cause and effect.

use crate::record::marks::Marks;
use crate::record::tape::check_mark;
use seekless_calls::{Entry, Told};
use seekless_engine::io::{Done, IoError};
use seekless_engine::layer::Port;
use seekless_engine::units::Time;
use seekless_fs::call::{Call, CallId, Reply, Request};
use seekless_fs::system::{FileSystem, FsCx};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A recording that is being made, shared by the file system and the log of acknowledgements.
#[derive(Debug)]
pub struct CallRecorder {
    /// Calls that changed something.
    changes: AtomicU64,
    entries: Mutex<Vec<Entry>>,
    /// Else calls are only counted.
    keeps: bool,
}

impl CallRecorder {
    /// Keeps all that it hears.
    pub fn new() -> Arc<CallRecorder> {
        CallRecorder::with(true)
    }

    /// Counts calls and keeps none.
    pub fn counting() -> Arc<CallRecorder> {
        CallRecorder::with(false)
    }

    fn with(keeps: bool) -> Arc<CallRecorder> {
        Arc::new(CallRecorder { changes: AtomicU64::new(0), entries: Mutex::default(), keeps })
    }

    /// Calls so far that changed something.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Notes that the workload begins.
    pub fn begin(&self) {
        self.push(Entry::Begin);
    }

    /// What was heard since the last time this was asked.
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, entry: Entry) {
        if self.keeps {
            // A thread that panics leaves whole entries behind.
            self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        }
    }
}

impl Marks for CallRecorder {
    fn mark(&self, value: &str) -> io::Result<()> {
        check_mark(value.as_bytes())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        self.push(Entry::Mark(value.to_owned()));
        Ok(())
    }
}

/// A file system whose calls are heard.
#[derive(Debug)]
pub struct Heard<F> {
    fs: F,
    recorder: Arc<CallRecorder>,
    /// Calls so far.
    calls: u64,
    /// Calls without a reply, by the id that their maker chose: their numbers, and whether they
    /// change something.
    open: BTreeMap<CallId, (u64, bool)>,
}

impl<F> Heard<F> {
    /// Hears the calls of `fs`, which has had none.
    pub fn new(fs: F, recorder: Arc<CallRecorder>) -> Heard<F> {
        Heard { fs, recorder, calls: 0, open: BTreeMap::new() }
    }

    fn call(&mut self, call: &Call, at: Time) {
        let number = self.calls;
        self.calls += 1;
        if !matches!(call.request, Request::Forget { .. }) {
            self.open.insert(call.id, (number, call.request.is_change()));
        }
        if self.recorder.keeps {
            self.recorder.push(Entry::Call { call: Call { id: number, ..call.clone() }, at });
        }
    }

    fn replies(&mut self, replies: &[Reply]) {
        for reply in replies {
            let open = self.open.remove(&reply.id);
            debug_assert!(open.is_some(), "a reply to call {}, which is not open", reply.id);
            let Some((number, changes)) = open else { continue };
            if changes && reply.result.is_ok() {
                self.recorder.changes.fetch_add(1, Ordering::Relaxed);
            }
            self.recorder.push(Entry::Reply { number, told: Told::of(&reply.result) });
        }
    }
}

impl<F: FileSystem> FileSystem for Heard<F> {
    fn submit(&mut self, call: Call, cx: &mut FsCx<'_, '_>) {
        self.call(&call, cx.now());
        let before = cx.replies.len();
        self.fs.submit(call, cx);
        self.replies(&cx.replies[before..]);
    }

    fn complete(&mut self, port: Port, done: Done, cx: &mut FsCx<'_, '_>) {
        let before = cx.replies.len();
        self.fs.complete(port, done, cx);
        self.replies(&cx.replies[before..]);
    }

    fn pump(&mut self, cx: &mut FsCx<'_, '_>) {
        let before = cx.replies.len();
        self.fs.pump(cx);
        self.replies(&cx.replies[before..]);
    }

    fn deadline(&self) -> Option<Time> {
        self.fs.deadline()
    }

    fn stop(&mut self, cx: &mut FsCx<'_, '_>) {
        let before = cx.replies.len();
        self.fs.stop(cx);
        self.replies(&cx.replies[before..]);
    }

    fn stopped(&self) -> bool {
        self.fs.stopped()
    }

    fn failed(&self) -> Option<IoError> {
        self.fs.failed()
    }

    fn requests(&self) -> u64 {
        self.fs.requests()
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        self.fs.stats()
    }
}
