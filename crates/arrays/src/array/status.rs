//! What an array tells about itself.

use super::{Array, Lock};
use crate::Level;
use crate::member::MemberState;
use seekless_engine::io::{self, Extent, IoError};
use seekless_engine::layer::Status;
use seekless_engine::units::BlockNr;

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

    fn rebuild(&self) -> Option<io::Rebuild> {
        let (done, stripes) = (self.rebuild.done(), self.geometry.stripes);
        let running = io::Rebuild::Running { done, stripes };
        match self.rebuild.outcome() {
            Some(io::Rebuild::Ended) if !self.is_settled() => Some(running),
            None => self.superblock.replacement().map(|_| running),
            outcome => outcome,
        }
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
