//! The record of a volume: its changes as calls with their replies.

use super::State;
use bytes::Bytes;
use seekless_calls::{Entry, Told};
use seekless_fs::call::{Call, Credentials, Handle, Ino, Request};

/// What was recorded so far.
#[derive(Debug, Default)]
pub(super) struct Record {
    entries: Vec<Entry>,
    calls: u64,
    has_begun: bool,
}

/// A record that was taken.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) entries: Vec<Entry>,
    /// The workload began: a run was started.
    pub(crate) has_begun: bool,
}

impl Record {
    fn call(&mut self, request: Request, told: Told) {
        let number = self.calls;
        self.calls += 1;
        let call = Call { id: number, who: Credentials::default(), now: 0, request };
        self.entries.push(Entry::Call { call, at: 0 });
        self.entries.push(Entry::Reply { number, told });
    }

    pub(super) fn done(&mut self, request: Request) {
        self.call(request, Told::Done);
    }

    pub(super) fn made(&mut self, request: Request, ino: Ino) {
        self.call(request, Told::Object(ino, 0, None));
    }

    pub(super) fn write(&mut self, handle: Handle, at: u64, data: &[u8]) {
        // A file has at most 2^30 bytes, so the count fits.
        let count = data.len() as u32;
        let data = Bytes::copy_from_slice(data);
        self.call(Request::Write { handle, at, data, append: false }, Told::Written(count));
    }
}

impl State {
    /// The workload begins, unless it has: what came before is durable.
    pub(crate) fn begin(&mut self) {
        if let Some(record) = self.record.as_mut().filter(|record| !record.has_begun) {
            record.has_begun = true;
            record.entries.push(Entry::Begin);
        }
    }

    /// The program acknowledged a value.
    pub(crate) fn mark(&mut self, value: String) {
        if let Some(record) = &mut self.record {
            record.entries.push(Entry::Mark(value));
        }
    }

    /// What was recorded so far; nothing for a volume that does not record.
    pub(crate) fn recording(&self) -> Recording {
        let of = |record: &Record| (record.entries.clone(), record.has_begun);
        let (entries, has_begun) = self.record.as_ref().map(of).unwrap_or_default();
        Recording { entries, has_begun }
    }
}
