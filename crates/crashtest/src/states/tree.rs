//! The tree of a state of a recording of calls.

use super::history::{Epoch, History};
use super::state::State;
use seekless_calls::model::{Kept, Modelled, Tree, Trees};
use std::sync::Arc;

/// Builds the trees of states. Going on from epoch to epoch is cheap; going back begins anew.
#[derive(Debug)]
pub struct StateTrees<'h> {
    calls: &'h Modelled,
    trees: Trees<'h>,
    /// The cut at which `trees` is.
    cut: u64,
}

impl History {
    /// Trees of the states of a recording of calls; `None` if it is one of a device.
    pub fn trees(&self) -> Option<StateTrees<'_>> {
        let calls = self.calls()?;
        Some(StateTrees { calls, trees: calls.trees(), cut: 0 })
    }
}

impl StateTrees<'_> {
    /// What a program finds in a state of this epoch.
    ///
    /// # Panics
    /// If the state belongs to another epoch.
    pub fn tree(&mut self, epoch: &Epoch, state: &State) -> Tree {
        assert_eq!(state.fates.len(), epoch.unsettled.len(), "a state of another epoch");
        if epoch.cut < self.cut {
            self.trees = self.calls.trees();
        }
        self.cut = epoch.cut;
        self.trees.advance(epoch.cut);
        let written = epoch.unsettled.iter().zip(&state.fates);
        let kept: Kept =
            written.filter(|(_, fate)| !fate.is_nothing()).map(|(one, _)| one.write).collect();
        self.trees.tree(|index| kept.contains(index))
    }
}

/// The tree at the end of a recording of calls with nothing lost: what its directory holds.
pub fn whole(calls: &Arc<Modelled>) -> Tree {
    calls.whole()
}
