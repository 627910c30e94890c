//! Which outcomes of a power cut are tried: those that the crash kernel finds for the writes that a
//! cut at the end of an epoch may take.

use super::history::{Epoch, History, Unsettled};
use super::state::{Fate, SectorSize, State};
use seekless_crash::contract::{AtRisk, Contract};
use seekless_crash::enumerate::{Policy, Search, enumerate};
use seekless_engine::rng::Rng;

/// Bounds of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// All combinations of kept and lost are tried for so many unsettled writes, at most 20.
    pub exhaustive: u32,
    /// Outcomes tried in an epoch beyond those; where there are more writes, in all.
    pub samples: u32,
    /// Where writes tear.
    pub sector: SectorSize,
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
    let writes = at_risk(history, epoch, bounds.sector);
    let policy = Policy {
        exhaustive: bounds.exhaustive as usize,
        samples: bounds.samples as usize,
        search: Search::Budget,
        // What an NBD server promises that has a cache.
        contract: Contract::DISK,
    };
    let mut rng = Rng::stream(bounds.seed ^ epoch.cut.rotate_left(32), "replay");
    let outcomes = enumerate(&writes, &policy, &mut rng);
    let expand = |(one, fate): (&Unsettled, Fate)| match fate {
        Fate::Torn(marks) => Fate::Torn(bounds.sector.expand(&history.writes()[one.write], &marks)),
        whole => whole,
    };
    let expanded = |fates: Vec<Fate>| epoch.unsettled.iter().zip(fates).map(expand).collect();
    outcomes.into_iter().map(|fates| State { cut: epoch.cut, fates: expanded(fates) }).collect()
}

/// The unsettled writes of an epoch as the crash kernel sees them. Those of calls have needs and
/// are parts of a call, and they never tear.
pub fn at_risk(history: &History, epoch: &Epoch, sector: SectorSize) -> Vec<AtRisk> {
    let mut writes: Vec<AtRisk> =
        epoch.unsettled.iter().map(|one| of_device(history, epoch, sector, one)).collect();
    let Some(calls) = history.calls() else { return writes };
    // Unsettled writes of calls stand in their order; what is durable needs no care.
    let place = |write: usize| epoch.unsettled.binary_search_by_key(&write, |one| one.write).ok();
    let fresh = history.cut_before(epoch.cut);
    for (write, one) in writes.iter_mut().zip(&epoch.unsettled) {
        let needs = calls.needs(one.write).iter();
        write.needs = needs.filter_map(|need| place(need.micro as usize)).collect();
        let micro = &calls.recorded().micros[one.write];
        write.part_of = match micro.change.object() {
            // An earlier epoch has tried these one by one. A mapping that is stored to and never
            // synced would leave nothing for the writes of this epoch.
            Some(object) if micro.asked < fresh => Some(STALE | u64::from(object)),
            _ => micro.call,
        };
    }
    writes
}

/// Marks the numbers of files, as those of requests that have older writes as parts.
const STALE: u64 = 1 << 63;

fn of_device(history: &History, epoch: &Epoch, sector: SectorSize, one: &Unsettled) -> AtRisk {
    let write = &history.writes()[one.write];
    AtRisk {
        // One export; a forced write that was answered is settled.
        device: 0,
        forced: false,
        submitted: write.asked,
        completed: write.answered.filter(|&at| at < epoch.cut),
        sectors: sector.sectors(write),
        needs: Vec::new(),
        part_of: None,
    }
}
