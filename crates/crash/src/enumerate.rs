//! Which outcomes of a power cut are tried: all where there are few; where there are too many,
//! those that forgotten flushes show first, then seeded samples.

use crate::contract::{AtRisk, Contract};
use crate::fate::Fate;
use crate::sample::{KEEP, Sampler, Share, TEAR};
use seekless_engine::rng::Rng;
use std::collections::BTreeSet;

/// How outcomes are chosen, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Every combination of kept and lost is tried for so many writes, at most 20.
    pub exhaustive: usize,
    /// Seeded samples.
    pub samples: usize,
    /// What else is tried, and in which order.
    pub search: Search,
    /// What the device promises: nothing else is tried.
    pub contract: Contract,
}

/// What is tried, and in which order. The order is part of what a seed means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// A few outcomes at each of very many power cuts: beyond the exhaustive bound all lost, all
    /// kept, one write lost or kept alone, and `samples` samples; then a third as many in which
    /// each write has any fate. An outcome may come twice: the prover knows states by their
    /// content.
    Sweep,
    /// Many outcomes at each of few power cuts, none of them twice: all kept, all lost, then every
    /// combination and `samples` more; beyond the exhaustive bound `samples` in all, half of them
    /// with one write lost or kept alone or cut off in order. Halves torn off come before samples.
    Budget,
}

/// Tries in vain after which an epoch has no more outcomes: small ones have fewer than are wanted.
const VAIN: u32 = 64;

/// The outcomes that are tried for these writes, in order: a fate for each write.
///
/// # Panics
/// If the policy asks for more than 2²⁰ combinations.
pub fn enumerate(writes: &[AtRisk], policy: &Policy, rng: &mut Rng) -> Vec<Vec<Fate>> {
    assert!(policy.exhaustive <= 20, "{policy:?}");
    let seen = (policy.search == Search::Budget).then(BTreeSet::new);
    let mut outcomes = Outcomes { writes, contract: policy.contract, seen, list: Vec::new() };
    match policy.search {
        Search::Sweep => outcomes.sweep(policy, rng),
        Search::Budget => outcomes.spend(policy, rng),
    }
    outcomes.list
}

struct Outcomes<'w> {
    writes: &'w [AtRisk],
    contract: Contract,
    /// Those in the list, if none is to be in it twice.
    seen: Option<BTreeSet<Vec<Fate>>>,
    list: Vec<Vec<Fate>>,
}

impl Outcomes<'_> {
    /// [`Search::Sweep`].
    fn sweep(&mut self, policy: &Policy, rng: &mut Rng) {
        if self.count() <= policy.exhaustive {
            self.add_subsets();
        } else {
            self.add_uniform(&Fate::Lost);
            self.add_uniform(&Fate::Kept);
            for at in self.spread(1, rng) {
                self.add_odd(at, &Fate::Kept, Fate::Lost);
                self.add_odd(at, &Fate::Lost, Fate::Kept);
            }
            let plain = Sampler::Shares { keep: Share::Uniform, tear: None };
            (0..policy.samples).for_each(|_| self.add(plain.draw(self.writes, rng)));
        }
        if self.count() > 0 {
            let torn = policy.samples / 3;
            (0..torn).for_each(|_| self.add(Sampler::AnyFate.draw(self.writes, rng)));
        }
    }

    /// [`Search::Budget`].
    fn spend(&mut self, policy: &Policy, rng: &mut Rng) {
        self.add_uniform(&Fate::Kept);
        self.add_uniform(&Fate::Lost);
        if self.count() == 0 {
            return;
        }
        let wanted = if self.count() <= policy.exhaustive {
            self.add_subsets();
            self.list.len() + policy.samples
        } else {
            let wanted = policy.samples.max(2);
            self.add_near(wanted / 2 / 3, rng);
            wanted
        };
        let left = wanted.saturating_sub(self.list.len());
        self.add_halves(left / 2 / 4, rng);
        let sampler = Sampler::Shares { keep: KEEP, tear: Some(TEAR) };
        let mut vain = 0;
        while self.list.len() < wanted && vain < VAIN {
            let before = self.list.len();
            self.add(sampler.draw(self.writes, rng));
            vain = if self.list.len() == before { vain + 1 } else { 0 };
        }
    }

    fn count(&self) -> usize {
        self.writes.len()
    }

    fn add(&mut self, mut fates: Vec<Fate>) {
        let restricted = self.contract.restrict(self.writes, &mut fates);
        let is_new = match &mut self.seen {
            Some(seen) => seen.insert(fates.clone()),
            // A device that promises more than a disk maps many outcomes to one.
            None => !(restricted && self.list.contains(&fates)),
        };
        if is_new {
            self.list.push(fates);
        }
    }

    fn add_uniform(&mut self, fate: &Fate) {
        self.add(vec![fate.clone(); self.count()]);
    }

    /// Every combination of kept and lost, from all lost to all kept.
    fn add_subsets(&mut self) {
        for bits in 0_u32..1 << self.count() {
            let fate = |at| if bits >> at & 1 == 1 { Fate::Kept } else { Fate::Lost };
            self.add((0..self.count()).map(fate).collect());
        }
    }

    /// One write that fares otherwise than all others.
    fn add_odd(&mut self, at: usize, others: &Fate, fate: Fate) {
        let mut fates = vec![others.clone(); self.count()];
        fates[at] = fate;
        self.add(fates);
    }

    /// One write lost; one kept, and the outcomes of a device that works in order. Of all writes
    /// or of so many.
    fn add_near(&mut self, most: usize, rng: &mut Rng) {
        let picked = self.spread(most, rng);
        for &at in &picked {
            self.add_odd(at, &Fate::Kept, Fate::Lost);
        }
        for &at in &picked {
            self.add_odd(at, &Fate::Lost, Fate::Kept);
            let mut prefix = vec![Fate::Lost; self.count()];
            prefix[..at].fill(Fate::Kept);
            self.add(prefix);
        }
    }

    /// One write torn in its middle while all others are kept, or lost. Of all writes that tear or
    /// of so many.
    fn add_halves(&mut self, most: usize, rng: &mut Rng) {
        let torn: Vec<(usize, usize)> = (self.writes.iter().enumerate())
            .filter_map(|(at, write)| Some((at, write.sectors?)))
            .collect();
        for (at, sectors) in spread(torn.len(), most, rng).into_iter().map(|one| torn[one]) {
            for first in [true, false] {
                let marks = (0..sectors).map(|sector| (sector < sectors / 2) == first);
                let half = Fate::Torn(marks.collect());
                self.add_odd(at, &Fate::Kept, half.clone());
                self.add_odd(at, &Fate::Lost, half);
            }
        }
    }

    fn spread(&self, most: usize, rng: &mut Rng) -> Vec<usize> {
        spread(self.count(), most, rng)
    }
}

/// All numbers below `count`, or so many different ones spread over the whole.
fn spread(count: usize, most: usize, rng: &mut Rng) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    let pick = |part: usize| {
        let (from, to) = (part * count / most, (part + 1) * count / most);
        from + rng.below((to - from) as u64) as usize
    };
    (0..most).map(pick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Order;
    use crate::tear::Unit;
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};

    fn writes(count: u64) -> Vec<AtRisk> {
        (0..count).map(|n| AtRisk::of_blocks(0, 2 * n, Some(2 * n + 1), 1)).collect()
    }

    fn policy(search: Search) -> Policy {
        Policy { exhaustive: 3, samples: 24, search, contract: Contract::DISK }
    }

    fn tried(count: u64, policy: Policy) -> Vec<Vec<Fate>> {
        enumerate(&writes(count), &policy, &mut Rng::stream(1, "test"))
    }

    #[test]
    fn few_writes_are_tried_in_all_combinations() {
        for search in [Search::Sweep, Search::Budget] {
            let outcomes = tried(3, policy(search));
            let plain = |fates: &&Vec<Fate>| fates.iter().all(|f| !matches!(f, Fate::Torn(_)));
            let subsets: BTreeSet<_> = outcomes.iter().filter(plain).collect();
            assert_eq!(subsets.len(), 8, "{search:?}");
            assert!(outcomes.len() > 8, "{search:?} tears writes, too");
        }
    }

    #[test]
    fn many_writes_are_tried_lost_and_kept_alone() {
        for search in [Search::Sweep, Search::Budget] {
            let outcomes = tried(40, policy(search));
            let with = |fate: Fate, times: usize| {
                outcomes.iter().any(|o| o.iter().filter(|one| **one == fate).count() == times)
            };
            assert!(with(Fate::Kept, 40) && with(Fate::Lost, 40), "{search:?}");
            assert!(with(Fate::Kept, 39) && with(Fate::Lost, 39), "{search:?}");
        }
    }

    #[test]
    fn a_budget_is_kept_and_nothing_tried_twice() {
        let outcomes = tried(40, policy(Search::Budget));
        assert_eq!(outcomes.len(), 24);
        let unique: BTreeSet<_> = outcomes.iter().collect();
        assert_eq!(unique.len(), outcomes.len());
        assert_eq!(tried(0, policy(Search::Budget)), [Vec::new()], "nothing is pending");
    }

    /// A device that keeps everything never loses a write, and the weaker ones must.
    #[test]
    fn only_a_device_that_may_lose_writes_does() {
        for search in [Search::Sweep, Search::Budget] {
            let loses = |order| {
                let contract = Contract { order, unit: Unit::Sector };
                let outcomes = tried(6, Policy { contract, ..policy(search) });
                outcomes.iter().flatten().any(|fate| *fate != Fate::Kept)
            };
            assert!(!loses(Order::KeepsCompleted), "{search:?}");
            assert!(loses(Order::Prefix) && loses(Order::Unordered), "{search:?}");
        }
    }

    fn any_write() -> impl Strategy<Value = AtRisk> {
        let times = (0_u64..20, 0_u64..12, any::<bool>());
        let blocks = prop_oneof![Just(None), (1_usize..4).prop_map(Some)];
        let shape = (0_usize..2, blocks, proptest::bool::weighted(0.1));
        (times, shape).prop_map(|((submitted, took, done), (device, blocks, forced))| AtRisk {
            device,
            submitted,
            completed: (done || forced).then_some(submitted + 1 + took),
            forced,
            sectors: blocks.map(|blocks| 8 * blocks),
        })
    }

    proptest! {
        /// No search tries what the contract of the device forbids, and each tries something.
        #[test]
        fn outcomes_are_allowed(
            writes in proptest::collection::vec(any_write(), 0..9),
            seed in any::<u64>(),
            samples in 0_usize..40,
        ) {
            for contract in Contract::all() {
                for search in [Search::Sweep, Search::Budget] {
                    let policy = Policy { exhaustive: 4, samples, search, contract };
                    let outcomes = enumerate(&writes, &policy, &mut Rng::stream(seed, "test"));
                    prop_assert!(!outcomes.is_empty());
                    for fates in &outcomes {
                        prop_assert!(contract.allows(&writes, fates), "{contract:?} {fates:?}");
                    }
                }
            }
        }

        /// A weaker contract allows what a stronger one does.
        #[test]
        fn contracts_are_ordered(
            writes in proptest::collection::vec(any_write(), 1..7),
            seed in any::<u64>(),
        ) {
            let weakest = Policy { samples: 30, ..policy(Search::Budget) };
            for fates in enumerate(&writes, &weakest, &mut Rng::stream(seed, "test")) {
                for unit in [Unit::Request, Unit::Block, Unit::Sector] {
                    let allows = |order| Contract { order, unit }.allows(&writes, &fates);
                    prop_assert!(!allows(Order::Prefix) || allows(Order::Unordered));
                    prop_assert!(!allows(Order::KeepsCompleted) || allows(Order::Prefix));
                }
            }
        }
    }
}
