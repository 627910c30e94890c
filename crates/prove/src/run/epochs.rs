//! The epochs of a run: how one ends, and how the next one begins with what it has left.

use super::{Make, Run};
use crate::ProveReport;
use crate::bench::Bench;
use crate::damage::Damage;
use crate::judge::mount;
use crate::small_disk::SmallArm;
use crate::states::choose;
use crate::subject::{Subject, replace};
use seekless_crash::device::volatile::{Latency, VolatileRam};
use seekless_engine::arm::Arm;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::layout::MountOptions;
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::units::{MICROS, MILLIS};
use seekless_layouts::lfs::{CLEANING, HOT_PERCENT, INTERVAL};
use seekless_layouts::loge::options::{CLUSTERS, SORT};
use seekless_layouts::vlog::{COMPACTION, Compaction, FILL_PERCENT};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

impl Run {
    /// Ends an epoch and begins the next; false if there can be none.
    pub(super) fn end(&mut self, orderly: bool, report: &mut ProveReport) -> bool {
        if orderly {
            self.settle(report);
            self.drain(report);
            self.stop(report);
        }
        if self.found.is_some() {
            return false;
        }
        let moment = self.bench.borrow().moment();
        let mut rng = self.rng_of(moment.event, "crash");
        // A volume that came to a clean shutdown leaves nothing to chance unless it refused to
        // write.
        let mut states = choose(&moment, false, &mut rng);
        let state = rng.below(states.len() as u64) as usize;
        self.restart(moment.build(&states.swap_remove(state)), &mut rng, report)
    }

    fn restart(&mut self, mut media: Vec<Cells>, rng: &mut Rng, report: &mut ProveReport) -> bool {
        self.close(report);
        self.waiting.clear();
        if self.checker.damage == Damage::Open {
            return false;
        }
        // What the client sees now is what the first assembly makes of it: copies that differ are
        // equal after that, whichever member is pulled out later.
        if let Subject::Array { .. } = self.subject {
            let options = MountOptions { volatile: self.make.volatile, ..MountOptions::default() };
            // Whatever is wrong with it is told by the one that follows.
            let _ = self.checker.mount(&mut media, &options);
        }
        match self.checker.content_of(media.clone(), &self.history, rng, report) {
            Err(wrong) => {
                let event = self.bench.borrow().events();
                self.tell(event, wrong);
                false
            }
            Ok(names) => {
                self.history.restart(&names);
                let mut damage = self.checker.damage;
                self.checker.begin();
                self.epoch += 1;
                self.refused = None;
                self.events_before += self.bench.borrow().events();
                let seed = self.base ^ self.epoch.rotate_left(40);
                if let Damage::Covered(device) = damage
                    && rng.chance(0.3)
                {
                    replace(&mut media, device);
                    damage = Damage::None;
                }
                self.checker.damage = damage;
                (self.node, self.bench, self.absent) =
                    power_on(self.subject, media, damage, self.make, seed);
                self.history.limit(self.node.layer.status().limits());
                true
            }
        }
    }
}

/// Mounts media and gives them devices, as the seed of an epoch will have it. A device with blocks
/// that cannot be read stays where it is if the volume can be mounted with it.
pub(super) fn power_on(
    subject: Subject,
    mut media: Vec<Cells>,
    damage: Damage,
    make: Make,
    seed: u64,
) -> (Node, Rc<RefCell<Bench>>, BTreeSet<usize>) {
    let mut rng = Rng::stream(seed, "life");
    let Make { volatile, headed, slow_flushes } = make;
    let arm = |medium: &Cells| headed.then(|| SmallArm::new(cells(medium), rng.chance(0.5)));
    let arms: Vec<Option<SmallArm>> = media.iter().map(arm).collect();
    let compaction = Compaction::ALL[rng.below(Compaction::ALL.len() as u64) as usize];
    let fill_percent = if rng.chance(0.5) { 75 } else { 1 + rng.below(100) as u32 };
    // A stream of its own: what is drawn for other layouts stays as it was.
    let mut idling = Rng::stream(seed, "idling");
    let options = MountOptions {
        // The log's, if there is one apart.
        arm: arms.last().and_then(|arm| arm.as_ref()).map(|arm| arm as &dyn Arm),
        volatile,
        options: subject
            .caching(&mut rng)
            .onto(Options::default())
            .with(&COMPACTION, Some(compaction))
            .with(&FILL_PERCENT, fill_percent)
            .with(&CLEANING, subject.cleaning(&mut rng))
            .with(&SORT, idling.chance(0.6))
            .with(&CLUSTERS, idling.chance(0.4))
            // So short that blocks become cold in the short epoch of a run.
            .with(&INTERVAL, Some(20 * MILLIS))
            .with(&HOT_PERCENT, Some(if rng.chance(0.5) { 10 } else { 40 })),
        ..MountOptions::default()
    };
    let lost = match damage {
        Damage::Covered(device) => {
            mount(subject, &mut media.clone(), None, &options).is_err().then_some(device)
        }
        Damage::None | Damage::Open => subject.tinker(&mut media, &mut rng),
    };
    let mounted = mount(subject, &mut media, lost, &options)
        .expect("only media that were found good are mounted here");
    let mut absent = subject.absent(&media);
    absent.extend(lost);
    let ram = |medium| {
        let latency = match rng.below(5) {
            _ if slow_flushes => Latency::SlowFlushes,
            0 => Latency::InOrder(100 * MICROS),
            _ => Latency::Random,
        };
        let stream = Rng::stream(rng.next(), "device");
        VolatileRam::new(medium, volatile, latency, stream)
    };
    let rams = media.into_iter().map(ram).collect();
    let (bench, probes) = Bench::new(rams, arms);
    (mounted.node(probes, rng.next()), bench, absent)
}

fn cells(medium: &Cells) -> u64 {
    medium.blocks()
}
