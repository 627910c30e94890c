//! Making a failing state small: the fewest writes whose fate differs from what is harmless.
//!
//! Delta debugging (Zeller and Hildebrandt, IEEE TSE 28(2), 2002) on the set of fates that differ
//! from everything kept, and from everything lost; the smaller result is the better story.

use super::state::{Fate, State};

/// The smallest failing state that was found, and how many states were tried on the way. `fails`
/// tells whether a state is still bad; it is asked at most `budget` times.
pub fn minimise(
    state: &State,
    budget: usize,
    fails: &mut dyn FnMut(&State) -> bool,
) -> (State, usize) {
    let mut tries = Tries { left: budget, cut: state.cut, fails };
    let kept = tries.towards(&state.fates, &Fate::Kept);
    let lost = tries.towards(&state.fates, &Fate::Lost);
    let differing = |fates: &[Fate], usual: &Fate| fates.iter().filter(|f| *f != usual).count();
    // That everything else is lost is one change more.
    let fates = match differing(&lost, &Fate::Lost) + 1 < differing(&kept, &Fate::Kept) {
        true => lost,
        false => kept,
    };
    let fates = tries.untear(fates);
    let used = budget - tries.left;
    (State { cut: state.cut, fates }, used)
}

struct Tries<'f> {
    left: usize,
    cut: u64,
    fails: &'f mut dyn FnMut(&State) -> bool,
}

impl Tries<'_> {
    fn fails(&mut self, fates: &[Fate]) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        (self.fails)(&State { cut: self.cut, fates: fates.to_vec() })
    }

    /// Turns as many fates as possible into `usual`.
    fn towards(&mut self, from: &[Fate], usual: &Fate) -> Vec<Fate> {
        let mut fates = from.to_vec();
        let odd = |fates: &[Fate]| -> Vec<usize> {
            (0..fates.len()).filter(|&at| fates[at] != *usual).collect()
        };
        let mut chunk = odd(&fates).len();
        while chunk > 0 {
            let mut changed = false;
            for part in odd(&fates).chunks(chunk) {
                let mut tried = fates.clone();
                part.iter().for_each(|&at| tried[at] = usual.clone());
                if self.fails(&tried) {
                    fates = tried;
                    changed = true;
                }
            }
            chunk = match (chunk, changed) {
                // Once more: what could not go alone may go now.
                (1, true) => 1,
                (1, false) => 0,
                _ => chunk.div_ceil(2).min(odd(&fates).len()),
            };
        }
        fates
    }

    /// A write that is lost or kept in whole is a simpler story than a torn one.
    fn untear(&mut self, mut fates: Vec<Fate>) -> Vec<Fate> {
        for at in 0..fates.len() {
            if !matches!(fates[at], Fate::Torn(_)) {
                continue;
            }
            for simple in [Fate::Lost, Fate::Kept] {
                let mut tried = fates.clone();
                tried[at] = simple;
                if self.fails(&tried) {
                    fates = tried;
                    break;
                }
            }
        }
        fates
    }
}
