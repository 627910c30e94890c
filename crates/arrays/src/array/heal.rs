//! Blocks of which a member gives something else than was written, without an error. A layout that
//! keeps checksums says what it expects; the other copies, or what the other members come to, may
//! be just that. Then it is the answer, and the member gets it back.
//!
//! All of it happens while no other operation writes in the stripe, and a block is put right only
//! where it is now what was expected: if it has been written meanwhile, it is left alone.

use super::{Array, Call, StripeOp, Work};
use crate::Level;
use seekless_engine::data::{Data, Piece};
use seekless_engine::io::{Breakdown, Io, IoError, Purpose};

/// A part of a read that did not meet what was expected.
#[derive(Clone, Debug)]
pub(super) struct Heal {
    request: usize,
    slot: usize,
    /// The member that gave it.
    member: usize,
    row: u32,
    /// What it gave.
    found: Data,
    /// The members that are asked, and what they give.
    others: Vec<(usize, Option<Data>)>,
    /// Members are being put right.
    repairing: bool,
}

/// A block that a member should get back: member, index of the block, content.
type Cure = (usize, u32, Piece);

impl Heal {
    pub(super) fn new(request: usize, slot: usize, member: usize, row: u32, found: Data) -> Heal {
        Heal { request, slot, member, row, found, others: Vec::new(), repairing: false }
    }

    /// What the block is by those that were asked: one of the copies, or the sum of all.
    fn candidates(&self, level: Level, index: u32) -> Vec<Piece> {
        let blocks = self.others.iter().map(|(_, data)| Some(data.as_ref()?.block(index)));
        match level {
            Level::Raid1 => blocks.flatten().collect(),
            _ => {
                let all: Option<Vec<Piece>> = blocks.collect();
                let sum = all.and_then(|all| all.into_iter().map(single).reduce(|a, b| a.xor(&b)));
                sum.map(|sum| sum.block(0)).into_iter().collect()
            }
        }
    }
}

fn single(block: Piece) -> Data {
    Data::block_of(block.body)
}

impl Array {
    pub(super) fn start_heal(&mut self, stripe: u64, mut heal: Heal) {
        debug_assert!(self.is_held(stripe), "blocks are compared while no write changes them");
        let all = 0..self.geometry.members;
        let others: Vec<usize> =
            all.filter(|&one| one != heal.member && self.present(one, stripe)).collect();
        let enough = match self.geometry.level {
            Level::Raid1 => !others.is_empty(),
            _ => others.len() == self.geometry.members - 1,
        };
        // What need not agree is no help: a recovery may decide for the member that was read.
        let asked = if enough && self.can_compute(stripe) { others } else { Vec::new() };
        heal.others = asked.iter().map(|&one| (one, None)).collect();
        let (at, count) = (self.geometry.block(stripe, heal.row), heal.found.blocks());
        let waiting = asked.len() as u32;
        let work = Work::Heal(Box::new(heal));
        let op = self.ops.insert(StripeOp { stripe, waiting, spent: Breakdown::default(), work });
        for (slot, member) in asked.into_iter().enumerate() {
            let io = Io::read(0, at, count).for_purpose(Purpose::Parity);
            self.member_queue.push(member, io, Call::Op { op, slot });
        }
        if waiting == 0 {
            self.compare(op);
        }
    }

    pub(super) fn heal_answered(
        &mut self,
        op: usize,
        slot: usize,
        member: usize,
        outcome: Result<Data, IoError>,
    ) {
        let stripe = self.ops[op].stripe;
        let Work::Heal(heal) = &self.ops[op].work else { return };
        let at = self.geometry.block(stripe, heal.row);
        let outcome = outcome.map(|data| self.overlaid(member, at, data));
        let Work::Heal(heal) = &mut self.ops[op].work else { return };
        let repairing = heal.repairing;
        match outcome {
            Err(error) if repairing => self.member_failed(member, error),
            Ok(data) if !repairing => {
                debug_assert_eq!(data.blocks(), heal.found.blocks(), "copies of the same blocks");
                debug_assert_eq!(heal.others[slot].0, member, "the member that was asked");
                heal.others[slot].1 = Some(data);
            }
            // What cannot be read is no help.
            Ok(_) | Err(_) => {}
        }
        match (self.ops[op].waiting, repairing) {
            (0, true) => self.finish_heal(op),
            (0, false) => self.compare(op),
            _ => {}
        }
    }

    /// All that can come has come: the read is answered, and members are put right.
    fn compare(&mut self, op: usize) {
        let (stripe, spent) = (self.ops[op].stripe, self.ops[op].spent);
        let Work::Heal(heal) = &self.ops[op].work else { return };
        let (request, slot, row) = (heal.request, heal.slot, heal.row);
        debug_assert!(!heal.repairing && self.ops[op].waiting == 0, "all were asked once");
        let (answer, cures) = self.right(heal);
        debug_assert_eq!(
            answer.blocks(),
            heal.found.blocks(),
            "a block for each that was asked for"
        );
        self.charge(request, &spent);
        self.slot_done(request, slot, Ok(answer));
        // The client has its answer in any case; only the members' repair needs a writable array.
        let writable = !self.table.is_read_only() && self.table.failed().is_none();
        cures.iter().for_each(|cure| self.count_healed(cure.0, 1));
        if !writable || cures.is_empty() {
            return self.finish_heal(op);
        }
        if let Work::Heal(heal) = &mut self.ops[op].work {
            heal.repairing = true;
        }
        self.ops[op].waiting = cures.len() as u32;
        for (member, index, block) in cures {
            let io = Io::write(0, self.geometry.block(stripe, row + index), single(block));
            self.member_queue.push(
                member,
                io.for_purpose(Purpose::Parity),
                Call::Op { op, slot: 0 },
            );
        }
    }

    /// The blocks as they should be, as far as a member has them, and which members should get them
    /// back.
    fn right(&self, heal: &Heal) -> (Data, Vec<Cure>) {
        let level = self.geometry.level;
        let Some((expected, from)) = self.expected(heal.request, heal.slot) else {
            return (heal.found.clone(), Vec::new());
        };
        let (mut answer, mut cures) = (Data::none(), Vec::new());
        for (index, block) in (0..).zip(heal.found.each()) {
            let met = |block: &Piece| expected.is_met(from + index, block);
            if met(&block) {
                answer.push(block);
                continue;
            }
            let Some(right) = heal.candidates(level, index).into_iter().find(met) else {
                answer.push(block);
                continue;
            };
            debug_assert!(met(&right), "a member gets back only what was expected");
            cures.push((heal.member, index, right.clone()));
            if level == Level::Raid1 {
                let wrong =
                    |data: &Option<Data>| data.as_ref().is_none_or(|it| !met(&it.block(index)));
                let others = heal.others.iter().filter(|(_, data)| wrong(data));
                cures.extend(others.map(|&(member, _)| (member, index, right.clone())));
            }
            answer.push(right);
        }
        (answer, cures)
    }

    fn finish_heal(&mut self, op: usize) {
        let StripeOp { stripe, waiting, .. } = self.ops.remove(op);
        debug_assert_eq!(waiting, 0, "answers to a stripe that is released");
        self.release(stripe);
    }
}
