//! Where recovery begins: the start of the log moves when space is wanted.
//!
//! The start may pass a group when everything that the group changed is in place and flushed. What
//! it opened and is still open goes into a checkpoint group first. Then a superblock names the new
//! start; when that is durable, the space in front of it is used again.

use super::Journal;
use crate::log::format::PAYLOAD;
use crate::log::{LogSuperblock, Lsn};
use crate::tx::BlockNo;
use seekless_engine::edge::Edge;
use seekless_engine::units::{BLOCK_SECTORS, Time};

/// Bytes that one more operation may add to a checkpoint, and that forces may fill up.
const SLACK: usize = 32 << 10;

/// How far a move of the start has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Moving {
    /// It stands.
    #[default]
    Stands,
    /// Blocks that keep groups in front of this position are being written.
    Writes(Lsn),
    /// A checkpoint is to be durable up to `end`; then the start moves to `to`.
    Checkpoint {
        /// Where the start moves.
        to: Lsn,
        /// Behind the checkpoint.
        end: Lsn,
    },
    /// A superblock is being written.
    Superblock,
    /// The last superblock is being written.
    Last,
    /// The log has ended.
    Ended,
}

impl Journal {
    /// True if the ring is so full that its start is to move.
    pub(super) fn wants_space(&self) -> bool {
        self.ring.used_sectors() > self.moves_at() || self.lacks_space()
    }

    /// Sectors in use at which the start moves.
    fn moves_at(&self) -> u64 {
        self.options.start_moves_at.unwrap_or(self.ring.shape().sectors() / 2)
    }

    /// Bytes that a checkpoint needs, at most.
    pub(super) fn checkpoint_cost(&self) -> usize {
        self.open.checkpoint_bytes() + SLACK
    }

    fn lacks_space(&self) -> bool {
        crate::policy::Policy::lacks_room(self)
    }

    /// The first group that recovery needs.
    fn first_needed(&self) -> Lsn {
        let undurable = self.undurable.front().map_or(self.ring.end(), |one| one.lsn);
        let pinned = if Edge::LogStartHome.stands() { self.pins.first() } else { None };
        pinned.map_or(undurable, |first| first.min(undurable)).min(self.ring.durable())
    }

    /// The superblock that is to be written now.
    pub(super) fn next_superblock(&mut self, now: Time) -> Option<LogSuperblock> {
        if self.ring.awaits_superblock() {
            return None;
        }
        let moves = match self.moving {
            Moving::Stands | Moving::Writes(_) if self.ends => self.last_superblock(),
            Moving::Stands | Moving::Writes(_) if self.wants_space() => self.try_to_move(now),
            Moving::Checkpoint { to, end } if end <= self.ring.durable() => self.move_to(to),
            _ => None,
        };
        // A superblock that moves the start names what is on the disk, too.
        moves.or_else(|| self.naming_superblock())
    }

    /// A superblock that names what is on the disk, if that is to count.
    fn naming_superblock(&mut self) -> Option<LogSuperblock> {
        let is_wanted = self.wanted > self.ring.durable();
        let ends = matches!(self.moving, Moving::Last | Moving::Ended);
        if is_wanted && !ends { self.ring.name() } else { None }
    }

    fn try_to_move(&mut self, now: Time) -> Option<LogSuperblock> {
        let (start, to) = (self.ring.start(), self.first_needed());
        let gain = to.number().saturating_sub(start.number());
        // Checkpoint, and the rest of a block that a force fills, take less than the move gives.
        let cost = (self.open.checkpoint_bytes() / PAYLOAD) as u64 + 1 + BLOCK_SECTORS;
        let used = self.ring.used_sectors();
        let least = if self.lacks_space() { cost } else { cost.max(self.moves_at() / 8) };
        let asked = match self.moving {
            Moving::Writes(asked) => to >= asked,
            _ => true,
        };
        if gain <= least || !asked && gain < used / 2 {
            self.hurry(start);
            return None;
        }
        let needs = self.open.needs_checkpoint(to, self.ring.durable());
        if !Edge::LogCheckpoint.blocks(needs) {
            return self.move_to(to);
        }
        let begin = self.end;
        for group in self.open.checkpoint() {
            self.append(group, now)?;
        }
        self.open.carried_on(begin);
        self.wanted = self.end;
        self.moving = Moving::Checkpoint { to, end: self.end };
        None
    }

    /// Asks for what keeps the older half of the log, unless that is under way.
    fn hurry(&mut self, start: Lsn) {
        if matches!(self.moving, Moving::Writes(_)) {
            return;
        }
        let half = self.ring.used_sectors().div_ceil(2);
        let to = Lsn::new(start.number() + half, 0);
        self.moving = Moving::Writes(to);
        self.hurried = self.pins.blocks_before(to).into_iter().collect();
        self.wanted = self.wanted.max(to.min(self.end));
    }

    fn move_to(&mut self, to: Lsn) -> Option<LogSuperblock> {
        let superblock = self.ring.release(to);
        self.moving = if superblock.is_some() { Moving::Superblock } else { Moving::Stands };
        superblock
    }

    fn last_superblock(&mut self) -> Option<LogSuperblock> {
        let is_durable = self.undurable.is_empty() && self.in_flight == 0;
        if !is_durable || self.pins.first().is_some() || !self.ring.is_quiet() {
            return None;
        }
        self.moving = Moving::Last;
        Some(self.ring.clone().finish())
    }

    /// Blocks that are to be written so that the start can move.
    pub(super) fn take_hurried(&mut self) -> Vec<BlockNo> {
        std::mem::take(&mut self.hurried)
    }

    /// The superblock that was under way is durable.
    pub(super) fn superblock_is_durable(&mut self) {
        match self.moving {
            Moving::Last => self.moving = Moving::Ended,
            Moving::Superblock => {
                self.ring.superblock_written();
                self.counts.moves += 1;
                self.moving = Moving::Stands;
            }
            // It named what is on the disk, and moved nothing.
            _ => self.ring.superblock_written(),
        }
    }
}
