//! A device that records its writes in the order in which it completes them.

use seekless_engine::account::Account;
use seekless_engine::arm::{Arm, Head};
use seekless_engine::data::Data;
use seekless_engine::device::{Device, DeviceStatus, Mechanical};
use seekless_engine::io::{Done, Io, Op, Part, Tag};
use seekless_engine::units::{BlockNr, Time};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A write that the device has completed.
#[derive(Clone, Debug)]
pub(super) struct Wrote {
    pub at: BlockNr,
    pub data: Data,
    pub part: Option<Part>,
    /// When it was complete.
    pub completed: Time,
}

/// The recorded writes, shared between the device and their reader.
pub(super) type Writes = Rc<RefCell<Vec<Wrote>>>;

/// The device.
#[derive(Debug)]
pub(super) struct Tape {
    inner: Box<dyn Device>,
    in_flight: BTreeMap<Tag, Wrote>,
    writes: Writes,
}

impl Tape {
    /// Records the writes of a device.
    pub fn new(inner: Box<dyn Device>) -> (Tape, Writes) {
        let writes = Writes::default();
        (Tape { inner, in_flight: BTreeMap::new(), writes: Rc::clone(&writes) }, writes)
    }
}

impl Device for Tape {
    fn blocks(&self) -> u64 {
        self.inner.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        if io.op == Op::Write {
            let Io { at, part, .. } = io;
            let wrote = Wrote { at, data: io.data.clone(), part, completed: now };
            self.in_flight.insert(io.tag, wrote);
        }
        self.inner.submit(now, io);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        let before = done.len();
        self.inner.reap(now, done);
        for one in done[before..].iter().filter(|one| one.outcome.is_ok()) {
            if let Some(wrote) = self.in_flight.remove(&one.tag) {
                self.writes.borrow_mut().push(Wrote { completed: now, ..wrote });
            }
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

impl Mechanical for Tape {
    fn arm(&self) -> Option<&dyn Arm> {
        self.inner.arm()
    }

    fn head(&self, now: Time) -> Option<Head> {
        self.inner.head(now)
    }
}

impl DeviceStatus for Tape {
    fn takes_parts(&self) -> bool {
        self.inner.status().takes_parts()
    }

    fn accounts(&self, each: &mut dyn FnMut(&Account)) {
        self.inner.status().accounts(each);
    }
}
