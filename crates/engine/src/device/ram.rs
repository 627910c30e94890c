//! A device in memory that answers at once.

use super::medium::Medium;
use super::{Device, DeviceStatus};
use crate::data::Data;
use crate::io::Extent;
use crate::io::{Done, Io, IoError, Op};
use crate::units::{BlockNr, Time};

/// Blocks of a transaction, unless a test wants fewer: no cut comes between two blocks in memory.
const TRANSACTION_BLOCKS: u64 = 509;

/// A device without mechanics over any medium. It holds no volatile cache of its own: what it has
/// answered is on the medium.
#[derive(Debug)]
pub struct Ram {
    medium: Box<dyn Medium>,
    volatile: bool,
    parts: bool,
    transaction_blocks: u64,
    ready: Vec<Done>,
    ready_at: Time,
}

impl Ram {
    /// A device over `medium` whose answered writes count as durable.
    pub fn new(medium: Box<dyn Medium>) -> Ram {
        let transaction_blocks = TRANSACTION_BLOCKS;
        Ram {
            medium,
            volatile: false,
            parts: true,
            transaction_blocks,
            ready: Vec::new(),
            ready_at: 0,
        }
    }

    /// A device over `medium` whose answered writes count as durable only after a flush, like
    /// memory that vanishes with the process anyway: layouts may then take their time with
    /// metadata.
    pub fn volatile(medium: Box<dyn Medium>) -> Ram {
        Ram { volatile: true, ..Ram::new(medium) }
    }

    /// The same device for whole blocks only, like a disk of sectors of 4096 bytes.
    pub fn in_whole_blocks(self) -> Ram {
        Ram { parts: false, ..self }
    }

    /// The same device with transactions of so many blocks: no cut can come between them.
    pub fn with_transactions(self, transaction_blocks: u64) -> Ram {
        Ram { transaction_blocks, ..self }
    }
}

/// Carries a request out on a medium.
///
/// # Errors
/// What the medium reports; a range outside it is [`IoError::OutOfRange`].
#[inline]
pub fn carry_out(medium: &mut dyn Medium, io: &Io) -> Result<Data, IoError> {
    debug_assert!(io.op != Op::Write || io.data.blocks() == io.count, "{io:?}");
    if let Some(places) = &io.places {
        let mut blocks = (0..).zip(places.iter());
        let each = |(index, &at)| medium.write(at, &io.data.slice(index, 1));
        return blocks.try_for_each(each).map(|()| Data::none());
    }
    if io.at + u64::from(io.count) > medium.blocks() {
        return Err(IoError::OutOfRange { at: io.at, count: io.count });
    }
    debug_assert!(io.has_sound_part(), "{io:?}");
    match io.op {
        Op::Read => medium.read(io.at, io.count),
        Op::Write => match (&io.labels, io.part) {
            (None, None) => medium.write(io.at, &io.data),
            (None, Some(part)) => medium.write_part(io.at, &io.data, part),
            (Some(labels), _) => medium.write_labelled(io.at, &io.data, labels),
        }
        .map(|()| Data::none()),
        Op::Trim => medium.trim(io.at, io.count).map(|()| Data::none()),
        Op::Flush => medium.sync().map(|()| Data::none()),
    }
}

impl Device for Ram {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        let outcome = carry_out(self.medium.as_mut(), &io);
        self.ready.push(Done::new(io.tag, outcome));
        debug_assert!(self.ready.is_empty() || self.ready_at <= now, "time goes back");
        self.ready_at = now;
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Done>) {
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        (!self.ready.is_empty()).then_some(self.ready_at)
    }

    fn volatile(&self) -> bool {
        self.volatile
    }

    fn extent(&mut self, at: BlockNr, limit: u64) -> (Extent, u64) {
        self.medium.extent(at, limit)
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for Ram {
    fn takes_parts(&self) -> bool {
        self.parts
    }

    fn transaction_blocks(&self) -> u64 {
        self.transaction_blocks
    }
}
