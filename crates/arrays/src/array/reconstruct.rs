//! Blocks that their member does not give: computed from the others, and written back to a member
//! that could not read them, which makes most disks put them elsewhere.

use super::{Array, Call, StripeOp, Work};
use crate::Level;
use seekless_engine::data::Data;
use seekless_engine::io::{Breakdown, Io, IoError, Purpose};

/// A part of a read that is to be computed.
#[derive(Clone, Debug)]
pub(super) struct Reconstruct {
    request: usize,
    slot: usize,
    /// The member that should have it.
    member: usize,
    row: u32,
    count: u32,
    /// The sum of what has come.
    sum: Option<Data>,
    /// Of a mirror: copies not tried yet.
    others: Vec<usize>,
    error: Option<IoError>,
    /// It is being written back.
    repairing: bool,
}

impl Reconstruct {
    pub(super) fn new(
        request: usize,
        slot: usize,
        member: usize,
        row: u32,
        count: u32,
    ) -> Reconstruct {
        Reconstruct {
            request,
            slot,
            member,
            row,
            count,
            sum: None,
            others: Vec::new(),
            error: None,
            repairing: false,
        }
    }
}

impl Array {
    pub(super) fn start_reconstruct(&mut self, stripe: u64, mut reconstruct: Reconstruct) {
        debug_assert!(self.is_held(stripe), "blocks are summed while no write changes them");
        let mut others: Vec<usize> = (0..self.geometry.members)
            .filter(|&one| one != reconstruct.member && self.present(one, stripe))
            .collect();
        let enough = match self.geometry.level {
            Level::Raid1 => !others.is_empty(),
            _ => others.len() == self.geometry.members - 1,
        };
        let (row, count) = (reconstruct.row, reconstruct.count);
        let mut asked = Vec::new();
        if !enough && self.present(reconstruct.member, stripe) {
            // It has been filled since it was to be computed, and another one has gone out.
            asked.push(reconstruct.member);
        } else if !enough {
            let block = self.slot_block(reconstruct.request, reconstruct.slot);
            reconstruct.error = Some(IoError::Media { block });
        } else if self.geometry.level == Level::Raid1 {
            asked.push(others.remove(0));
            reconstruct.others = others;
        } else {
            asked = others;
        }
        let waiting = asked.len() as u32;
        let work = Work::Reconstruct(reconstruct);
        let op = StripeOp { stripe, waiting, spent: Breakdown::default(), work };
        let op = self.ops.insert(op);
        for member in asked {
            let io = Io::read(0, self.geometry.block(stripe, row), count);
            let io = io.for_purpose(Purpose::Parity);
            self.member_queue.push(member, io, Call::Op { op, slot: 0 });
        }
        if waiting == 0 {
            self.reconstructed(op);
        }
    }

    pub(super) fn reconstruct_answered(
        &mut self,
        op: usize,
        _slot: usize,
        member: usize,
        outcome: Result<Data, IoError>,
    ) {
        let stripe = self.ops[op].stripe;
        let Work::Reconstruct(reconstruct) = &self.ops[op].work else { return };
        let at = self.geometry.block(stripe, reconstruct.row);
        let outcome = outcome.map(|data| self.overlaid(member, at, data));
        let Work::Reconstruct(reconstruct) = &mut self.ops[op].work else { return };
        if reconstruct.repairing {
            debug_assert_eq!(member, reconstruct.member, "only that member is written to");
            if let Err(error) = outcome {
                self.member_failed(member, error);
            }
            return self.finish_reconstruct(op);
        }
        match outcome {
            Ok(data) => {
                debug_assert_eq!(data.blocks(), reconstruct.count, "as many as were asked for");
                reconstruct.sum = Some(match reconstruct.sum.take() {
                    Some(sum) => sum.xor(&data),
                    None => data,
                });
            }
            Err(_) if !reconstruct.others.is_empty() => {
                let next = reconstruct.others.remove(0);
                let io = Io::read(0, at, reconstruct.count).for_purpose(Purpose::Parity);
                self.ops[op].waiting += 1;
                return self.member_queue.push(next, io, Call::Op { op, slot: 0 });
            }
            Err(error) => reconstruct.error = Some(error),
        }
        if self.ops[op].waiting == 0 {
            self.reconstructed(op);
        }
    }

    /// All that can come has come.
    fn reconstructed(&mut self, op: usize) {
        let stripe = self.ops[op].stripe;
        let spent = self.ops[op].spent;
        let Work::Reconstruct(reconstruct) = &mut self.ops[op].work else { return };
        let Reconstruct { request, slot, member, row, count, .. } = *reconstruct;
        debug_assert!(!reconstruct.repairing, "the sum is known once");
        let outcome = match (reconstruct.error, reconstruct.sum.take()) {
            (None, Some(data)) => Ok(data),
            (Some(IoError::PowerOff), _) => Err(IoError::PowerOff),
            _ => Err(IoError::Media { block: self.slot_block(request, slot) }),
        };
        self.charge(request, &spent);
        let writable = !self.table.is_read_only() && self.table.failed().is_none();
        let repair = outcome.as_ref().ok().filter(|_| writable).cloned();
        if outcome.is_ok() {
            self.counters.reconstructed += u64::from(count);
        }
        self.slot_done(request, slot, outcome);
        // A member that is out or not filled so far has nothing to be put right.
        match repair.filter(|_| self.present(member, stripe)) {
            None => self.finish_reconstruct(op),
            Some(data) => {
                self.faults[member].healed += u64::from(count);
                if let Work::Reconstruct(reconstruct) = &mut self.ops[op].work {
                    reconstruct.repairing = true;
                }
                self.ops[op].waiting = 1;
                let io = Io::write(0, self.geometry.block(stripe, row), data);
                let io = io.for_purpose(Purpose::Parity);
                self.member_queue.push(member, io, Call::Op { op, slot: 0 });
            }
        }
    }

    fn finish_reconstruct(&mut self, op: usize) {
        let StripeOp { stripe, waiting, .. } = self.ops.remove(op);
        debug_assert_eq!(waiting, 0, "answers to a stripe that is released");
        self.release(stripe);
    }
}
