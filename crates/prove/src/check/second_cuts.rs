//! Recoveries that are cut off themselves, once or twice; a device may be lost with the last cut.

use super::{Checker, State, Wrong};
use crate::ProveReport;
use crate::recovery_cuts::{Cut, Found, Leaving, cut_recovery};
use crate::subject::Subject;
use seekless_engine::device::medium::Cells;
use seekless_engine::rng::Rng;

/// Writes of a recovery after which the power is cut.
const MOST_CUTS: u64 = 24;
/// One in so many recovers in vain once more.
const THIRD_CUT: u64 = 6;
/// With the last cut of one in so many a device is lost, if one may be.
const LOST: u64 = 3;

/// How a recovery is cut off, and what comes after it.
#[derive(Clone, Copy, Debug)]
struct SecondCut {
    /// Writes that it gets through.
    writes: u64,
    leaving: Leaving,
    /// Writes that the next one gets through, if it is cut off, too.
    third: Option<u64>,
    lost: Option<usize>,
}

impl SecondCut {
    /// What is left of media after a cut in the middle of a recovery, and perhaps of the next one.
    fn leave<S: Subject>(
        (writes, cut): (u64, &Cut),
        leaving: Leaving,
        checker: &mut Checker<S>,
        state: &State<'_>,
        rng: &mut Rng,
    ) -> (SecondCut, Vec<Cells>) {
        let mut media = cut.leave(leaving, rng);
        let third = (rng.below(THIRD_CUT) == 0).then(|| rng.below(MOST_CUTS));
        if let Some(writes) = third {
            let most = writes as usize + 1;
            let (cuts, whole) = checker.cut_recovery(Found::after_a_cut(media), most);
            let cut = cuts.get(writes as usize);
            media = cut.map_or(whole, |cut| cut.leave(Leaving::Something, rng));
        }
        let dispensable = state.dispensable;
        let loses = !dispensable.is_empty() && rng.below(LOST) == 0;
        let lost = loses.then(|| dispensable[rng.below(dispensable.len() as u64) as usize]);
        (SecondCut { writes, leaving, third, lost }, media)
    }

    /// It in sentences.
    fn story(&self) -> Vec<String> {
        let what = format!("{:?}", self.leaving).to_lowercase();
        let mut story = vec![format!(
            "the recovery from that is cut off after its write {}; {what} of what it had not \
             flushed is on the medium",
            self.writes + 1
        )];
        let third = |writes| format!("the next one after its write {writes}, if it has one");
        story.extend(self.third.map(|writes| third(writes + 1)));
        story.extend(self.lost.map(|lost| format!("device {lost} is lost with the power then")));
        story
    }
}

impl<S: Subject> Checker<S> {
    fn cut_recovery(&mut self, found: Found, most: usize) -> (Vec<Cut>, Vec<Cells>) {
        cut_recovery(self.subject, &mut self.looks, found, self.volatile, most)
    }

    /// Cuts the recovery of a state off after each of its writes.
    pub(super) fn cut_again(
        &mut self,
        state: &State<'_>,
        found: Found,
        oracle: &mut S::Oracle,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) -> Option<Wrong> {
        let most = MOST_CUTS as usize;
        let (cuts, _) = self.cut_recovery(found, most);
        for cut in (0..).zip(&cuts) {
            for leaving in [Leaving::Nothing, Leaving::Everything, Leaving::Something] {
                let (second, left) = SecondCut::leave(cut, leaving, self, state, rng);
                report.states += 1;
                report.recovered += 1;
                report.faults.second_cuts += 1;
                self.again = true;
                let recovered = match second.lost {
                    None => self.recover(left, oracle, rng, report).map(Some),
                    Some(lost) => {
                        report.faults.lost_devices += 1;
                        self.without(lost, left, oracle, rng, report)
                    }
                };
                self.again = false;
                let without = second.lost.is_some();
                let judge = |index: Option<usize>| self.judge(index?, without, oracle);
                if let Some(mut wrong) = recovered.map(judge).unwrap_or_else(Some) {
                    wrong.story.splice(0..0, second.story());
                    return Some(wrong);
                }
            }
        }
        None
    }
}
