//! What all members are told at once: flushes, superblocks, the bitmap.

use super::clean_shutdown::Leaving;
use super::{Array, Call};
use crate::member::BITMAP_BLOCK;
use seekless_engine::data::Data;
use seekless_engine::edge::Edge;
use seekless_engine::io::{Io, IoError, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::units::{SECONDS, Time};

/// How long a region must have had no write before its mark is cleared.
const QUIET_NS: Time = 5 * SECONDS;

/// A block that all members get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broadcast {
    /// Their superblocks.
    Superblocks = 0,
    /// The intent bitmap.
    Bitmap = 1,
}

/// One that is on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    left: u32,
    flushing: bool,
}

/// Why all members are flushed.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// A request waits for it.
    Request(usize),
    /// To make room in the logs.
    Room,
    /// Before marks are cleared of regions quiet since then.
    Clear(Vec<usize>, Time),
    /// Before the clean shutdown is written down.
    Stop,
    /// Before the progress of a rebuild is written down: stripes below that are done.
    Rebuilt(u64),
}

/// A flush of all members.
#[derive(Clone, Debug)]
pub(super) struct MemberFlush {
    left: u32,
    /// Operations that had ended when it began.
    mark: u64,
    then: Then,
}

impl MemberFlush {
    pub(super) fn is_for_room(&self) -> bool {
        matches!(self.then, Then::Room)
    }
}

impl Array {
    /// Flushes all members.
    pub(super) fn flush_members(&mut self, then: Then) {
        let members = if self.volatile { self.informed() } else { Vec::new() };
        // One for the beginning, so that it does not end before all have been asked.
        let left = members.len() as u32 + 1;
        let flush = self.member_flushes.insert(MemberFlush { left, mark: self.clock, then });
        for member in members {
            self.member_queue.push(member, Edge::MemberFlush.flush(0), Call::MemberFlush { flush });
        }
        self.member_flushed(flush);
    }

    pub(super) fn member_flush_answered(
        &mut self,
        flush: usize,
        member: usize,
        outcome: Result<Data, IoError>,
    ) {
        if let Err(error) = outcome {
            self.member_failed(member, error);
        }
        self.member_flushed(flush);
    }

    fn member_flushed(&mut self, flush: usize) {
        let one = &mut self.member_flushes[flush];
        one.left -= 1;
        if one.left > 0 {
            return;
        }
        let MemberFlush { mark, then, .. } = self.member_flushes.remove(flush);
        let mark = Edge::MemberFlushCovers.covers(mark, self.clock);
        debug_assert!(mark <= self.clock, "a flush covers only what had ended");
        // After an error a member may have dropped what the flush was to cover.
        if self.table.failed().is_none() {
            self.flushed = self.flushed.max(mark);
        }
        match then {
            Then::Request(request) => {
                self.part_done(request, self.table.failed().map_or(Ok(()), Err));
            }
            // The log sees that it has room when it is asked for its next batch.
            Then::Room => {}
            Then::Clear(regions, since) => self.clear = Some((regions, since)),
            Then::Stop => {
                debug_assert_eq!(self.leaving, Some(Leaving::Flushing), "it asked for this flush");
                self.leaving = Some(Leaving::Flushed);
            }
            Then::Rebuilt(stripes) => self.rebuilt_durably(stripes),
        }
    }

    /// True if the members know all that has to be known before a change is acknowledged.
    pub(super) fn is_settled(&self) -> bool {
        let writing = self.broadcasts[Broadcast::Superblocks as usize].is_some();
        self.stale == 0 && !writing || self.table.failed().is_some()
    }

    /// Sends one block to all members.
    fn broadcast(&mut self, broadcast: Broadcast, block: impl Fn(&Array, usize) -> (u64, Data)) {
        let members = self.informed();
        debug_assert!(!members.is_empty(), "an array has members");
        debug_assert!(self.broadcasts[broadcast as usize].is_none(), "one {broadcast:?} at a time");
        self.broadcasts[broadcast as usize] =
            Some(Sending { left: members.len() as u32, flushing: false });
        for member in members {
            let (at, data) = block(self, member);
            let io = Io::write(0, at, data).for_purpose(Purpose::Map);
            self.member_queue.push(member, io, Call::Broadcast(broadcast));
        }
    }

    /// Begins with what is to be sent to all and is not on its way.
    pub(super) fn advance_broadcasts(&mut self, cx: &mut Cx<'_>) {
        if self.table.failed().is_some() {
            // A failed array marks nothing: operations that wait for a mark hear why.
            let unmarked = std::mem::take(&mut self.unmarked);
            unmarked.into_iter().for_each(|op| self.write_in_place(op));
        }
        if self.table.is_read_only() || self.table.failed().is_some() {
            return;
        }
        if self.stale > 0 && self.broadcasts[Broadcast::Superblocks as usize].is_none() {
            self.stale -= 1;
            // One count each time, so that the copies take turns in the two blocks.
            self.superblock.events += 1;
            self.broadcast(Broadcast::Superblocks, |array, member| {
                let superblock = &array.superblock;
                (superblock.slot(), Data::bytes(superblock.encode(member)))
            });
        }
        if self.broadcasts[Broadcast::Bitmap as usize].is_none() {
            // While a member that failed is not known to be out, its absence is what the marks say.
            let settled = self.is_settled();
            let (clear, since) = self.clear.take().filter(|_| settled).unwrap_or_default();
            if let Some(block) = self.bitmap.next_block(&clear, since, cx.now) {
                self.counters.bitmap_writes += 1;
                self.broadcast(Broadcast::Bitmap, |_, _| {
                    (BITMAP_BLOCK, Data::bytes(block.clone()))
                });
            }
        }
        self.clear_quiet(cx.now);
    }

    /// Every few seconds, looks for marks that no write needs.
    fn clear_quiet(&mut self, now: Time) {
        if self.clear_at.is_some_and(|at| at <= now) {
            self.clear_at = None;
            let since = now.saturating_sub(QUIET_NS);
            let quiet = self.bitmap.quiet(since);
            if !quiet.is_empty() && self.is_settled() {
                match Edge::ClearAfterFlush.stands() {
                    true => self.flush_members(Then::Clear(quiet, since)),
                    false => self.clear = Some((quiet, since)),
                }
            }
        }
        if self.clear_at.is_none() && self.bitmap.any_marked() && self.table.is_running() {
            self.clear_at = Some(now + QUIET_NS);
        }
    }

    pub(super) fn broadcast_answered(
        &mut self,
        broadcast: Broadcast,
        member: usize,
        outcome: Result<Data, IoError>,
    ) {
        if let Err(error) = outcome {
            self.member_failed(member, error);
        }
        let sending = self.broadcasts[broadcast as usize].as_mut().expect("it is on its way");
        sending.left -= 1;
        if sending.left > 0 {
            return;
        }
        if self.volatile && !sending.flushing {
            let members = self.informed();
            let left = members.len() as u32;
            debug_assert!(left > 0, "no answer would ever come");
            self.broadcasts[broadcast as usize] = Some(Sending { left, flushing: true });
            for member in members {
                let io = Edge::BroadcastFlush.flush(0).for_purpose(Purpose::Map);
                self.member_queue.push(member, io, Call::Broadcast(broadcast));
            }
            return;
        }
        self.broadcasts[broadcast as usize] = None;
        if broadcast == Broadcast::Bitmap {
            debug_assert!(self.bitmap.is_writing(), "a bitmap was sent that was not handed out");
            self.bitmap.written();
            // A region that was asked for after the block had been handed out is in the next one.
            let (go, wait): (Vec<usize>, Vec<usize>) = std::mem::take(&mut self.unmarked)
                .into_iter()
                .partition(|&op| self.bitmap.is_marked(self.ops[op].stripe));
            self.unmarked = wait;
            go.into_iter().for_each(|op| self.write_in_place(op));
        }
    }
}
