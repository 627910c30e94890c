//! Which outcomes of a power cut are tried: all where there are few; where there are too many,
//! those that forgotten flushes show first, then seeded samples.

use crate::contract::{AtRisk, Contract};
use crate::fate::Fate;
use crate::needs;
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
    let (contract, has_needs) = (policy.contract, needs::any(writes));
    let mut outcomes = Outcomes { writes, contract, has_needs, seen, list: Vec::new() };
    match policy.search {
        Search::Sweep => outcomes.sweep(policy, rng),
        Search::Budget => outcomes.spend(policy, rng),
    }
    outcomes.list
}

struct Outcomes<'w> {
    writes: &'w [AtRisk],
    contract: Contract,
    /// Some writes survive only with others: each outcome is closed over that.
    has_needs: bool,
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
            for at in spread(self.count(), 1, rng) {
                self.add_odd(&[at], &Fate::Kept, &Fate::Lost);
                self.add_odd(&[at], &Fate::Lost, &Fate::Kept);
            }
            let plain = Sampler::Shares { keep: Share::Uniform, tear: None };
            (0..policy.samples).for_each(|_| self.add_drawn(plain, rng));
        }
        if self.count() > 0 {
            let torn = policy.samples / 3;
            (0..torn).for_each(|_| self.add_drawn(Sampler::AnyFate, rng));
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
            self.add_drawn(sampler, rng);
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

    /// A sample. Half of those that have to be closed lose the less, half keep the more.
    fn add_drawn(&mut self, sampler: Sampler, rng: &mut Rng) {
        let mut fates = sampler.draw(self.writes, rng);
        // Without needs nothing is drawn here: what a seed means stays.
        if self.has_needs && rng.chance(0.5) {
            needs::keep_needed(self.writes, &mut fates);
        }
        self.add(fates);
    }

    /// Every combination of kept and lost, from all lost to all kept. One that is not closed is
    /// left out: what it would become comes by itself.
    fn add_subsets(&mut self) {
        for bits in 0_u32..1 << self.count() {
            let fate = |at| if bits >> at & 1 == 1 { Fate::Kept } else { Fate::Lost };
            let fates: Vec<Fate> = (0..self.count()).map(fate).collect();
            if !self.has_needs || needs::is_closed(self.writes, &fates) {
                self.add(fates);
            }
        }
    }

    /// Writes that fare otherwise than all others: with what they need, or with what needs them.
    fn add_odd(&mut self, odd: &[usize], others: &Fate, fate: &Fate) {
        let mut fates = vec![others.clone(); self.count()];
        odd.iter().for_each(|&at| fates[at] = fate.clone());
        if *others == Fate::Lost {
            needs::keep_needed(self.writes, &mut fates);
        }
        self.add(fates);
    }

    /// What is tried lost and kept alone: each write. Where requests have parts, each request, and
    /// of its parts the first two and the last two.
    fn units(&self) -> Vec<Vec<usize>> {
        let of = |at: &usize| self.writes[*at].part_of;
        let all: Vec<usize> = (0..self.count()).collect();
        let mut units = Vec::new();
        for parts in all.chunk_by(|one, other| of(one).is_some() && of(one) == of(other)) {
            if parts.len() > 1 {
                units.push(parts.to_vec());
            }
            let is_near = |at: usize| at < 2 || at + 2 >= parts.len();
            let near = parts.iter().enumerate().filter(|(at, _)| is_near(*at));
            units.extend(near.map(|(_, &part)| vec![part]));
        }
        units
    }

    /// One write lost; one kept, and the outcomes of a device that works in order. Of all units or
    /// of so many.
    fn add_near(&mut self, most: usize, rng: &mut Rng) {
        let units = self.units();
        let picked = spread(units.len(), most, rng);
        for &at in &picked {
            self.add_odd(&units[at], &Fate::Kept, &Fate::Lost);
        }
        for &at in &picked {
            self.add_odd(&units[at], &Fate::Lost, &Fate::Kept);
            let mut prefix = vec![Fate::Lost; self.count()];
            prefix[..units[at][0]].fill(Fate::Kept);
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
                self.add_odd(&[at], &Fate::Kept, &half);
                self.add_odd(&[at], &Fate::Lost, &half);
            }
        }
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

    /// A chain is lost from one write on, and kept up to one: one outcome more than writes.
    #[test]
    fn a_chain_has_no_outcome_with_a_hole() {
        let chain = |count: u64| {
            let mut writes = writes(count);
            (1..writes.len()).for_each(|at| writes[at].needs = vec![at - 1]);
            writes.iter_mut().for_each(|write| write.sectors = None);
            writes
        };
        for (count, wanted) in [(3, 4), (8, 9)] {
            let policy = Policy { samples: 1000, ..policy(Search::Budget) };
            let outcomes = enumerate(&chain(count), &policy, &mut Rng::stream(1, "test"));
            assert_eq!(outcomes.len(), wanted, "{count} writes: {outcomes:?}");
        }
    }

    #[test]
    fn a_request_of_several_writes_is_lost_and_kept_as_a_whole() {
        let mut writes = writes(12);
        writes.iter_mut().for_each(|write| write.sectors = None);
        writes[3..8].iter_mut().for_each(|write| write.part_of = Some(7));
        let policy = Policy { exhaustive: 0, samples: 200, ..policy(Search::Budget) };
        let outcomes = enumerate(&writes, &policy, &mut Rng::stream(1, "test"));
        for (fate, others) in [(Fate::Lost, Fate::Kept), (Fate::Kept, Fate::Lost)] {
            let mut whole = vec![others; 12];
            whole[3..8].fill(fate);
            assert!(outcomes.contains(&whole), "{whole:?}");
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
            needs: Vec::new(),
            part_of: None,
        })
    }

    /// Writes with any needs of earlier ones, in requests of two.
    fn with_needs(mut writes: Vec<AtRisk>, needs: &[usize]) -> Vec<AtRisk> {
        for (at, &need) in needs.iter().enumerate().take(writes.len()) {
            let has_need = at > 0 && need % 3 > 0 && !writes[at].forced;
            writes[at].needs.extend(has_need.then(|| need % at.max(1)));
            writes[at].part_of = Some(at as u64 / 2);
        }
        writes
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

        /// The same where writes survive only with others.
        #[test]
        fn outcomes_are_closed(
            writes in proptest::collection::vec(any_write(), 0..9),
            needs in proptest::collection::vec(0_usize..100, 9),
            seed in any::<u64>(),
            samples in 0_usize..40,
        ) {
            let writes = with_needs(writes, &needs);
            for contract in Contract::all() {
                for search in [Search::Sweep, Search::Budget] {
                    let policy = Policy { exhaustive: 4, samples, search, contract };
                    let outcomes = enumerate(&writes, &policy, &mut Rng::stream(seed, "test"));
                    for fates in &outcomes {
                        prop_assert!(needs::is_closed(&writes, fates), "{fates:?}");
                        prop_assert!(contract.allows(&writes, fates), "{contract:?} {fates:?}");
                    }
                    let all_kept = vec![Fate::Kept; writes.len()];
                    prop_assert!(outcomes.contains(&all_kept));
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
