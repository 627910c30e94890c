//! Which outcomes of a power cut are tried: all where there are few, and where there are too many
//! those that forgotten flushes show first, then seeded samples.

use super::history::{Epoch, History};
use super::state::{Fate, State, sectors};
use seekless_engine::rng::Rng;
use std::collections::BTreeSet;

/// Bounds of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// All combinations of kept and lost are tried for so many unsettled writes, at most 20.
    pub exhaustive: u32,
    /// Outcomes tried in an epoch beyond those; where there are more writes, in all.
    pub samples: u32,
    /// Writes are torn at sectors, too.
    pub tear: bool,
    /// Seed of the samples.
    pub seed: u64,
}

/// The outcomes of an epoch that are tried, without repetition: everything kept and everything lost
/// first. What an epoch begins with is what the one before could end with; it is tried again, since
/// a check may ask for more once another flush was answered.
///
/// # Panics
/// If the bounds ask for more than 2²⁰ combinations.
pub fn choose(history: &History, epoch: &Epoch, bounds: &Bounds) -> Vec<State> {
    assert!(bounds.exhaustive <= 20, "{bounds:?}");
    let tearable = |one: &super::history::Unsettled| match bounds.tear {
        true => sectors(&history.writes()[one.write]),
        false => None,
    };
    let mut chosen = Chosen {
        sectors: epoch.unsettled.iter().map(tearable).collect(),
        seen: BTreeSet::new(),
        states: Vec::new(),
        cut: epoch.cut,
    };
    let count = epoch.unsettled.len();
    chosen.add(vec![Fate::Kept; count]);
    chosen.add(vec![Fate::Lost; count]);
    if count == 0 {
        return chosen.states;
    }
    let mut rng = Rng::stream(bounds.seed ^ epoch.cut.rotate_left(32), "replay");
    let wanted = match count <= bounds.exhaustive as usize {
        true => {
            chosen.subsets();
            chosen.states.len() + bounds.samples as usize
        }
        false => {
            let wanted = (bounds.samples as usize).max(2);
            chosen.near(&mut rng, wanted / 2);
            wanted
        }
    };
    chosen.halves(&mut rng, wanted);
    chosen.sample(&mut rng, wanted);
    chosen.states
}

struct Chosen {
    /// Of each write that may be torn.
    sectors: Vec<Option<usize>>,
    seen: BTreeSet<Vec<Fate>>,
    states: Vec<State>,
    cut: u64,
}

impl Chosen {
    fn add(&mut self, fates: Vec<Fate>) {
        if self.seen.insert(fates.clone()) {
            self.states.push(State { cut: self.cut, fates });
        }
    }

    fn count(&self) -> usize {
        self.sectors.len()
    }

    /// Every combination of kept and lost.
    fn subsets(&mut self) {
        for bits in 0_u32..1 << self.count() {
            let fate = |at| if bits >> at & 1 == 1 { Fate::Kept } else { Fate::Lost };
            self.add((0..self.count()).map(fate).collect());
        }
    }

    /// One write lost, one kept, and the outcomes of a device that works in order: of all of them
    /// if they are few, of so many otherwise.
    fn near(&mut self, rng: &mut Rng, wanted: usize) {
        let count = self.count();
        let all: Vec<usize> = (0..count).collect();
        let picked = if 3 * count <= wanted { all } else { spread(rng, count, wanted / 3) };
        for &at in &picked {
            let mut fates = vec![Fate::Kept; count];
            fates[at] = Fate::Lost;
            self.add(fates);
        }
        for &at in &picked {
            let mut fates = vec![Fate::Lost; count];
            fates[at] = Fate::Kept;
            self.add(fates);
            let mut fates = vec![Fate::Lost; count];
            fates[..at].fill(Fate::Kept);
            self.add(fates);
        }
    }

    /// Each write torn in its middle while all others are kept, or lost.
    fn halves(&mut self, rng: &mut Rng, wanted: usize) {
        let torn: Vec<usize> = (0..self.count()).filter(|&at| self.sectors[at].is_some()).collect();
        let left = wanted.saturating_sub(self.states.len()) / 2;
        let picked = match 4 * torn.len() <= left {
            true => torn,
            false => spread(rng, torn.len(), left / 4).iter().map(|&at| torn[at]).collect(),
        };
        for at in picked {
            let Some(sectors) = self.sectors[at] else { continue };
            for (others, first) in
                [(Fate::Kept, true), (Fate::Lost, true), (Fate::Kept, false), (Fate::Lost, false)]
            {
                let marks = (0..sectors).map(|sector| (sector < sectors / 2) == first).collect();
                let mut fates = vec![others; self.count()];
                fates[at] = Fate::Torn(marks);
                self.add(fates);
            }
        }
    }

    /// Whatever chance brings.
    fn sample(&mut self, rng: &mut Rng, wanted: usize) {
        // Small epochs have fewer outcomes than are wanted: vain tries end it.
        let mut vain = 0;
        while self.states.len() < wanted && vain < 64 {
            let before = self.states.len();
            let fates = self.random(rng);
            self.add(fates);
            vain = if self.states.len() == before { vain + 1 } else { 0 };
        }
    }

    fn random(&self, rng: &mut Rng) -> Vec<Fate> {
        let keep = [0.1, 0.5, 0.9][rng.below(3) as usize];
        let tear = [0.0, 0.2, 0.6][rng.below(3) as usize];
        let mut fates = Vec::with_capacity(self.count());
        for sectors in &self.sectors {
            fates.push(match sectors {
                Some(sectors) if rng.chance(tear) => torn(rng, *sectors),
                _ if rng.chance(keep) => Fate::Kept,
                _ => Fate::Lost,
            });
        }
        fates
    }
}

/// A torn write: up to a sector, from a sector on, or anyhow.
fn torn(rng: &mut Rng, sectors: usize) -> Fate {
    let at = 1 + rng.below(sectors as u64 - 1) as usize;
    let marks: Vec<bool> = match rng.below(3) {
        0 => (0..sectors).map(|sector| sector < at).collect(),
        1 => (0..sectors).map(|sector| sector >= at).collect(),
        _ => (0..sectors).map(|_| rng.below(2) == 1).collect(),
    };
    match (marks.contains(&true), marks.contains(&false)) {
        (true, true) => Fate::Torn(marks),
        (true, false) => Fate::Kept,
        _ => Fate::Lost,
    }
}

/// So many different numbers below `count`, spread over the whole.
fn spread(rng: &mut Rng, count: usize, wanted: usize) -> Vec<usize> {
    let wanted = wanted.min(count);
    let pick = |part: usize| {
        let (from, to) = (part * count / wanted, (part + 1) * count / wanted);
        from + rng.below((to - from) as u64) as usize
    };
    (0..wanted).map(pick).collect()
}
