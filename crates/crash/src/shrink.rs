//! Making a failing case small: delta debugging bounded by work.
//!
//! Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 28(2),
//! 2002: leave out halves, quarters and so on down to single parts, as long as the case still
//! fails. The order of trials is fixed, so the same failure always shrinks to the same case.

use crate::contract::AtRisk;
use crate::fate::Fate;
use crate::needs;
use std::ops::Range;

/// A failing case made of parts.
pub trait Case {
    /// Number of parts that are left.
    fn parts(&self) -> usize;

    /// Tries the case without these parts. True if it still fails: then the parts are gone, and
    /// perhaps others with them.
    fn try_without(&mut self, parts: Range<usize>) -> bool;

    /// True if no more work may be done.
    fn is_spent(&self) -> bool;
}

/// How chunks get smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halving {
    /// All parts at once first; halves are rounded up: 7, 4, 2, 1.
    FromAll,
    /// A half first; halves are rounded down: 3, 1. For cases of which some part is needed.
    FromHalf,
}

impl Halving {
    fn first(self, parts: usize) -> usize {
        match self {
            Halving::FromAll => parts,
            Halving::FromHalf => (parts / 2).max(1),
        }
    }

    fn next(self, chunk: usize, parts: usize) -> usize {
        match self {
            Halving::FromAll => chunk.div_ceil(2).min(parts),
            Halving::FromHalf => chunk / 2,
        }
    }
}

/// Leaves out as many parts as it can, until every part that is left is needed or the work is
/// spent.
pub fn leave_out(case: &mut dyn Case, halving: Halving) {
    let mut chunk = halving.first(case.parts());
    while chunk > 0 {
        let mut smaller = false;
        let mut at = 0;
        while at < case.parts() {
            let (before, end) = (case.parts(), (at + chunk).min(case.parts()));
            if case.try_without(at..end) {
                debug_assert!(case.parts() < before, "what is left out is gone");
                smaller = true;
            } else {
                at = end;
            }
        }
        if case.is_spent() {
            return;
        }
        chunk = match chunk {
            // Once more: what could not go alone may go now.
            1 if smaller => 1,
            1 => 0,
            _ => halving.next(chunk, case.parts()),
        };
    }
}

/// Makes single fates simpler where the outcome still fails: each one that `may_change` says so
/// takes the first fate of `simpler` that works. Returns the outcome that is left.
pub fn simplify(
    mut fates: Vec<Fate>,
    may_change: impl Fn(&Fate) -> bool,
    simpler: &[Fate],
    mut fails: impl FnMut(&[Fate]) -> bool,
) -> Vec<Fate> {
    for at in 0..fates.len() {
        if !may_change(&fates[at]) {
            continue;
        }
        for simple in simpler {
            if *simple == fates[at] {
                continue;
            }
            let mut tried = fates.clone();
            tried[at] = simple.clone();
            if fails(&tried) {
                fates = tried;
                break;
            }
        }
    }
    fates
}

/// The fewest writes whose fate differs from what is harmless: from all kept, or from all lost,
/// whichever is the better story; and no write torn that may as well be lost or kept. `fails` is
/// asked at most `budget` times. Returns the outcome and how often it was asked.
pub fn minimise(
    fates: &[Fate],
    budget: usize,
    fails: &mut dyn FnMut(&[Fate]) -> bool,
) -> (Vec<Fate>, usize) {
    minimise_among(&[], fates, budget, fails)
}

/// The same of writes that survive only with others: every outcome that `fails` is asked about is
/// closed over their needs. Without writes there are no needs.
pub fn minimise_among(
    writes: &[AtRisk],
    fates: &[Fate],
    budget: usize,
    fails: &mut dyn FnMut(&[Fate]) -> bool,
) -> (Vec<Fate>, usize) {
    debug_assert!(needs::is_closed(writes, fates), "the outcome is closed");
    let mut tries = Tries { writes, left: budget, fails };
    let kept = tries.towards(fates, &Fate::Kept);
    let lost = tries.towards(fates, &Fate::Lost);
    let differing = |fates: &[Fate], usual: &Fate| fates.iter().filter(|f| *f != usual).count();
    // That everything else is lost is one change more.
    let fates = match differing(&lost, &Fate::Lost) + 1 < differing(&kept, &Fate::Kept) {
        true => lost,
        false => kept,
    };
    let torn = |fate: &Fate| matches!(fate, Fate::Torn(_));
    let fates = simplify(fates, torn, &[Fate::Lost, Fate::Kept], |tried| {
        needs::is_closed(writes, tried) && tries.fails(tried)
    });
    (fates, budget - tries.left)
}

struct Tries<'f> {
    writes: &'f [AtRisk],
    left: usize,
    fails: &'f mut dyn FnMut(&[Fate]) -> bool,
}

impl Tries<'_> {
    fn fails(&mut self, fates: &[Fate]) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        (self.fails)(fates)
    }

    /// Turns as many fates as possible into `usual`.
    fn towards(&mut self, from: &[Fate], usual: &Fate) -> Vec<Fate> {
        let odd = (0..from.len()).filter(|&at| from[at] != *usual).collect();
        let mut differences = Differences { tries: self, fates: from.to_vec(), usual, odd };
        leave_out(&mut differences, Halving::FromAll);
        differences.fates
    }
}

/// A case whose parts are the fates that differ from `usual`.
struct Differences<'t, 'f> {
    tries: &'t mut Tries<'f>,
    fates: Vec<Fate>,
    usual: &'t Fate,
    /// Where they are.
    odd: Vec<usize>,
}

impl Case for Differences<'_, '_> {
    fn parts(&self) -> usize {
        self.odd.len()
    }

    fn try_without(&mut self, parts: Range<usize>) -> bool {
        let mut tried = self.fates.clone();
        self.odd[parts].iter().for_each(|&at| tried[at] = self.usual.clone());
        // Closing changes fates into the usual one, so that no part comes back.
        match self.usual {
            Fate::Kept => needs::keep_needed(self.tries.writes, &mut tried),
            _ => needs::lose_needing(self.tries.writes, &mut tried),
        };
        let fails = self.tries.fails(&tried);
        if fails {
            self.odd.retain(|&at| tried[at] != *self.usual);
            self.fates = tried;
        }
        fails
    }

    fn is_spent(&self) -> bool {
        self.tries.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of which some are needed.
    struct Needs {
        left: Vec<u32>,
        needed: Vec<u32>,
        tries: usize,
        most: usize,
    }

    impl Case for Needs {
        fn parts(&self) -> usize {
            self.left.len()
        }
        fn try_without(&mut self, parts: Range<usize>) -> bool {
            self.tries += 1;
            let mut left = self.left.clone();
            left.drain(parts);
            let fails = self.needed.iter().all(|one| left.contains(one));
            if fails {
                self.left = left;
            }
            fails
        }
        fn is_spent(&self) -> bool {
            self.tries >= self.most
        }
    }

    #[test]
    fn what_is_needed_is_left() {
        for halving in [Halving::FromAll, Halving::FromHalf] {
            let left = (0..100).collect();
            let mut case = Needs { left, needed: vec![7, 61], tries: 0, most: usize::MAX };
            leave_out(&mut case, halving);
            assert_eq!(case.left, [7, 61], "{halving:?}");
            assert!(case.tries < 60, "{halving:?}: {} tries", case.tries);
        }
    }

    #[test]
    fn work_is_bounded() {
        let left = (0..100).collect();
        let mut case = Needs { left, needed: (0..100).step_by(2).collect(), tries: 0, most: 20 };
        leave_out(&mut case, Halving::FromHalf);
        assert!(case.tries < 40, "{} tries", case.tries);
    }

    #[test]
    fn an_outcome_keeps_the_fates_that_matter() {
        let torn = Fate::Torn(vec![true, false]);
        let fates: Vec<Fate> =
            (0..40).map(|at| if at % 3 == 0 { torn.clone() } else { Fate::Lost }).collect();
        let mut fails = |fates: &[Fate]| fates[7] == Fate::Lost && fates[30] != Fate::Lost;
        let (small, tries) = minimise(&fates, 1000, &mut fails);
        assert!(fails(&small) && tries < 100, "{tries} tries");
        assert_eq!(small.iter().filter(|fate| **fate != Fate::Kept).count(), 1);
    }

    #[test]
    fn a_tear_that_does_not_matter_is_mended() {
        let fates = vec![Fate::Torn(vec![true, false]), Fate::Kept];
        let (small, _) = minimise(&fates, 100, &mut |fates| fates[0] != Fate::Kept);
        assert_eq!(small, [Fate::Lost, Fate::Kept]);
    }

    #[test]
    fn every_outcome_that_is_tried_is_closed() {
        // Each of 40 writes needs the one three before it.
        let needs = |at: usize| at.checked_sub(3).into_iter().collect();
        let of = |at| AtRisk { needs: needs(at), ..AtRisk::of_blocks(0, at as u64, None, 1) };
        let writes: Vec<AtRisk> = (0..40).map(of).collect();
        let mut fates: Vec<Fate> =
            (0..40).map(|at| if at % 7 < 4 { Fate::Kept } else { Fate::Lost }).collect();
        needs::lose_needing(&writes, &mut fates);
        fates[..14].fill(Fate::Kept);
        let mut fails = |fates: &[Fate]| {
            assert!(needs::is_closed(&writes, fates), "{fates:?}");
            fates[9] == Fate::Kept && fates[20] == Fate::Lost
        };
        assert!(fails(&fates));
        let (small, _) = minimise_among(&writes, &fates, 1000, &mut fails);
        assert!(fails(&small));
        let kept = small.iter().filter(|fate| **fate == Fate::Kept).count();
        // 9 needs 6, 3 and 0.
        assert_eq!(kept, 4, "{small:?}");
    }

    #[test]
    fn nothing_is_asked_beyond_the_budget() {
        let mut asked = 0;
        let fates = vec![Fate::Lost; 64];
        let (small, tries) = minimise(&fates, 10, &mut |_| {
            asked += 1;
            false
        });
        assert_eq!((small, tries, asked), (fates, 10, 10));
    }
}
