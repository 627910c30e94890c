//! A log on a device of the machine, as the run loop drives it.

use super::device::DeviceDisk;
use crate::volume::Volume;
use seekless_engine::units::Time;
use seekless_formats::log::{Error, Log, LogReader, Lsn, Stat};
use std::collections::VecDeque;

/// A call of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Appends these bytes.
    Append(Vec<u8>),
    /// Makes records durable.
    Sync,
    /// Trims up to here; none: all.
    Trim(Option<Lsn>),
    /// Reads this record.
    Read(Lsn),
}

/// What a call has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The record has this position.
    Appended(Lsn),
    /// Done.
    Done,
    /// The record.
    Read(Vec<u8>),
}

/// An answer to the client.
#[derive(Clone, Debug)]
pub struct Reply {
    pub result: Result<Answer, Error>,
    /// What the log was like then, if it could be written.
    pub stat: Option<Stat>,
}

/// A log that is open in some way, on a device or on none.
#[derive(Debug)]
pub enum Open<D> {
    /// It can be written.
    Writer(Box<Log<D>>),
    /// It is damaged, or only to be read.
    Reader(LogReader<D>),
    /// It was closed.
    Closed,
}

impl<D> Open<D> {
    /// The same on another device.
    pub fn on<E>(self, disk: E) -> Open<E> {
        match self {
            Open::Writer(log) => Open::Writer(Box::new((*log).on(disk))),
            Open::Reader(reader) => Open::Reader(reader.on(disk)),
            Open::Closed => Open::Closed,
        }
    }
}

/// The log.
#[derive(Debug)]
pub struct LogVolume {
    pub(super) open: Open<DeviceDisk>,
    queue: VecDeque<Call>,
    /// A clean shutdown was asked for.
    stopping: bool,
    failed: bool,
    now: Time,
}

impl LogVolume {
    /// A log on a device.
    pub fn new(open: Open<DeviceDisk>) -> LogVolume {
        LogVolume { open, queue: VecDeque::new(), stopping: false, failed: false, now: 0 }
    }

    /// Takes a call, which the next event carries out.
    pub fn send(&mut self, call: Call) {
        self.queue.push_back(call);
    }

    /// Carries out a call.
    pub fn call(&mut self, call: Call) -> Reply {
        let Open::Writer(log) = &mut self.open else {
            return Reply { result: Err(Error::Failed), stat: None };
        };
        let result = match call {
            Call::Append(bytes) => log.append(&bytes).map(Answer::Appended),
            Call::Sync => log.sync().map(|()| Answer::Done),
            Call::Trim(to) => {
                let to = to.unwrap_or_else(|| log.stat().end);
                log.trim(to).map(|()| Answer::Done)
            }
            Call::Read(at) => log.read(at).map(Answer::Read),
        };
        self.failed |= log.has_failed();
        Reply { result, stat: Some(log.stat()) }
    }

    fn close(&mut self) {
        if let Open::Writer(log) = std::mem::replace(&mut self.open, Open::Closed) {
            self.failed |= (*log).close().is_err();
        }
    }
}

impl Volume for LogVolume {
    type Reply = Reply;

    fn describe(&self) -> String {
        match &self.open {
            Open::Writer(log) => {
                let Stat { size, unit, .. } = log.stat();
                format!("a log of {} KiB in units of {} KiB", size >> 10, unit >> 10)
            }
            Open::Reader(_) => "a log that is read".to_owned(),
            Open::Closed => "a log that is closed".to_owned(),
        }
    }

    fn next_event(&self) -> Option<Time> {
        let is_busy = !self.queue.is_empty() || self.stopping && !self.stopped();
        is_busy.then_some(self.now)
    }

    fn settle(&mut self, now: Time, replies: &mut Vec<Reply>) {
        self.now = self.now.max(now);
        while let Some(call) = self.queue.pop_front() {
            let reply = self.call(call);
            replies.push(reply);
        }
        if self.stopping {
            self.close();
        }
    }

    fn stop(&mut self, _now: Time) {
        self.stopping = true;
    }

    fn stopped(&self) -> bool {
        matches!(self.open, Open::Closed)
    }

    fn has_failed(&self) -> bool {
        self.failed
    }
}
