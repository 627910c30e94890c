//! Making a failing state small: the fewest writes whose fate differs from what is harmless.

use super::state::State;
use seekless_crash::shrink;

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
