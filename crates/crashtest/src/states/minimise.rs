//! Making a failing state small: the fewest writes whose fate differs from what is harmless, and of
//! each torn write the fewest sectors.

use super::choose::at_risk;
use super::history::{Epoch, History, Write};
use super::state::{Fate, SectorSize, State};
use seekless_crash::shrink::{self, Case, Halving};
use std::ops::Range;

/// The smallest failing state that was found, and how many states were tried on the way. `fails`
/// tells whether a state is still bad; it is asked at most `budget` times.
pub fn minimise(
    state: &State,
    budget: usize,
    fails: &mut dyn FnMut(&State) -> bool,
) -> (State, usize) {
    let cut = state.cut;
    let mut fates_fail = |fates: &[_]| fails(&State { cut, fates: fates.to_vec() });
    let (fates, tries) = shrink::minimise(&state.fates, budget, &mut fates_fail);
    (State { cut, fates }, tries)
}

/// The same for a history whose writes may be on the disk only with others, as those of calls are:
/// only states that the model allows are tried. `state` is one of this epoch.
pub fn minimise_in(
    history: &History,
    epoch: &Epoch,
    state: &State,
    budget: usize,
    fails: &mut dyn FnMut(&State) -> bool,
) -> (State, usize) {
    let cut = state.cut;
    let writes = at_risk(history, epoch, SectorSize::default());
    let mut fates_fail = |fates: &[_]| fails(&State { cut, fates: fates.to_vec() });
    let (fates, tries) = shrink::minimise_among(&writes, &state.fates, budget, &mut fates_fail);
    (State { cut, fates }, tries)
}

/// The same for the sectors of torn writes: of each, as few as possible reach the medium. `state`
/// is bad.
pub fn minimise_tears(
    history: &History,
    epoch: &Epoch,
    sector: SectorSize,
    state: &State,
    budget: usize,
    fails: &mut dyn FnMut(&State) -> bool,
) -> (State, usize) {
    let (mut state, mut left) = (state.clone(), budget);
    for at in 0..state.fates.len() {
        let Fate::Torn(marks) = &state.fates[at] else { continue };
        let write = &history.writes()[epoch.unsettled[at].write];
        let units = sector.fold(write, marks);
        let mut tear = Tear { write, sector, at, state, units, left: &mut left, fails };
        shrink::leave_out(&mut tear, Halving::FromHalf);
        state = tear.state;
    }
    (state, budget - left)
}

/// A case whose parts are the sectors of one write that have reached the medium.
struct Tear<'t> {
    write: &'t Write,
    sector: SectorSize,
    /// Index of the write in the state.
    at: usize,
    state: State,
    /// Which sectors have reached the medium.
    units: Vec<bool>,
    left: &'t mut usize,
    fails: &'t mut dyn FnMut(&State) -> bool,
}

impl Tear<'_> {
    fn kept(&self) -> Vec<usize> {
        (0..self.units.len()).filter(|&unit| self.units[unit]).collect()
    }
}

impl Case for Tear<'_> {
    fn parts(&self) -> usize {
        self.kept().len()
    }

    fn try_without(&mut self, parts: Range<usize>) -> bool {
        if *self.left == 0 {
            return false;
        }
        let mut units = self.units.clone();
        self.kept()[parts].iter().for_each(|&unit| units[unit] = false);
        // Without any it would be lost, which has been tried.
        if !units.contains(&true) {
            return false;
        }
        *self.left -= 1;
        let mut tried = self.state.clone();
        tried.fates[self.at] = Fate::of_sectors(self.sector.expand(self.write, &units));
        let fails = (self.fails)(&tried);
        if fails {
            (self.state, self.units) = (tried, units);
        }
        fails
    }

    fn is_spent(&self) -> bool {
        *self.left == 0
    }
}
