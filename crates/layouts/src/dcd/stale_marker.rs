//! What the binding of an origin says of its log while both are mounted: a record that was durable
//! there. A log that ends before it was put back from a copy.
//!
//! Nothing waits for a stale-log marker. Batches on their way home bring one along now and then,
//! and a clean shutdown leaves one. It goes to the second copy of the binding only: torn, it leaves
//! the first one, which says less and is no less true.

use super::Dcd;
use super::format::Binding;
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::units::{BlockNr, SECONDS, Time};

/// Where stale-log markers go.
pub(super) const MARKER_BLOCK: BlockNr = 1;
/// Notes of batches have so much time between them: each may cost the origin a seek.
const PAUSE: Time = 10 * SECONDS;

/// The binding, and when batches bring the next stale-log marker.
#[derive(Clone, Debug)]
pub struct StaleMarkers {
    binding: Binding,
    next: Time,
}

impl StaleMarkers {
    /// For an origin that has this binding.
    pub fn new(binding: Binding) -> StaleMarkers {
        StaleMarkers { binding, next: 0 }
    }

    /// The binding, once it knows of a record.
    fn knows(&mut self, seq: u64) -> Option<Data> {
        if seq <= self.binding.seen {
            return None;
        }
        self.binding.seen = seq;
        Some(self.binding.encode())
    }
}

impl Dcd {
    /// A stale-log marker that goes home with a batch, if it is time for one.
    pub(super) fn marker_of_batch(&mut self, tag: Tag, now: Time) -> Option<Io> {
        let markers = self.markers.as_mut().filter(|markers| markers.next <= now)?;
        let binding = markers.knows(self.log.durable)?;
        markers.next = now + PAUSE;
        Some(Io::write(tag, MARKER_BLOCK, binding).for_purpose(Purpose::Destaging))
    }

    /// The last stale-log marker, once the record of the clean shutdown is durable. It names the
    /// one before: that is as good, and should the last one rot nothing is lost with it.
    pub(super) fn last_marker(&mut self) -> Option<Data> {
        let seq = self.log.durable.saturating_sub(1);
        self.markers.as_mut()?.knows(seq)
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
