//! What goes wrong with the devices of a run, and what that excuses.

use super::{Run, STRIKES};
use crate::block_damage::{Damage, Strike, all_places, find};
use crate::oracle::{Excuse, Oracle as _};
use crate::read_only_mount::read_only;
use crate::report::{FaultCounts, ProveReport};
use crate::rules::{Rule, on_behalf};
use crate::script::Fault;
use crate::subject::{ContentOf, Subject};
use crate::violation::{Sort, Wrong};
use seekless_crash::faults::{Plan, flip_bit};
use seekless_engine::device::medium::Cells;
use seekless_engine::rng::Rng;
use std::collections::BTreeSet;

/// True if a subject on one device makes up for the loss of a block.
fn makes_up<S: Subject>(subject: S, medium: &Cells, at: u64) -> bool {
    subject.makes_up(std::slice::from_ref(medium), (0, at), false)
}

impl<S: Subject> Run<S> {
    pub(super) fn go_wrong(&mut self, fault: Fault, report: &mut ProveReport) {
        let port = self.port_of(fault);
        let damage = self.damage_by(fault, port);
        let subject = self.subject;
        let mut machine = self.machine.lend();
        let ram = machine.device_mut(port);
        match fault {
            Fault::Write(after) => ram.faults_mut().fail_write_after(after, false),
            Fault::BadPlace(after) => ram.faults_mut().fail_write_after(after, true),
            Fault::Full(after) => ram.faults_mut().fill_after(after),
            Fault::Flush(after) => ram.faults_mut().fail_flush_after(after),
            Fault::Unreadable(place) => {
                let at = find(place, ram.durable());
                let makes_up = makes_up(subject, ram.durable(), at);
                ram.lose(at);
                if !makes_up {
                    self.checker.damage = damage;
                }
                report.faults.unreadable += 1;
            }
            Fault::Rot(place, bit) => {
                let at = find(place, ram.durable());
                let body = flip_bit(&ram.durable().get(at), bit);
                let makes_up = makes_up(subject, ram.durable(), at);
                ram.rot(at, &body);
                if !makes_up {
                    self.checker.damage = damage;
                }
                report.faults.rotten += 1;
            }
        }
    }

    /// The device that a fault strikes. In an epoch of an array unreadable blocks are all on one
    /// member, more often than not, which is what the others can make up for.
    fn port_of(&self, fault: Fault) -> usize {
        let mut rng = Rng::stream(self.base ^ self.epoch.rotate_left(40), "fault");
        let together = self.subject.spare() > 0 && rng.chance(0.7);
        if !(together && matches!(fault, Fault::Unreadable(_))) {
            rng = Rng::stream(self.base ^ u64::from(self.operation), "fault");
        }
        rng.below(self.machine.lend().devices() as u64) as usize
    }

    /// What damage there is after a fault.
    fn damage_by(&self, fault: Fault, port: usize) -> Damage {
        let alone = match self.checker.damage {
            Damage::None => true,
            Damage::Covered(device) => device == port,
            Damage::Open => false,
        };
        let spare = self.subject.spare() > self.absent.len() && self.failing().is_empty();
        match fault {
            Fault::Unreadable(_) if alone && spare => Damage::Covered(port),
            _ => Damage::Open,
        }
    }

    pub(super) fn heal(&mut self) {
        let mut machine = self.machine.lend();
        for port in 0..machine.devices() {
            *machine.device_mut(port).faults_mut().plan_mut() = Plan::default();
        }
    }

    /// Devices of which a request has failed in this epoch.
    pub(super) fn failing(&self) -> BTreeSet<usize> {
        let machine = self.machine.lend();
        let failed = |port: &usize| {
            let counts = machine.device(*port).faults().counts();
            counts.failed_writes + counts.full + counts.failed_flushes > 0
        };
        (0..machine.devices()).filter(failed).collect()
    }

    /// What excuses answers to the client now.
    pub(super) fn excuse(&self) -> Excuse {
        let damaged = self.checker.damage == Damage::Open;
        let failed = self.is_excused();
        Excuse { damaged, failed, refuses: failed || damaged && self.subject.stops_at_damage() }
    }

    /// So many devices have failed that requests may fail.
    pub(super) fn is_excused(&self) -> bool {
        let failing = self.failing();
        !failing.is_empty() && failing.union(&self.absent).count() > self.subject.spare()
    }

    /// Strikes blocks after a clean shutdown, one at a time. Right data or an error
    /// may come of it, never wrong data; where other devices make up for it, right data only.
    pub(super) fn strike(
        &mut self,
        media: &[Cells],
        expected: &ContentOf<S>,
        report: &mut ProveReport,
    ) {
        let mut rng = self.rng_of(u64::from(self.operation), "strikes");
        let absent = self.subject.absent(media).len();
        let covers = absent < self.subject.spare();
        // A member that is to be put right must be there.
        let whole = covers && absent == 0;
        for place in all_places(media, STRIKES / media.len(), &mut rng) {
            let strike = Strike::draw(self.subject.checks(), place, media, &mut rng);
            let mut struck = media.to_vec();
            strike.hit(&mut struck, &mut report.faults);
            report.states += 1;
            report.recovered += 1;
            let makes_up = self.subject.makes_up(media, strike.place(), true);
            self.checker.damage = strike.damage(covers, makes_up);
            let open = self.checker.damage == Damage::Open;
            let found = on_behalf(Rule::DamageAtRest, || {
                self.checker.content_of(struck, &mut self.oracle, &mut rng, report)
            });
            let content = match found {
                Ok(content) => content,
                Err(Wrong { mut story, .. }) => {
                    story.insert(0, strike.to_string());
                    let event = self.machine.lend().events();
                    let wrong = Wrong { rule: Rule::DamageAtRest, sort: Sort::Damage, story };
                    return self.tell(event, wrong);
                }
            };
            // What one member has wrong the others have right, and checksums tell. But where a
            // mount writes in the same stripe, parity may be computed with what is wrong.
            let heals = whole && strike.is_rot();
            let copied = heals && self.subject.has_copies();
            let wrong = match &content {
                Some(found) => self.oracle.differs(found, expected, open && !copied),
                None => heals.then(|| "the volume is not mounted".to_owned()),
            };
            if let Some(wrong) = wrong {
                let story = format!("after a clean shutdown {strike}, and {wrong}");
                return self.blame(Rule::DamageAtRest, Sort::Damage, story);
            }
            if heals {
                self.look_past(strike, media, expected, report);
                self.repair(strike, media, expected, &mut rng, report);
            }
            if self.found.is_some() {
                return;
            }
        }
    }

    /// A read-only mount shows everything as it should be, though a member of an array holds
    /// something wrong.
    fn look_past(
        &mut self,
        strike: Strike,
        media: &[Cells],
        expected: &ContentOf<S>,
        report: &mut ProveReport,
    ) {
        let mut struck = media.to_vec();
        strike.hit(&mut struck, &mut FaultCounts::default());
        report.states += 1;
        report.recovered += 1;
        let read = |volume: &mut _| self.oracle.read_what_can_be(volume);
        let wrong = match read_only(self.subject, &struck, None, self.kind.is_volatile(), read) {
            Err(error) => Some(error),
            Ok(seen) => self.oracle.differs(&seen, expected, false),
        };
        if let Some(wrong) = wrong {
            let story = format!(
                "after a clean shutdown {strike}, and the volume is mounted read-only: \
                 {wrong}"
            );
            self.blame(Rule::DamageLookedPast, Sort::Damage, story);
        }
    }

    /// A scrub that asks the layout puts right what one member of an array holds wrong: after it
    /// everything is there again, and all members agree.
    fn repair(
        &mut self,
        strike: Strike,
        media: &[Cells],
        expected: &ContentOf<S>,
        rng: &mut Rng,
        report: &mut ProveReport,
    ) {
        let mut struck = media.to_vec();
        strike.hit(&mut struck, &mut FaultCounts::default());
        report.states += 1;
        report.recovered += 1;
        self.checker.damage = Damage::None;
        let wrong = match self.subject.repair(&mut struck) {
            Err(error) => Some(format!("cannot be: {error}")),
            Ok(()) => match on_behalf(Rule::DamageMended, || {
                self.checker.content_of(struck, &mut self.oracle, rng, report)
            }) {
                Err(wrong) => Some(format!("does not help: {}", wrong.story.join("; "))),
                Ok(found) => {
                    let found = found.expect("only damage keeps a volume from being mounted");
                    self.oracle.differs(&found, expected, false)
                }
            },
        };
        if let Some(wrong) = wrong {
            let story = format!("after a clean shutdown {strike}, and repair {wrong}");
            self.blame(Rule::DamageMended, Sort::Damage, story);
        }
    }
}
