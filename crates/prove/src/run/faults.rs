//! What goes wrong with the devices of a run, and what that excuses.

use super::{Run, STRIKES};
use crate::check::Wrong;
use crate::damage::{Damage, Strike, all_places, find};
use crate::look::look;
use crate::names::{Name, UNREADABLE};
use crate::operation::Fault;
use crate::states::FaultCounts;
use crate::{ProveReport, Sort};
use seekless_crash::faults::{Plan, flip_bit};
use seekless_engine::device::medium::Cells;
use seekless_engine::rng::Rng;
use std::collections::BTreeSet;

impl Run {
    pub(super) fn go_wrong(&mut self, fault: Fault, report: &mut ProveReport) {
        let port = self.port_of(fault);
        let damage = self.damage_by(fault, port);
        let mut bench = self.bench.borrow_mut();
        let ram = bench.ram_mut(port);
        match fault {
            Fault::Write(after) => ram.faults_mut().fail_write_after(after),
            Fault::Full(after) => ram.faults_mut().fill_after(after),
            Fault::Flush(after) => ram.faults_mut().fail_flush_after(after),
            Fault::Unreadable(place) => {
                let at = find(place, ram.durable());
                ram.lose(at);
                self.checker.damage = damage;
                report.faults.unreadable += 1;
            }
            Fault::Rot(place, bit) => {
                let at = find(place, ram.durable());
                let body = flip_bit(&ram.durable().get(at), bit);
                ram.rot(at, &body);
                self.checker.damage = damage;
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
        rng.below(self.bench.borrow().devices() as u64) as usize
    }

    /// What damage there is after a fault.
    fn damage_by(&self, fault: Fault, port: usize) -> Damage {
        let alone = match self.checker.damage {
            Damage::None => true,
            Damage::Covered(device) => device == port,
            Damage::Open => false,
        };
        let spare = self.subject.spare() > self.absent.len() && !self.has_failed();
        match fault {
            Fault::Unreadable(_) if alone && spare => Damage::Covered(port),
            _ => Damage::Open,
        }
    }

    pub(super) fn heal(&mut self) {
        let mut bench = self.bench.borrow_mut();
        for port in 0..bench.devices() {
            *bench.ram_mut(port).faults_mut().plan_mut() = Plan::default();
        }
    }

    /// Devices of which a request has failed in this epoch.
    pub(super) fn failing(&self) -> BTreeSet<usize> {
        let bench = self.bench.borrow();
        let failed = |port: &usize| {
            let counts = bench.ram(*port).faults().counts();
            counts.failed_writes + counts.full + counts.failed_flushes > 0
        };
        (0..bench.devices()).filter(failed).collect()
    }

    fn has_failed(&self) -> bool {
        !self.failing().is_empty()
    }

    /// So many devices have failed that requests may fail.
    pub(super) fn is_excused(&self) -> bool {
        let failing = self.failing();
        !failing.is_empty() && failing.union(&self.absent).count() > self.subject.spare()
    }

    /// Strikes blocks of a volume that was stopped in order, one at a time. Right data or an error
    /// may come of it, never wrong data; where other devices make up for it, right data only.
    pub(super) fn strike(&mut self, media: &[Cells], report: &mut ProveReport) {
        let mut rng = self.rng_of(u64::from(self.operation), "strikes");
        let blocks = self.node.layer.blocks();
        let expected: Vec<Option<Name>> =
            (0..blocks).map(|block| self.history.newest(block)).collect();
        let absent = self.subject.absent(media).len();
        let covers = absent < self.subject.spare();
        // Whoever is to be put right must be there.
        let whole = covers && absent == 0;
        for place in all_places(media, STRIKES / media.len(), &mut rng) {
            let strike = Strike::draw(self.subject, place, media, &mut rng);
            let mut struck = media.to_vec();
            strike.hit(&mut struck, &mut report.faults);
            report.states += 1;
            report.recovered += 1;
            self.checker.damage = strike.damage(covers);
            let open = self.checker.damage == Damage::Open;
            let found = self.checker.content_of(struck, &self.history, &mut rng, report);
            let names = match found {
                Ok(names) => names,
                Err(Wrong { mut story, .. }) => {
                    story.insert(0, strike.to_string());
                    let event = self.bench.borrow().events();
                    return self.tell(event, Wrong { sort: Sort::Damage, story });
                }
            };
            // What one member has wrong the others have right, and checksums tell. But where a
            // mount writes in the same stripe, parity may be computed with what is wrong.
            let heals = whole && strike.is_rot();
            let copied = heals && self.subject.has_copies();
            let wrong = match names.is_empty() && heals {
                true => Some("the volume is not mounted".to_owned()),
                false => self.differs(&names, &expected, open && !copied),
            };
            if let Some(wrong) = wrong {
                let story = format!("the volume is stopped in order; then {strike}, and {wrong}");
                return self.blame(Sort::Damage, story);
            }
            if heals {
                self.look_past(strike, media, &expected, report);
                self.repair(strike, media, &expected, &mut rng, report);
            }
            if self.found.is_some() {
                return;
            }
        }
    }

    /// The first block that is not what it should be; with `open`, errors are what it may be, too.
    fn differs(&self, names: &[Name], expected: &[Option<Name>], open: bool) -> Option<String> {
        let pairs = names.iter().zip(expected).enumerate();
        let mut wrong = pairs.filter_map(|(block, (&name, &right))| {
            let right = right.filter(|&right| name != right && !(open && name == UNREADABLE))?;
            let [found, right] = [name, right].map(|one| self.checker.names.text(one));
            Some(format!("block {block} reads {found}, not {right}"))
        });
        wrong.next()
    }

    /// Whoever only looks sees everything as it should be, though a member of an array holds
    /// something wrong.
    fn look_past(
        &mut self,
        strike: Strike,
        media: &[Cells],
        expected: &[Option<Name>],
        report: &mut ProveReport,
    ) {
        let mut struck = media.to_vec();
        strike.hit(&mut struck, &mut FaultCounts::default());
        report.states += 1;
        report.recovered += 1;
        let wrong = match look(self.subject, &struck, None, self.make.volatile) {
            Err(error) => Some(error),
            Ok(seen) => {
                let mut names = Vec::new();
                for (count, data) in seen {
                    match data {
                        Some(data) => {
                            names.extend(self.checker.names.of(names.len() as u64, &data));
                        }
                        None => names.extend((0..count).map(|_| UNREADABLE)),
                    }
                }
                self.differs(&names, expected, false)
            }
        };
        if let Some(wrong) = wrong {
            let story = format!(
                "the volume is stopped in order; then {strike}, and it is mounted read-only: \
                 {wrong}"
            );
            self.blame(Sort::Damage, story);
        }
    }

    /// A scrub that asks the layout puts right what one member of an array holds wrong: after it
    /// everything is there again, and all members agree.
    fn repair(
        &mut self,
        strike: Strike,
        media: &[Cells],
        expected: &[Option<Name>],
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
            Ok(()) => match self.checker.content_of(struck, &self.history, rng, report) {
                Err(wrong) => Some(format!("does not help: {}", wrong.story.join("; "))),
                Ok(names) => self.differs(&names, expected, false),
            },
        };
        if let Some(wrong) = wrong {
            let story =
                format!("the volume is stopped in order; then {strike}, and repair {wrong}");
            self.blame(Sort::Damage, story);
        }
    }
}
