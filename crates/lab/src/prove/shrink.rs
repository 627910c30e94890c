//! Makes a violation small: leaves out whatever it does not need, then tells it as a story.

use super::act::Keep;
use super::world::{Found, World};
use super::{ProveOptions, ProveReport, Sort, Violation};

/// Worlds run and states tried to make one violation smaller.
const MOST_RUNS: u32 = 600;
const MOST_STATES: u64 = 3_000_000;
/// Acts up to which a story tells all of them, and how many it tells of a longer one.
const WHOLE_STORY: usize = 40;

/// A case that breaks a promise, and how often it has been run.
struct Shrinker<'o> {
    options: &'o ProveOptions,
    case: u64,
    runs: u32,
    states: u64,
    best: (Keep, Found),
}

impl Shrinker<'_> {
    /// Runs some of the acts; they become the best known ones if they break the same promise.
    fn try_with(&mut self, keep: Keep) -> bool {
        if self.runs >= MOST_RUNS || self.states >= MOST_STATES {
            return false;
        }
        self.runs += 1;
        let mut scratch = ProveReport::new(self.options);
        let mut world = World::new(self.options.subject, self.case, self.options.seed).thorough();
        let acts = keep.of(world.script());
        let found = world.run(&acts, &mut scratch);
        self.states += scratch.states;
        match found {
            Some(found) if found.wrong.sort == self.best.1.wrong.sort => {
                // What comes after the end needs no acts.
                let needed = (0..keep.len()).filter(|&index| keep.number(index) <= found.act);
                let surplus = keep.len() - needed.count();
                let keep = keep.without(keep.len() - surplus..keep.len());
                self.best = (keep, found);
                true
            }
            _ => false,
        }
    }

    /// Leaves out halves, quarters and so on, down to single acts (Zeller and Hildebrandt,
    /// "Simplifying and isolating failure-inducing input", 2002).
    fn leave_out(&mut self) {
        let mut chunk = (self.best.0.len() / 2).max(1);
        loop {
            let mut at = 0;
            let mut gone = false;
            while at < self.best.0.len() {
                let end = (at + chunk).min(self.best.0.len());
                if end - at < self.best.0.len() && self.try_with(self.best.0.without(at..end)) {
                    gone = true;
                } else {
                    at = end;
                }
            }
            match chunk {
                1 if !gone => return,
                1 => {}
                _ => chunk /= 2,
            }
            if self.runs >= MOST_RUNS {
                return;
            }
        }
    }

    /// Makes the requests that are left as short as they may be.
    fn shorten(&mut self) {
        for index in 0..self.best.0.len() {
            for most in [1, 2, 4, 8] {
                let script = World::new(self.options.subject, self.case, self.options.seed);
                let Some(&number) = self.best.0.numbers().get(index) else { return };
                let blocks = script.script()[number as usize].blocks().unwrap_or(0);
                if blocks <= most || self.try_with(self.best.0.limited(index, most)) {
                    break;
                }
            }
        }
    }
}

/// The violation with as little as shows it.
pub fn shrink(options: &ProveOptions, case: u64, keep: Keep, found: Found) -> Violation {
    let upto = (0..keep.len()).filter(|&index| keep.number(index) <= found.act).count();
    let keep = keep.without(upto..keep.len());
    let mut shrinker = Shrinker { options, case, runs: 0, states: 0, best: (keep, found) };
    // A search that is more thorough must find it again before anything can be left out.
    if shrinker.try_with(shrinker.best.0.clone()) {
        shrinker.leave_out();
        shrinker.shorten();
        shrinker.leave_out();
    }
    let (keep, found) = shrinker.best;
    tell(options, case, Some(keep), found)
}

/// The violation as a story.
pub fn tell(options: &ProveOptions, case: u64, keep: Option<Keep>, found: Found) -> Violation {
    let world = World::new(options.subject, case, options.seed);
    let mut story = vec![world.describe()];
    let kept = keep.clone().unwrap_or_else(|| Keep::acts(0..world.script().len() as u32));
    let acts: Vec<_> =
        kept.of(world.script()).into_iter().filter(|(number, _)| *number <= found.act).collect();
    let skipped = acts.len().saturating_sub(WHOLE_STORY);
    if skipped > 0 {
        story.push(format!("({skipped} acts before these)"));
    }
    let (durable, acknowledged) = &found.heard;
    for (number, act) in &acts[skipped..] {
        let heard = match number {
            number if durable.contains(number) => ": acknowledged, and durable by contract",
            number if acknowledged.contains(number) => ": acknowledged",
            _ => "",
        };
        story.push(format!("#{number} {act}{heard}"));
    }
    story.push(match found.wrong.sort {
        Sort::Content | Sort::Dead => {
            format!("here the power is cut, after device event {}:", found.event)
        }
        _ => format!("here, after device event {}:", found.event),
    });
    story.extend(found.wrong.story);
    let acts = keep.as_ref().map(|keep| format!(" --keep {keep}")).unwrap_or_default();
    let flags = options.subject.flags();
    Violation {
        case,
        event: found.event,
        sort: found.wrong.sort,
        story,
        keep: keep.map(|keep| keep.to_string()),
        replay: format!("seekless prove {flags} --seed {} --case {case}{acts}", options.seed),
    }
}
