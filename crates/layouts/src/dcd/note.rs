//! What the seal of an origin says of its log while both are mounted: a record that was durable
//! there. A log that ends before it was put back from a copy.
//!
//! Nothing waits for a note. Batches on their way home bring one along now and then, and an orderly
//! end leaves one. It goes to the second copy of the seal only: torn, it leaves the first one,
//! which says less and is no less true.

use super::Dcd;
use super::format::Seal;
use super::settle::Stop;
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::units::{BlockNr, SECONDS, Time};

/// Where notes go.
pub(super) const NOTE_BLOCK: BlockNr = 1;
/// Notes of batches have so much time between them: each may cost the origin a seek.
const PAUSE: Time = 10 * SECONDS;

/// The seal, and when batches bring the next note.
#[derive(Clone, Debug)]
pub struct Notes {
    seal: Seal,
    next: Time,
}

impl Notes {
    /// For an origin that has this seal.
    pub fn new(seal: Seal) -> Notes {
        Notes { seal, next: 0 }
    }

    /// The seal, once it knows of a record.
    fn knows(&mut self, seq: u64) -> Option<Data> {
        if seq <= self.seal.seen {
            return None;
        }
        self.seal.seen = seq;
        Some(self.seal.encode())
    }
}

impl Dcd {
    /// A note that goes home with a batch, if it is time for one.
    pub(super) fn note_of_batch(&mut self, tag: Tag, now: Time) -> Option<Io> {
        let notes = self.notes.as_mut().filter(|notes| notes.next <= now)?;
        let seal = notes.knows(self.log.durable)?;
        notes.next = now + PAUSE;
        Some(Io::write(tag, NOTE_BLOCK, seal).for_purpose(Purpose::Destaging))
    }

    /// The last note, once the record of the orderly end is durable. It names the one before: that
    /// is as good, and should the last one rot nothing is lost with it.
    pub(super) fn last_note(&mut self) -> Option<Data> {
        let seq = self.log.durable.saturating_sub(1);
        self.notes.as_mut()?.knows(seq)
    }

    /// The last note has been answered.
    pub(super) fn note_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        if let Err(error) = done.outcome {
            return self.latch(error, cx);
        }
        self.home_written(0);
        self.stop = Stop::Noted(self.settling.done()[0]);
    }
}
