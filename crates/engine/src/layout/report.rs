//! What a mount did and what a check found.

use super::recovery::RecoveryStep;
use crate::units::BlockNr;

/// How a mount found its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountPath {
    /// The layout keeps no state that could be out of date.
    Stateless,
    /// From the record that a clean shutdown leaves.
    Tail,
    /// By reading the whole device after a crash.
    Scan,
}

/// What a mount did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountReport {
    /// How the state was found.
    pub path: MountPath,
    /// Blocks read to find it.
    pub blocks_read: u64,
    /// Commits found after the last one known durable and accepted, since all they name is whole.
    pub commits_accepted: u64,
    /// Commits given up because the crash had caught them unfinished.
    pub commits_dropped: u64,
    /// What it did, in order; see [`super::RecoverySteps`].
    pub steps: Vec<RecoveryStep>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong, a sentence each; empty if all is well.
    pub problems: Vec<String>,
    /// Facts worth knowing: name and value.
    pub facts: Vec<(&'static str, String)>,
    /// Device blocks that do not hold what the layout has stored there, as far as its checksums
    /// tell; also copies of what is kept twice, which are no problem as long as one is whole.
    pub damaged: Vec<BlockNr>,
    /// Grows with what is written, as far as the mount has found it: of two mounts of what should
    /// be the same volume, the one with the smaller number misses something.
    pub youngest: u128,
}

impl CheckReport {
    /// Notes a device block that does not hold what it should.
    pub fn damage(&mut self, at: BlockNr, problem: String) {
        self.damaged.push(at);
        self.problems.push(problem);
    }

    /// Notes the copies that are lost of a superblock, or of another `thing` that lies twice on a
    /// device.
    pub fn lost_copies(&mut self, thing: &str, lost: &[BlockNr]) {
        let problem = |at: &BlockNr| {
            format!(
                "block {at} holds no whole copy of {thing}: if the other copy is lost, too, so is \
                 the volume. Serve it once, not --read-only: that writes the copy anew"
            )
        };
        self.problems.extend(lost.iter().map(problem));
    }
}
