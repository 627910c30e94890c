//! Which kind of workload a case has, and how many states it may take.
//!
//! Each round of cases has every kind once, in an order of its own: a sweep that is too short for a
//! round does not always miss the same kinds. And a case that has had many states tries fewer and
//! fewer of those that come, so that a round fits into a short sweep.

use crate::subject::Subject;
use seekless_engine::rng::Rng;

/// States after which a case tries a quarter of those that come.
const MANY: u64 = 400;

/// The kind of workload of a case; where cases are listed one by one, the case itself.
pub fn kind_of<S: Subject>(subject: S, seed: u64, case: u64) -> u64 {
    match subject.cases() {
        Some(_) => case,
        None => in_round(S::WORKLOADS, seed, case),
    }
}

fn in_round(kinds: u64, seed: u64, case: u64) -> u64 {
    let (round, place) = (case / kinds, case % kinds);
    let mut rng = Rng::stream(seed, &format!("kinds of round {round}"));
    let mut order: Vec<u64> = (0..kinds).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    order[place as usize]
}

/// True if the states of a moment are tried, in a case that has had `states`. The share falls with
/// the square, so that the number of states grows with the third root of those there are.
pub fn is_tried(states: u64, rng: &mut Rng) -> bool {
    let share = MANY as f64 / (MANY + states) as f64;
    rng.chance(share * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_round_has_every_kind_once() {
        let order = |seed, round: u64| -> Vec<u64> {
            (0..34_u64).map(|place| in_round(34, seed, 34 * round + place)).collect()
        };
        let mut orders = BTreeSet::new();
        for seed in 0..4 {
            for round in 0..4 {
                let order = order(seed, round);
                let kinds: BTreeSet<u64> = order.iter().copied().collect();
                assert_eq!(kinds.len(), 34);
                orders.insert(order);
            }
        }
        assert_eq!(orders.len(), 16, "orders differ");
    }

    #[test]
    fn a_long_case_is_thinned_out() {
        let tried = |there: u64| {
            let mut rng = Rng::stream(1, "thin");
            (0..there).fold(0, |states, _| states + u64::from(is_tried(states, &mut rng)))
        };
        assert!((75..=100).contains(&tried(100)), "{}", tried(100));
        assert!((1200..1600).contains(&tried(11_498)), "{}", tried(11_498));
    }
}
