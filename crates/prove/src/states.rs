//! Which crash states the prover tries, and how often each fault is part of one.

use seekless_crash::contract::Contract;
use seekless_crash::enumerate::{Policy, Search};
use seekless_crash::fate::{Fate, is_reordered, tally};
use seekless_crash::moment::Moment;
use seekless_engine::rng::Rng;
use serde::Serialize;

/// How often each fault was part of a state or of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// Writes of which nothing reached the medium.
    pub lost: u64,
    /// Writes of which some sectors did.
    pub torn: u64,
    /// States in which a later write reached the medium and an earlier one did not.
    pub reordered: u64,
    /// Power cuts during the recovery from a power cut.
    pub second_cuts: u64,
    /// Blocks or labels that read back with wrong bytes.
    pub rotten: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// Damaged volumes that were not mounted, with a reason.
    pub refused_mounts: u64,
    /// Writes of a device that failed.
    pub failed_writes: u64,
    /// Flushes of a device that failed.
    pub failed_flushes: u64,
    /// Lives in which the volume refused writes from then on, with a reason.
    pub failed: u64,
    /// Devices lost together with the power.
    pub lost_devices: u64,
    /// Damaged members of arrays that were left out of the assembly.
    pub put_out: u64,
}

impl FaultCounts {
    /// Name and number of each, in the order in which they are listed to people.
    pub fn rows(&self) -> [(&'static str, u64); 12] {
        [
            ("writes lost", self.lost),
            ("writes torn", self.torn),
            ("states with writes out of order", self.reordered),
            ("power cuts during recovery", self.second_cuts),
            ("rotten blocks", self.rotten),
            ("unreadable blocks", self.unreadable),
            ("damaged volumes not mounted", self.refused_mounts),
            ("failed device writes", self.failed_writes),
            ("failed device flushes", self.failed_flushes),
            ("epochs that ended writing", self.failed),
            ("lost devices", self.lost_devices),
            ("damaged members left out", self.put_out),
        ]
    }
}

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
