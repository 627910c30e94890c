//! What the binding of an origin says of its log while both are mounted: a record that was durable
//! there, and how much was in the log only. A log that ends before that record was put back from a
//! copy.
//!
//! Nothing waits for a stale-log marker. Batches on their way home bring one along now and then,
//! and a clean shutdown that leaves something in the log leaves one. It goes to the second copy of
//! the binding only: torn, it leaves the first one, which says less and is no less true.

use super::Dcd;
use super::binding::Binding;
use super::rescue::Rescue;
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::superblock::Superblock;
use seekless_engine::units::{BlockNr, SECONDS, Time};

/// Where stale-log markers go.
pub(super) const MARKER_BLOCK: BlockNr = 1;
/// Notes of batches have so much time between them: each may cost the origin a seek.
const PAUSE: Time = 10 * SECONDS;

/// The binding, and when batches bring the next stale-log marker.
#[derive(Clone, Debug)]
pub struct StaleMarkers {
    /// The superblock of the log.
    pub log: Superblock,
    pub binding: Binding,
    /// The rescue copy in the binding.
    pub rescue: Rescue,
    /// The first blocks have changed since the rescue copy was made.
    pub first_changed: bool,
    /// When the rescue copy may be renewed.
    pub next_refresh: Time,
    next: Time,
}

impl StaleMarkers {
    /// For an origin that has this binding.
    pub fn new(log: Superblock, binding: Binding, rescue: Rescue) -> StaleMarkers {
        let (first_changed, next_refresh, next) = (false, 0, 0);
        StaleMarkers { log, binding, rescue, first_changed, next_refresh, next }
    }

    /// The binding, once it knows of a record.
    fn knows(&mut self, seq: u64, dirty: u64) -> Option<Data> {
        if seq <= self.binding.seen {
            return None;
        }
        (self.binding.seen, self.binding.dirty) = (seq, dirty);
        Some(self.binding.copy_with(&self.rescue, MARKER_BLOCK))
    }
}

impl Dcd {
    /// A stale-log marker that goes home with a batch, if it is time for one.
    pub(super) fn marker_of_batch(&mut self, tag: Tag, now: Time) -> Option<Io> {
        let idle = self.moving.is_none();
        let markers = self.markers.as_mut().filter(|markers| markers.next <= now && idle)?;
        let binding = markers.knows(self.log.durable, self.log.dirty())?;
        markers.next = now + PAUSE;
        Some(Io::write(tag, MARKER_BLOCK, binding).for_purpose(Purpose::Destaging))
    }

    /// The last stale-log marker, once the record of the clean shutdown is durable. It names the
    /// one before: that is as good, and should the last one rot nothing is lost with it.
    pub(super) fn last_marker(&mut self) -> Option<Data> {
        let (seq, dirty) = (self.log.durable.saturating_sub(1), self.log.dirty());
        self.markers.as_mut()?.knows(seq, dirty)
    }

    /// The last stale-log marker has been answered.
    pub(super) fn marker_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        if let Err(error) = done.outcome {
            return self.fail_volume(error, cx);
        }
        self.home_written(0);
        self.clean_record.marker_written(self.home_writes.done()[0]);
    }
}
