//! Records every request to a device and every answer, so that two runs can be compared and a
//! failure can be printed step by step.

use crate::account::Account;
use crate::arm::{Arm, Head};
use crate::checksum;
use crate::data::Data;
use crate::device::{Device, DeviceStatus, Mechanical};
use crate::io::{Done, Io, IoError, Op, Tag};
use crate::units::{BlockNr, Time};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// One event of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request came in.
    Submitted {
        /// Time of arrival.
        at_ns: Time,
        /// Its tag.
        tag: Tag,
        /// Its operation.
        op: Op,
        /// Forced unit access.
        fua: bool,
        /// First block.
        at: BlockNr,
        /// Number of blocks.
        count: u32,
        /// See [`digest`]; 0 without payload.
        digest: u32,
    },
    /// An answer went out.
    Completed {
        /// Time of the answer.
        at_ns: Time,
        /// Tag of the request.
        tag: Tag,
        /// [`digest`] of the content that was read, or the error.
        outcome: Result<u32, IoError>,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Event::Submitted { at_ns, tag, op, fua, at, count, digest } => {
                let force = if fua { " fua" } else { "" };
                write!(f, "{at_ns} ns: {op:?}{force} {at}+{count} tag {tag:#x} data {digest:08x}")
            }
            Event::Completed { at_ns, tag, outcome: Ok(digest) } => {
                write!(f, "{at_ns} ns: done tag {tag:#x} data {digest:08x}")
            }
            Event::Completed { at_ns, tag, outcome: Err(error) } => {
                write!(f, "{at_ns} ns: failed tag {tag:#x}: {error}")
            }
        }
    }
}

/// CRC-32C of the bytes of a payload: stamps count as the bytes they stand for. 0 for no payload.
pub fn digest(data: &Data) -> u32 {
    if data.is_empty() { 0 } else { checksum::crc32c(&data.to_bytes()) }
}

/// The recorded events, shared between the device and their readers.
pub type Log = Rc<RefCell<Vec<Event>>>;

/// A device that records the requests and answers of another one.
#[derive(Debug)]
pub struct Record {
    inner: Box<dyn Device>,
    log: Log,
}

impl Record {
    /// Wraps a device; events are appended to the returned log.
    pub fn new(inner: Box<dyn Device>) -> (Record, Log) {
        let log = Log::default();
        (Record { inner, log: log.clone() }, log)
    }
}

impl Device for Record {
    fn blocks(&self) -> u64 {
        self.inner.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        let Io { tag, op, fua, at, count, .. } = io;
        let digest = digest(&io.data);
        let event = Event::Submitted { at_ns: now, tag, op, fua, at, count, digest };
        self.log.borrow_mut().push(event);
        self.inner.submit(now, io);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        let before = done.len();
        self.inner.reap(now, done);
        let mut log = self.log.borrow_mut();
        for one in &done[before..] {
            let outcome = one.outcome.as_ref().map(digest).map_err(|&error| error);
            log.push(Event::Completed { at_ns: now, tag: one.tag, outcome });
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.inner.next_event()
    }

    fn volatile(&self) -> bool {
        self.inner.volatile()
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }

    fn mechanical(&self) -> Option<&dyn Mechanical> {
        Some(self)
    }
}

impl Mechanical for Record {
    fn arm(&self) -> Option<&dyn Arm> {
        self.inner.arm()
    }

    fn head(&self, now: Time) -> Option<Head> {
        self.inner.head(now)
    }
}

impl DeviceStatus for Record {
    fn has_copies(&self) -> bool {
        self.inner.status().has_copies()
    }

    fn takes_parts(&self) -> bool {
        self.inner.status().takes_parts()
    }

    fn accounts(&self, each: &mut dyn FnMut(&Account)) {
        self.inner.status().accounts(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::medium::Cells;
    use crate::device::ram::Ram;

    #[test]
    fn digests_see_content_and_order_but_not_pieces() {
        let whole = Data::stamp(3, 7, 1);
        let mut parts = Data::bytes(whole.slice(0, 2).to_bytes());
        parts.append(whole.slice(2, 1));
        assert_eq!(digest(&whole), digest(&parts));
        let mut swapped = whole.slice(1, 2);
        swapped.append(whole.slice(0, 1));
        assert_ne!(digest(&whole), digest(&swapped));
        assert_eq!(digest(&Data::none()), 0);
        assert_ne!(digest(&Data::zeros(1)), digest(&Data::zeros(2)));
    }

    #[test]
    fn requests_and_answers_are_taken_down() {
        let (mut device, log) = Record::new(Box::new(Ram::new(Box::new(Cells::new(4)))));
        let data = Data::stamp(2, 0, 1);
        device.submit(5, Io::write(1, 2, data.clone()));
        device.submit(5, Io::read(2, 2, 2));
        device.submit(5, Io::read(3, 3, 2));
        let mut done = Vec::new();
        device.reap(9, &mut done);
        let log = log.borrow();
        assert_eq!(log.len(), 6);
        let sum = digest(&data);
        assert!(matches!(log[0], Event::Submitted { at_ns: 5, digest, .. } if digest == sum));
        assert_eq!(log[4], Event::Completed { at_ns: 9, tag: 2, outcome: Ok(sum) });
        assert!(log[5].to_string().contains("outside the device"), "{}", log[5]);
    }
}
