//! The epochs of a run: how one ends, and how the next one begins with what it has left.

use super::Run;
use crate::ProveReport;
use crate::block_damage::Damage;
use crate::crash_states::choose;
use crate::machine::{DeviceKind, Machine};
use crate::mounting::mount;
use crate::oracle::Oracle as _;
use crate::recovery_cuts::{Left, mount_and_tell};
use crate::small_disk::SmallArm;
use crate::subject::{Subject, VolumeOf};
use crate::volume::Mounted as _;
use seekless_crash::device::volatile::{Latency, VolatileRam};
use seekless_engine::arm::Arm;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::layout::MountOptions;
use seekless_engine::rng::Rng;
use seekless_engine::shared::Shared;
use seekless_engine::units::MICROS;
use std::collections::BTreeSet;

impl<S: Subject> Run<S> {
    /// Ends an epoch, by a clean shutdown or not, and begins the next; false if there can be none.
    pub(super) fn end(&mut self, clean: bool, report: &mut ProveReport) -> bool {
        if clean {
            self.settle(report);
            self.drain(report);
            self.stop(report);
        }
        if self.found.is_some() {
            return false;
        }
        let moment = self.machine.lend().moment();
        let mut rng = self.rng_of(moment.event, "crash");
        // A clean shutdown leaves nothing to chance unless the volume refused to write.
        let mut states = choose(&moment, false, &mut rng);
        let state = rng.below(states.len() as u64) as usize;
        self.restart(moment.build(&states.swap_remove(state)), &mut rng, report)
    }

    fn restart(&mut self, mut media: Vec<Cells>, rng: &mut Rng, report: &mut ProveReport) -> bool {
        self.close(report);
        if self.checker.damage == Damage::Open {
            return false;
        }
        // What the client sees now is what the first assembly makes of it: copies that differ are
        // equal after that, whichever member is pulled out later.
        if self.subject.is_assembled() {
            let options =
                MountOptions { volatile: self.kind.is_volatile(), ..MountOptions::default() };
            // What is wrong with it is told by the one that follows.
            let _ = self.checker.mount(&mut media, &options);
        }
        match self.checker.content_of(media.clone(), &mut self.oracle, rng, report) {
            Err(wrong) => {
                let event = self.machine.lend().events();
                self.tell(event, wrong);
                false
            }
            Ok(content) => {
                let content = content.expect("only damage keeps a volume from being mounted");
                self.oracle.restart(&content);
                let mut damage = self.checker.damage;
                self.checker.begin();
                self.epoch += 1;
                self.events_before += self.machine.lend().events();
                let seed = self.base ^ self.epoch.rotate_left(40);
                if let Damage::Covered(device) = damage
                    && rng.chance(0.3)
                {
                    self.subject.replace(&mut media, device);
                    damage = Damage::None;
                }
                self.checker.damage = damage;
                (self.volume, self.machine, self.absent) =
                    power_on(self.subject, media, damage, self.kind, seed);
                self.oracle.mounted(&self.volume);
                true
            }
        }
    }
}

/// Mounts media and gives them devices, as the seed of an epoch has it. A device with blocks
/// that cannot be read stays where it is if the volume can be mounted with it.
pub(super) fn power_on<S: Subject>(
    subject: S,
    mut media: Vec<Cells>,
    damage: Damage,
    kind: DeviceKind,
    seed: u64,
) -> (VolumeOf<S>, Shared<Machine>, BTreeSet<usize>) {
    let mut rng = Rng::stream(seed, "life");
    let DeviceKind { contract, headed, slow_flushes, keeps_forced } = kind;
    let arm = |medium: &Cells| headed.then(|| SmallArm::new(cells(medium), rng.chance(0.5)));
    let arms: Vec<Option<SmallArm>> = media.iter().map(arm).collect();
    let chosen = subject.mount_options(seed, &mut rng);
    let options = MountOptions {
        // The log's, if there is one apart.
        arm: arms.last().and_then(|arm| arm.as_ref()).map(|arm| arm as &dyn Arm),
        volatile: kind.is_volatile(),
        options: chosen,
        ..MountOptions::default()
    };
    let lost = match damage {
        Damage::Covered(device) => {
            mount(subject, &mut media.clone(), None, &options).is_err().then_some(device)
        }
        Damage::None | Damage::Open => subject.tinker(&mut media, &mut rng),
    };
    let (mounted, left) = mount_and_tell(subject, media, lost, &options)
        .expect("only media that were found good are mounted here");
    let whole: Vec<Cells> = left.iter().map(|one| one.whole.clone()).collect();
    let mut absent = subject.absent(&whole);
    absent.extend(lost);
    // What the mount has not flushed is not durable.
    let ram = |Left { flushed, unflushed, .. }: Left| {
        let latency = match rng.below(5) {
            _ if slow_flushes => Latency::SlowFlushes,
            0 => Latency::InOrder(100 * MICROS),
            _ => Latency::Random,
        };
        let stream = Rng::stream(rng.next(), "device");
        let ram = VolatileRam::with_contract(flushed, contract, latency, stream).after(unflushed);
        if keeps_forced { ram.keeping_forced_writes() } else { ram }
    };
    let rams = left.into_iter().map(ram).collect();
    let (machine, probes) = Machine::new(rams, arms);
    (mounted.join(probes, rng.next()), machine, absent)
}

fn cells(medium: &Cells) -> u64 {
    medium.blocks()
}
