//! What members should hold and may not, laid over what they give.

use super::{Array, Run};
use seekless_engine::data::Data;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BlockNr;

impl Array {
    /// From now on members seem to hold this.
    pub(crate) fn lay(&mut self, runs: Vec<Run>) {
        for run in runs {
            debug_assert!(run.at >= self.geometry.first, "only chunks are laid over");
            for (at, block) in (run.at..).zip(run.data.each()) {
                self.overlay.insert((run.member, at), block);
            }
        }
    }

    /// The first block from `at` on that some member seems to hold by that.
    pub(crate) fn next_laid(&self, at: BlockNr) -> Option<BlockNr> {
        let next = |member| self.overlay.range((member, at)..(member + 1, 0)).next();
        (0..self.geometry.members).filter_map(next).map(|(&(_, block), _)| block).min()
    }

    /// What a member should hold where it was read.
    pub(crate) fn overlaid(&self, member: usize, at: BlockNr, data: Data) -> Data {
        if self.overlay.is_empty() || planted(PlantedBug::UnreplayedShown) {
            return data;
        }
        let mut out = Data::none();
        for index in 0..data.blocks() {
            let laid = self.overlay.get(&(member, at + u64::from(index)));
            out.push(laid.cloned().unwrap_or_else(|| data.block(index)));
        }
        debug_assert_eq!(out.blocks(), data.blocks(), "an overlay replaces block by block");
        out
    }
}
