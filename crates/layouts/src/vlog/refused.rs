//! What the medium refuses to take at one place is written to another one, on devices with a
//! volatile cache.
//!
//! Data is looked after by [`crate::eager::writes`]. A commit of which a command is refused is
//! written again, map block by map block, the oldest first: each at its place, or at another one
//! where the medium refuses it alone. The map blocks behind it get the new place in their pointers;
//! those before it do not name it, being older. Commit and sequence numbers stay, since no flush
//! has called the commit durable. So two copies of a map block may be found, one of them at a place
//! that the map does not know: they say the same of the volume, and a recovery takes either.

use super::map::MapBlock;
use super::{MAP, RESERVE, Vlog};
use crate::eager::Mapped;
use crate::eager::commit::Commit;
use crate::eager::one_by_one::OneByOne;
use crate::eager::writes::Refused;
use crate::vlog::format::Entry;
use seekless_engine::data::{Body, Data};
use seekless_engine::io::{Io, IoError, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BlockNr;
use std::sync::Arc;

/// The map blocks of the commit on its way.
#[derive(Clone, Default)]
pub(super) struct Sent {
    blocks: Vec<Arc<MapBlock>>,
    /// They are written one by one.
    alone: Option<OneByOne>,
    /// Places that the medium has refused to take a map block at.
    pub(super) refused: u64,
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} map blocks, alone: {:?}", self.blocks.len(), self.alone)
    }
}

impl Sent {
    pub(super) fn push(&mut self, block: &Arc<MapBlock>) {
        self.blocks.push(block.clone());
    }

    /// True while they are written one by one.
    pub(super) fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.alone = None;
    }

    /// Puts one elsewhere: those behind it point to the new place.
    fn put(&mut self, index: usize, place: u32) {
        let sequence = self.blocks[index].header().sequence;
        self.blocks[index] = self.blocks[index].moved(place);
        for block in &mut self.blocks[index + 1..] {
            if block.header().pointers.iter().any(|pointer| pointer.sequence == sequence) {
                *block = block.pointing(sequence, place);
            }
        }
    }
}

impl Vlog {
    /// The medium refuses a block of data: it goes elsewhere, if there is room.
    #[cold]
    pub(super) fn put_elsewhere(&mut self, refused: Refused, cx: &mut Cx<'_>) {
        // A map block for each slice that is changed, or about to be.
        let waiting = (self.dirty.len() + self.touching) as u64;
        if self.free.free() <= waiting + RESERVE || self.requests.failed().is_some() {
            let Refused { part, error, .. } = refused;
            let part = self.writes.give_up(part, error, &mut self.requests, cx);
            return self.install_part(&part, cx);
        }
        self.placer.nominal.leave(&self.free, refused.place);
        let place = self.place(1, true, cx);
        let install = self.writes.elsewhere(refused, place, cx);
        for entry in &mut install.entries {
            let refused = entry.is_mapped() && entry.place() == refused.place;
            if refused && !planted(PlantedBug::RefusedPlaceNamed) {
                *entry = entry.moved(place);
            }
        }
    }

    /// All commands of a commit have been answered, and one has failed or its map blocks are
    /// written one by one. True if it goes on.
    #[cold]
    pub(super) fn commit_goes_on(&mut self, commit: &mut Commit<Entry>, cx: &mut Cx<'_>) -> bool {
        let failed = commit.take_failure();
        let movable = |error: &IoError| !self.commits.is_serial() && error.is_of_the_medium();
        let next = match failed {
            None => self.sent.alone.as_mut().map(OneByOne::passed),
            Some(error) if movable(&error) => self.after_refusal(cx),
            Some(_) => None,
        };
        let Some(block) = next.and_then(|at| self.sent.blocks.get(at).cloned()) else {
            if let Some(error) = failed {
                commit.fail(error);
            }
            return false;
        };
        let (place, data) = (block.place(), Data::block_of(Body::Lazy(block)));
        cx.send(0, Io::write(MAP, BlockNr::from(place), data).for_purpose(Purpose::Map));
        true
    }

    /// The map block to write next, at a place that was not refused; `None` if there is none.
    fn after_refusal(&mut self, cx: &Cx<'_>) -> Option<usize> {
        let Some(turn) = &mut self.sent.alone else {
            return Some(self.sent.alone.insert(OneByOne::default()).at());
        };
        let at = turn.at();
        if !turn.refused() || self.free.free() == 0 {
            return None;
        }
        self.put_map_elsewhere(at, cx);
        Some(at)
    }

    fn put_map_elsewhere(&mut self, index: usize, cx: &Cx<'_>) {
        let (slice, bad) =
            (self.sent.blocks[index].header().slice, self.sent.blocks[index].place());
        self.sent.refused += 1;
        self.placer.nominal.leave(&self.free, bad);
        let place = self.place(1, true, cx);
        self.sent.put(index, place);
        self.tree.relocate(slice, place);
        self.compactor.placed_map(place, slice);
    }
}
