//! Which crash states the prover tries at a device event.

use crate::report::FaultCounts;
use seekless_crash::contract::Contract;
use seekless_crash::enumerate::{Policy, Search};
use seekless_crash::fate::{Fate, is_reordered, tally};
use seekless_crash::moment::Moment;
use seekless_engine::rng::Rng;

/// Adds to the counts what the fates of a state come to.
pub fn count(fates: &[Fate], faults: &mut FaultCounts) {
    let all = tally(fates);
    faults.lost += all.lost as u64;
    faults.torn += all.torn as u64;
    faults.reordered += u64::from(is_reordered(fates));
}

/// What is tried at each device event, and what a thorough search tries besides.
const USUAL: Policy =
    Policy { exhaustive: 3, samples: 6, search: Search::Sweep, contract: Contract::DISK };
const MORE: Policy = Policy { exhaustive: 5, samples: 24, ..USUAL };

/// The states to try at a moment: a fate for each pending write. A thorough search tries the same
/// ones and then more.
pub fn choose(moment: &Moment, thorough: bool, rng: &mut Rng) -> Vec<Vec<Fate>> {
    let of = |policy| Policy { contract: moment.contract, ..policy };
    let mut states = moment.outcomes(&of(USUAL), rng);
    if thorough {
        states.extend(moment.outcomes(&of(MORE), rng));
    }
    states
}
