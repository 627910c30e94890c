//! When the power goes, and what it may take.

use seekless_calls::model::{Kept, Modelled};
use seekless_crash::Fate;
use seekless_crash::contract::{AtRisk, Contract};
use seekless_crash::enumerate::{Policy, Search, enumerate};
use seekless_engine::rng::Rng;

/// Bounds of the choice of states: those of `seekless crash-test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) exhaustive: usize,
    pub(super) samples: usize,
    pub(super) seed: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { exhaustive: 4, samples: 24, seed: 1 }
    }
}

/// The time between two syncs that make something durable. The power goes at its end: all that a
/// cut in between may leave, a cut there may leave, too.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    /// The power goes right before this entry of the recording.
    pub(super) cut: u64,
    /// The cut before: what was asked earlier was tried there.
    before: u64,
    /// The pending micro-operations in order.
    pub(super) pending: Vec<usize>,
    /// Syncs that were answered.
    pub(super) syncs: usize,
    /// Micro-operations that are durable.
    pub(super) durable: usize,
    /// Acknowledgements.
    pub(super) acked: usize,
    /// It ends with the recording.
    pub(super) is_last: bool,
}

/// Marks the numbers of files, as those of calls that have older micro-operations as parts.
const STALE: u64 = 1 << 63;

/// The epochs of a recording in order.
pub(super) fn epochs(modelled: &Modelled) -> Vec<Epoch> {
    let recorded = modelled.recorded();
    let acked = |cut| recorded.marks.partition_point(|mark| mark.at < cut);
    let mut barriers = modelled.barriers();
    let (mut epochs, mut before, mut syncs) = (Vec::new(), 0, 0);
    while let Some(sync) = barriers.peek() {
        let (cut, durable) = (sync.answered, barriers.durable().len());
        let pending = barriers.pending(cut).collect();
        let made = barriers.next().map(|(_, made)| made).unwrap_or_default();
        // A sync that makes nothing durable forbids nothing new.
        if !made.is_empty() {
            let acked = acked(cut);
            epochs.push(Epoch { cut, before, pending, syncs, durable, acked, is_last: false });
            before = cut;
        }
        syncs += 1;
    }
    let (cut, durable) = (recorded.entries, barriers.durable().len());
    let pending = barriers.pending(cut).collect();
    epochs.push(Epoch { cut, before, pending, syncs, durable, acked: acked(cut), is_last: true });
    epochs
}

impl Epoch {
    /// The pending micro-operations as the crash kernel sees them: they have needs and never tear.
    pub(super) fn at_risk(&self, modelled: &Modelled) -> Vec<AtRisk> {
        let micros = &modelled.recorded().micros;
        let one = |&index: &usize| {
            let micro = &micros[index];
            let needs = modelled.needs(index).iter();
            let place = |need: usize| self.pending.binary_search(&need).ok();
            let part_of = match micro.change.object() {
                // A file that is written and never synced would leave no samples for the rest.
                Some(object) if micro.asked < self.before => Some(STALE | u64::from(object)),
                _ => micro.call,
            };
            AtRisk {
                device: 0,
                submitted: micro.asked,
                completed: micro.answered.filter(|&at| at < self.cut),
                forced: false,
                sectors: None,
                needs: needs.filter_map(|need| place(need.micro as usize)).collect(),
                part_of,
            }
        };
        self.pending.iter().map(one).collect()
    }

    /// The outcomes that are tried: a fate for each pending micro-operation.
    pub(super) fn choose(&self, modelled: &Modelled, bounds: &Bounds) -> Vec<Vec<Fate>> {
        let Bounds { exhaustive, samples, seed } = *bounds;
        let (search, contract) = (Search::Budget, Contract::DISK);
        let policy = Policy { exhaustive, samples, search, contract };
        let mut rng = Rng::stream(seed ^ self.cut.rotate_left(32), "replay");
        enumerate(&self.at_risk(modelled), &policy, &mut rng)
    }

    /// The pending micro-operations that are on the disk.
    pub(super) fn kept(&self, fates: &[Fate]) -> Kept {
        debug_assert_eq!(fates.len(), self.pending.len(), "a state of another epoch");
        let both = self.pending.iter().zip(fates);
        both.filter(|(_, fate)| !fate.is_nothing()).map(|(&index, _)| index).collect()
    }
}
