//! A map block that the medium refuses goes elsewhere, on devices with a volatile cache.
//!
//! As in [`vlog`](crate::vlog): a commit of which a command is refused is written again, block by
//! block, the oldest first. A map block that is refused alone gets another place, and those behind
//! it that place in their pointers. Its number stays, so a recovery may find two copies; it takes
//! either. A place of what a spill has put down is in checksums of the same commit: where the
//! medium refuses that one, writing ends.

use super::format::looks_like_map;
use super::{MAP, Vlfs};
use crate::eager::commit::Commit;
use crate::eager::one_by_one::OneByOne;
use crate::vlog::format::{Entry, Header, decode_header, seal_map};
use bytes::Bytes;
use seekless_engine::checksum::Identity;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::io::{Io, IoError, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::units::BlockNr;

/// A block of the commit on its way.
#[derive(Clone, Debug)]
struct Block {
    place: u32,
    piece: Piece,
    /// The slice that it is the map block of.
    slice: Option<u32>,
}

/// The blocks of the commit on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    blocks: Vec<Block>,
    /// They are written one by one.
    alone: Option<OneByOne>,
    /// Places that the medium has refused to take a map block at.
    pub(super) refused: u64,
}

impl Sent {
    pub(super) fn push(&mut self, place: u32, piece: Piece, slice: Option<u32>) {
        self.blocks.push(Block { place, piece, slice });
    }

    /// True while they are written one by one.
    pub(super) fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.alone = None;
    }

    /// Puts a map block elsewhere: those behind it point to the new place.
    fn put(&mut self, id: Identity, index: usize, place: u32) {
        let moved = &mut self.blocks[index];
        let Some(sequence) = reseal(id, moved, place, |_| {}) else { return };
        for block in self.blocks[index + 1..].iter_mut().filter(|block| block.slice.is_some()) {
            reseal(id, block, block.place, |header| {
                let same = header.pointers.iter_mut().filter(|one| one.sequence == sequence);
                same.for_each(|pointer| pointer.place = place);
            });
        }
    }
}

/// Writes a map block down anew for a place, with a header that has changed. Returns its sequence
/// number.
fn reseal(
    id: Identity,
    block: &mut Block,
    place: u32,
    change: impl Fn(&mut Header),
) -> Option<u64> {
    let mut bytes = block.piece.to_bytes().to_vec();
    debug_assert!(looks_like_map(id, &bytes), "slice {:?}", block.slice);
    let mut header = decode_header(id, block.place, &bytes)?;
    change(&mut header);
    seal_map(id, place, &header, &mut bytes);
    block.place = place;
    block.piece = Piece::block(Body::Bytes(Bytes::from(bytes)));
    Some(header.sequence)
}

impl Vlfs {
    /// All commands of a commit have been answered, and one has failed or its blocks are written
    /// one by one. True if it goes on.
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
        let io = Io::write(MAP, BlockNr::from(block.place), Data::from(block.piece));
        cx.send(0, io.for_purpose(Purpose::Map));
        true
    }

    /// The block to write next, at a place that was not refused; `None` if there is none.
    fn after_refusal(&mut self, cx: &Cx<'_>) -> Option<usize> {
        let Some(turn) = &mut self.sent.alone else {
            return Some(self.sent.alone.insert(OneByOne::default()).at());
        };
        let at = turn.at();
        let slice = self.sent.blocks.get(at)?.slice?;
        if !turn.refused() || self.free.free() == 0 {
            return None;
        }
        self.sent.refused += 1;
        self.placer.nominal.leave(&self.free, self.sent.blocks[at].place);
        let place = self.place(1, true, cx);
        self.objects.nodes.forget(place);
        self.sent.put(self.id, at, place);
        self.tree.relocate(slice, place);
        Some(at)
    }
}
