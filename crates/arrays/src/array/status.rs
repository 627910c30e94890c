//! What an array tells about itself.

use super::{Array, Lock};
use crate::Level;
use crate::member::MemberState;
use seekless_engine::io::{self, Extent, IoError};
use seekless_engine::layer::Status;
use seekless_engine::member::Member;
use seekless_engine::traffic::Traffic;
use seekless_engine::units::BlockNr;
use seekless_engine::upkeep::Scrub;

/// What one member did not give as it should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// Blocks that it could not read.
    pub unreadable: u64,
    /// Blocks that were put right from the others.
    pub healed: u64,
}

impl Faults {
    /// Members of which so many blocks were put right before the array started.
    pub(super) fn healed(blocks: &[u64]) -> Vec<Faults> {
        blocks.iter().map(|&healed| Faults { unreadable: 0, healed }).collect()
    }
}

impl Status for Array {
    fn check(&self) {
        self.table.check();
        if !cfg!(debug_assertions) {
            return;
        }
        assert!(self.requests.is_empty() || !self.table.is_idle(), "a request was answered early");
        for (number, op) in &self.ops {
            assert!(self.is_held(op.stripe), "operation {number} has lost stripe {}", op.stripe);
        }
        for op in self.unmarked.iter().chain(&self.unsettled) {
            assert!(self.ops.contains(*op), "operation {op} waits, and has ended");
        }
        // A stripe that is free and has a queue would never be looked at again.
        let stuck = |(stripe, lock): (&u64, &Lock)| {
            !lock.busy && !lock.queue.is_empty() && !self.ready.contains(stripe)
        };
        assert!(!self.locks.iter().any(stuck), "a job waits for a stripe that is free");
        assert!(self.flushed.max(self.failed_clock) <= self.clock, "what has not ended is durable");
        assert!(self.stale <= 2, "the superblocks have two copies");
        let signed = self.superblock.clean && !self.table.is_read_only();
        assert!(!signed || !self.table.is_running(), "a superblock is clean while the array runs");
    }

    fn failed_members(&self) -> &[(usize, IoError)] {
        &self.failed_members
    }

    fn members(&self) -> Vec<Member> {
        let states = self.superblock.states.iter().zip(&self.faults).enumerate();
        // A new one in its place has not failed.
        let out = |member: usize| self.superblock.states[member] == MemberState::Out;
        let last = |member: usize| self.failed_members.iter().rfind(|one| one.0 == member);
        let why = |member: usize| last(member).filter(|_| out(member));
        let one = |(member, (state, faults)): (usize, (&MemberState, &Faults))| Member {
            state: state.name(),
            error: why(member).map(|one| one.1),
            unreadable_blocks: faults.unreadable,
            healed_blocks: faults.healed,
            traffic: Traffic::default(),
        };
        states.map(one).collect()
    }

    fn rebuild(&self) -> Option<io::Rebuild> {
        let (done, stripes) = (self.rebuild.done(), self.geometry.stripes);
        let running = io::Rebuild::Running { done, stripes };
        match self.rebuild.outcome() {
            Some(io::Rebuild::Ended) if !self.is_settled() => Some(running),
            None => self.superblock.replacement().map(|_| running),
            outcome => outcome,
        }
    }

    fn scrub(&self) -> Option<Scrub> {
        self.scrub.report()
    }

    fn member_faults(&self) -> u64 {
        self.faults.iter().map(|one| one.unreadable + one.healed).sum()
    }

    fn has_copies(&self) -> bool {
        self.geometry.level != Level::Raid0
    }

    fn extent(&self, _at: BlockNr, limit: u64) -> (Extent, u64) {
        (Extent::Data, limit)
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        let counters = &self.counters;
        let out = self.superblock.states.iter().filter(|&&one| one != MemberState::Active).count();
        vec![
            ("array_prereads", counters.prereads as f64),
            ("array_data_writes", counters.data_writes as f64),
            ("array_parity_writes", counters.parity_writes as f64),
            ("array_log_writes", counters.log_writes as f64),
            ("array_bitmap_writes", counters.bitmap_writes as f64),
            ("array_full_stripes", counters.full_stripes as f64),
            ("array_partial_stripes", counters.partial_stripes as f64),
            ("array_reconstructed_blocks", counters.reconstructed as f64),
            ("array_mended_blocks", counters.healed as f64),
            ("array_members_out", out as f64),
            ("array_rebuilt_stripes", self.rebuild.done() as f64),
        ]
    }
}
