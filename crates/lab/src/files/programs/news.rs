//! `news`: a server of netnews stores a batch of articles and expires old ones (paper 001, section
//! 7.3.3; claim J26).
//!
//! The spool has 520,000 articles with 2 GB in 7,000 groups, each a directory. Synthetic: sizes are
//! log-normal with a spread of 1, cut at 64 KB; how many articles a group gets falls with its rank
//! (Zipf), and successive articles are of groups that are drawn one by one. The oldest articles
//! expire, across all groups.

use super::{Amount, Phase, steps};
use crate::distribution::Permutation;
use crate::files::sizes;
use crate::files::steps::{Nr, Step, make_whole};
use seekless_engine::rng::Rng;

const FILES: u32 = 520_000;
const DIRS: u32 = 7_000;
const BYTES: u64 = 2 << 30;
/// Articles that come, and their bytes.
const COME: u32 = 78_000;
const COME_BYTES: u64 = 270_000_000;
/// Articles that expire, and their bytes.
const GO: u32 = 91_000;
const GO_BYTES: u64 = 250_000_000;
const SIGMA: f64 = 1.0;
const MOST_BYTES: u64 = 64 << 10;
/// Bytes of a write.
const UNIT: u32 = 8 << 10;
/// Directories that a directory of groups has.
const FAN_OUT: u32 = 20;

/// How much there is of everything: the same shares as in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spool {
    files: u32,
}

impl Spool {
    fn of(amount: &Amount) -> Spool {
        Spool { files: amount.files.unwrap_or(FILES) }
    }

    /// The share of a number, at least 1.
    fn share(self, of: u64) -> u64 {
        let share = u128::from(of) * u128::from(self.files) / u128::from(FILES);
        u64::try_from(share).unwrap_or(u64::MAX).max(1)
    }

    fn count(self, of: u32) -> u32 {
        u32::try_from(self.share(u64::from(of))).unwrap_or(u32::MAX)
    }

    /// Sizes of the articles that are there, the oldest first.
    fn sizes(self, seed: u64) -> Vec<u64> {
        let (old, bytes) = (self.count(GO).min(self.files), self.share(GO_BYTES));
        let mut sizes = drawn(seed, "news: old", old, bytes);
        let rest = self.share(BYTES).saturating_sub(bytes);
        sizes.extend(drawn(seed, "news: kept", self.files - old, rest));
        sizes
    }
}

fn drawn(seed: u64, name: &'static str, count: u32, bytes: u64) -> Vec<u64> {
    sizes::log_normal_below(&mut Rng::stream(seed, name), count as usize, bytes, SIGMA, MOST_BYTES)
}

/// Draws groups for articles.
struct Groups {
    rng: Rng,
    /// The sum of the weights up to each rank.
    sums: Vec<f64>,
    /// Popular groups do not lie side by side.
    places: Permutation,
}

impl Groups {
    fn new(seed: u64, name: &'static str, dirs: u32) -> Groups {
        let sums = (1..=dirs).scan(0.0, |sum, rank| {
            *sum += 1.0 / f64::from(rank);
            Some(*sum)
        });
        let places = Permutation::new(u64::from(dirs), seed);
        Groups { rng: Rng::stream(seed, name), sums: sums.collect(), places }
    }

    fn next(&mut self) -> Nr {
        let most = self.sums.last().copied().unwrap_or(0.0);
        let at = self.rng.unit() * most;
        let rank = self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1);
        1 + self.places.at(rank as u64) as Nr
    }
}

/// The phases.
pub fn phases(amount: &Amount) -> Vec<Phase> {
    let (users, seed, spool) = (amount.users, amount.seed, Spool::of(amount));
    let seed_of = move |user: usize| seed.wrapping_add(user as u64);
    let (dirs, come, go) = (spool.count(DIRS), spool.count(COME), spool.count(GO));
    let come_bytes = spool.share(COME_BYTES);
    vec![
        Phase::prepares(users, |user| {
            let seed = seed_of(user);
            let made = (1..=dirs).map(|dir| Step::MakeDir { dir, parent: (dir - 1) / FAN_OUT });
            let groups = Groups::new(seed, "news: groups", dirs);
            steps(made.chain(articles(1, spool.sizes(seed), groups)))
        }),
        Phase::cold("unbatch", users, |user| {
            let seed = seed_of(user);
            let sizes = drawn(seed, "news: new", come, come_bytes);
            let groups = Groups::new(seed, "news: groups of new", dirs);
            steps(articles(1 + spool.files, sizes, groups))
        }),
        Phase::warm("expire", users, |_| {
            steps((1..=go.min(spool.files)).map(|file| Step::Unlink { file }))
        }),
    ]
}

/// The steps that store articles of these sizes, each in a group of its own.
fn articles(first: Nr, sizes: Vec<u64>, mut groups: Groups) -> impl Iterator<Item = Step> {
    let article = move |(file, size)| make_whole(file, groups.next(), size, UNIT);
    (first..).zip(sizes).flat_map(article)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Files made and removed, and bytes written, in a phase.
    fn amounts(phase: Phase) -> (usize, usize, u64) {
        phase.users.into_iter().flatten().fold((0, 0, 0), |(made, removed, bytes), step| match step
        {
            Step::Create { .. } => (made + 1, removed, bytes),
            Step::Unlink { .. } => (made, removed + 1, bytes),
            Step::Write { length, .. } => (made, removed, bytes + u64::from(length)),
            _ => (made, removed, bytes),
        })
    }

    /// Claim J26.
    #[test]
    fn amounts_are_those_of_the_paper_or_a_share_of_them() {
        let all: Vec<_> = phases(&Amount::one_user()).into_iter().map(amounts).collect();
        let expected = [(520_000, 0, 2 << 30), (78_000, 0, 270_000_000), (0, 91_000, 0)];
        assert_eq!(all, expected);
        let old: u64 = Spool { files: FILES }.sizes(1).iter().take(91_000).sum();
        assert_eq!(old, 250_000_000, "those that expire");
        let tenth = Amount { files: Some(52_000), ..Amount::one_user() };
        let all: Vec<_> = phases(&tenth).into_iter().map(amounts).collect();
        assert_eq!(all[1..], [(7_800, 0, 27_000_000), (0, 9_100, 0)]);
        let least = Amount { files: Some(1), ..Amount::one_user() };
        assert_eq!(phases(&least).into_iter().map(amounts).next_back(), Some((0, 1, 0)));
    }

    #[test]
    fn articles_spread_over_groups_by_rank() {
        let mut groups = Groups::new(1, "news: groups", 700);
        let drawn: Vec<Nr> = (0..52_000).map(|_| groups.next()).collect();
        let mut counts: BTreeMap<Nr, u32> = BTreeMap::new();
        drawn.iter().for_each(|dir| *counts.entry(*dir).or_default() += 1);
        assert!(counts.len() > 650 && counts.keys().all(|dir| (1..=700).contains(dir)));
        let mut sorted: Vec<u32> = counts.into_values().collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let factor = f64::from(sorted[0]) / f64::from(sorted[9]);
        assert!((8.0..13.0).contains(&factor), "the first over the tenth: {factor}");
        let again = drawn.windows(2).filter(|two| two[0] == two[1]).count();
        assert!(again * 20 < drawn.len(), "{again} articles follow one of their group");
    }
}
