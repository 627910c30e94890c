//! The steps of a recovery: what a mount did, in which order, and what each step cost.
//!
//! A mount names each step when it begins it; the step lasts until the next one begins. So the
//! steps of a report lie end to end, and the blocks that they read add up to those of the mount.
//! The engine has no clock: a mount in wall time is given one, and without one no step has a
//! time. What a simulation or a proof reports is therefore a function of the seed alone.

use super::report::{MountPath, MountReport};
use crate::units::Time;
use std::fmt;

/// A monotonic clock, in nanoseconds from an arbitrary start.
pub type Clock = fn() -> Time;

/// One step of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryStep {
    /// What was done.
    pub name: &'static str,
    /// Device blocks that it read.
    pub blocks_read: u64,
    /// What it went through, with the unit in the plural.
    pub items: Option<(u64, &'static str)>,
    /// How long it took, in nanoseconds; `None` if the mount was given no clock.
    pub elapsed_ns: Option<Time>,
}

impl fmt::Display for RecoveryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} blocks read", self.name, self.blocks_read)?;
        if let Some((count, unit)) = self.items {
            write!(f, ", {count} {unit}")?;
        }
        match self.elapsed_ns {
            Some(ns) => write!(f, ", {:.1} ms", ns as f64 / 1e6),
            None => Ok(()),
        }
    }
}

/// The steps of a mount under way.
#[derive(Debug)]
pub struct RecoverySteps {
    clock: Option<Clock>,
    /// When the step under way began; 0 without a clock.
    began: Time,
    report: MountReport,
}

impl RecoverySteps {
    /// No step yet. Without a clock the steps have no times.
    pub fn new(clock: Option<Clock>) -> RecoverySteps {
        let report = MountReport {
            path: MountPath::Stateless,
            blocks_read: 0,
            commits_accepted: 0,
            commits_dropped: 0,
            steps: Vec::new(),
        };
        RecoverySteps { clock, began: 0, report }
    }

    /// Ends the step under way and begins the next one.
    pub fn begin(&mut self, name: &'static str) {
        self.end();
        self.report.steps.push(RecoveryStep {
            name,
            blocks_read: 0,
            items: None,
            elapsed_ns: None,
        });
    }

    /// Counts blocks that the step under way reads.
    pub fn read(&mut self, blocks: u64) {
        debug_assert!(!self.report.steps.is_empty(), "a read belongs to a step");
        self.report.blocks_read += blocks;
        if let Some(step) = self.report.steps.last_mut() {
            step.blocks_read += blocks;
        }
    }

    /// What the step under way has gone through so far, with the unit in the plural.
    pub fn count(&mut self, items: u64, unit: &'static str) {
        debug_assert!(!self.report.steps.is_empty(), "items belong to a step");
        if let Some(step) = self.report.steps.last_mut() {
            step.items = Some((items, unit));
        }
    }

    /// How the state was found, with the commits behind the last one known durable that were
    /// accepted and dropped. Without this call the volume keeps no state to find.
    pub fn found(&mut self, path: MountPath, accepted: u64, dropped: u64) {
        debug_assert_ne!(path, MountPath::Stateless);
        debug_assert_eq!(self.report.path, MountPath::Stateless, "a state is found once");
        self.report.path = path;
        (self.report.commits_accepted, self.report.commits_dropped) = (accepted, dropped);
    }

    /// Ends the mount.
    pub fn finish(mut self) -> MountReport {
        self.end();
        let read = |step: &RecoveryStep| step.blocks_read;
        debug_assert_eq!(self.report.steps.iter().map(read).sum::<u64>(), self.report.blocks_read);
        self.report
    }

    /// Ends the step under way; what follows until the next one begins is not of the mount.
    pub fn end(&mut self) {
        let Some(clock) = self.clock else { return };
        let now = clock();
        if let Some(step) = self.report.steps.last_mut()
            && step.elapsed_ns.is_none()
        {
            step.elapsed_ns = Some(now.saturating_sub(self.began));
        }
        self.began = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Each reading is 7 ns after the one before.
    fn ticking() -> Time {
        static NOW: AtomicU64 = AtomicU64::new(0);
        NOW.fetch_add(7, Ordering::Relaxed)
    }

    fn two_steps(clock: Option<Clock>) -> MountReport {
        let mut steps = RecoverySteps::new(clock);
        steps.begin("read superblock");
        steps.read(1);
        steps.begin("walk the log");
        steps.read(3);
        steps.read(4);
        steps.count(5, "records");
        steps.found(MountPath::Scan, 2, 1);
        steps.finish()
    }

    #[test]
    fn steps_lie_end_to_end() {
        let report = two_steps(Some(ticking));
        assert_eq!(report.blocks_read, 8);
        let times: Vec<_> = report.steps.iter().map(|step| step.elapsed_ns).collect();
        assert_eq!(times, [Some(7), Some(7)]);
        let text = report.steps[1].to_string();
        assert_eq!(text, "walk the log: 7 blocks read, 5 records, 0.0 ms");
    }

    #[test]
    fn without_a_clock_no_step_has_a_time() {
        let report = two_steps(None);
        assert!(report.steps.iter().all(|step| step.elapsed_ns.is_none()));
        assert_eq!(report.steps[0].to_string(), "read superblock: 1 blocks read");
    }
}
