//! Records every request to a device and every answer, so that two runs can be compared and a
//! failure can be printed step by step.

use crate::checksum;
use crate::data::Data;
use crate::device::Device;
use crate::io::{Done, Io, Outcome, Tag};
use crate::middleware::DeviceAround;
use crate::shared::Shared;
use crate::units::Time;
use std::fmt;

/// One event of a device.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A request came in.
    Submitted {
        /// Time of arrival.
        at_ns: Time,
        /// The request.
        io: Io,
    },
    /// An answer went out.
    Completed {
        /// Time of the answer.
        at_ns: Time,
        /// Tag of the request.
        tag: Tag,
        /// What was read, or the error.
        outcome: Outcome,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Submitted { at_ns, io: Io { tag, op, fua, at, count, data, .. } } => {
                let force = if *fua { " fua" } else { "" };
                let digest = digest(data);
                write!(f, "{at_ns} ns: {op:?}{force} {at}+{count} tag {tag:#x} data {digest:08x}")
            }
            Event::Completed { at_ns, tag, outcome: Ok(data) } => {
                write!(f, "{at_ns} ns: done tag {tag:#x} data {:08x}", digest(data))
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
pub type Log = Shared<Vec<Event>>;

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

impl DeviceAround for Record {
    fn inner(&self) -> &dyn Device {
        self.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        self.inner.as_mut()
    }

    fn submit(&mut self, now: Time, io: Io) {
        self.log.lend().push(Event::Submitted { at_ns: now, io: io.clone() });
        self.inner.submit(now, io);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        let before = done.len();
        self.inner.reap(now, done);
        let answer = |one: &Done| Event::Completed {
            at_ns: now,
            tag: one.tag,
            outcome: one.outcome.clone(),
        };
        self.log.lend().extend(done[before..].iter().map(answer));
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
        let device: &mut dyn Device = &mut device;
        let data = Data::stamp(2, 0, 1);
        device.submit(5, Io::write(1, 2, data.clone()));
        device.submit(5, Io::read(2, 2, 2));
        device.submit(5, Io::read(3, 3, 2));
        let mut done = Vec::new();
        device.reap(9, &mut done);
        let log = log.lend();
        assert_eq!(log.len(), 6);
        assert_eq!(log[0], Event::Submitted { at_ns: 5, io: Io::write(1, 2, data.clone()) });
        assert_eq!(log[4], Event::Completed { at_ns: 9, tag: 2, outcome: Ok(data.clone()) });
        assert!(log[5].to_string().contains("outside the device"), "{}", log[5]);
    }
}
