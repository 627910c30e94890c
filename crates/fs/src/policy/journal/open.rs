//! What outlives its group: space that is given up and not free yet, and inodes without a name.
//!
//! Space is free in the maps when the group that gives it up is durable: only then may it be used
//! again. Recovery frees what was still open, and deletes inodes without a name. So a checkpoint
//! carries both on before the start of the log passes the group that opened them.

use super::Lsn;
use crate::log::{GroupBuilder, Record, Space, checkpoint};
use crate::tx::Deferred;
use seekless_engine::edge::Edge;
use std::collections::{BTreeMap, VecDeque};

/// Pieces that one step frees at most after a recovery.
const MOST_PIECES: usize = 256;

/// Intents and orphans.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Open {
    /// Space that is given up, with the group that says so last.
    intents: BTreeMap<Space, Lsn>,
    /// Inodes without a name, in the same way.
    orphans: BTreeMap<u32, Lsn>,
    /// Space to be freed when the log is durable up to here, in the order of the log.
    waiting: VecDeque<(Lsn, Vec<Deferred>)>,
    /// Behind the last group that closed something.
    closed: Lsn,
}

/// The space of a piece, as records have it.
pub(in crate::policy) fn space_of(piece: Deferred) -> Space {
    let [what, first, count, rest] = piece.0;
    debug_assert_eq!(rest, 0, "a log has records of space");
    (what as u8, first, count as u16)
}

fn piece_of((what, first, count): Space) -> Deferred {
    Deferred([u32::from(what), first, u32::from(count), 0])
}

impl Open {
    /// What a recovery has left, in a group that is durable.
    pub fn recovered(lsn: Lsn, intents: &[Space], orphans: &[u32]) -> Open {
        let waiting = intents
            .chunks(MOST_PIECES)
            .map(|part| (lsn, part.iter().map(|&space| piece_of(space)).collect()));
        Open {
            waiting: waiting.collect(),
            intents: intents.iter().map(|&space| (space, lsn)).collect(),
            orphans: orphans.iter().map(|&ino| (ino, lsn)).collect(),
            closed: lsn,
        }
    }

    /// The group from `lsn` to `end` gives up space.
    pub fn give_up(&mut self, pieces: Vec<Deferred>, lsn: Lsn, end: Lsn) {
        if pieces.is_empty() {
            return;
        }
        self.intents.extend(pieces.iter().map(|&piece| (space_of(piece), lsn)));
        self.waiting.push_back((end, pieces));
    }

    /// The group in front of `end` says that space is free in the maps.
    pub fn freed(&mut self, piece: Deferred, end: Lsn) {
        self.intents.remove(&space_of(piece));
        self.closed = end;
    }

    /// An inode has lost its last name.
    pub fn orphan(&mut self, ino: u32, lsn: Lsn) {
        self.orphans.insert(ino, lsn);
    }

    /// The group in front of `end` says that an inode is free, or has a name.
    pub fn adopt(&mut self, ino: u32, end: Lsn) {
        self.orphans.remove(&ino);
        self.closed = end;
    }

    /// Space that may be freed where the log is durable up to here.
    pub fn take_free(&mut self, durable: Lsn) -> Option<Vec<Deferred>> {
        let end = self.waiting.front()?.0;
        let may = Edge::LogFreeAfter.allows(end <= durable);
        may.then(|| self.waiting.pop_front()).flatten().map(|one| one.1)
    }

    /// Pieces of space that are not free yet.
    pub fn pieces(&self) -> usize {
        self.intents.len()
    }

    /// True if the start may not pass to `to` without a checkpoint: something was opened in front
    /// of it and is still open, or it was closed by a group that is not durable.
    pub fn needs_checkpoint(&self, to: Lsn, durable: Lsn) -> bool {
        let is_open = self.intents.values().chain(self.orphans.values()).any(|&lsn| lsn < to);
        is_open || Edge::LogClosed.blocks(self.closed > durable)
    }

    /// Bytes of a checkpoint of all that is open.
    pub fn checkpoint_bytes(&self) -> usize {
        64 + 12 * self.intents.len() + 8 * self.orphans.len()
    }

    /// A checkpoint: groups of all that is open, for the start of the log to pass it.
    pub fn checkpoint(&self) -> Vec<GroupBuilder> {
        let intents = self.intents.keys();
        let intents = intents.map(|&(what, first, count)| Record::Free { what, first, count });
        let orphans = self.orphans.keys().map(|&ino| Record::Orphan(ino));
        checkpoint(&intents.chain(orphans).collect::<Vec<_>>())
    }

    /// A checkpoint begins at this position.
    pub fn carried_on(&mut self, lsn: Lsn) {
        self.intents.values_mut().chain(self.orphans.values_mut()).for_each(|at| *at = lsn);
    }
}
