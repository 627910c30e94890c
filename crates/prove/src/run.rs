//! One run: a volume on forgetful devices, a client, and power cuts at every event.
//!
//! The loop knows time, device events, epochs and faults. What is asked and whether an answer or a
//! crash state is right is for the [`Oracle`] to say; what the devices hold is for the [`Subject`].

mod epochs;
mod faults;

use crate::block_damage::Damage;
use crate::check::Checker;
use crate::kinds::{is_tried, kind_of};
use crate::machine::{DeviceKind, Machine};
use crate::oracle::{Heard, Oracle, Send};
use crate::report::ProveReport;
use crate::rules::Rule;
use crate::script::Operation;
use crate::subject::{Case, RequestOf, Subject, VolumeOf};
use crate::violation::{Sort, Wrong};
use crate::volume::Volume as _;
use epochs::power_on;
use seekless_crash::moment::Moment;
use seekless_engine::device::Device as _;
use seekless_engine::device::medium::Medium;
use seekless_engine::rng::Rng;
use seekless_engine::shared::Shared;
use seekless_engine::units::{MILLIS, Time};
use std::collections::BTreeSet;

/// Something that broke a promise.
#[derive(Clone, Debug)]
pub struct Found {
    /// Number of the operation.
    pub operation: u32,
    /// Device event after which it showed.
    pub event: u64,
    /// What is wrong.
    pub wrong: Wrong,
    /// What the client had heard of.
    pub heard: Heard,
}

/// Blocks of metadata struck after a clean shutdown.
const STRIKES: usize = 64;
/// An epoch whose requests are not answered within so many device events is stuck.
const PATIENCE: u32 = 100_000;
/// What a device event costs, compared with a block recovered.
const EVENT_WORK: u64 = 16;

/// The run of one case.
#[derive(Debug)]
pub struct Run<S: Subject> {
    subject: S,
    workload: &'static str,
    script: Vec<Operation<RequestOf<S>>>,
    /// Seed of everything that is drawn after the case.
    base: u64,
    kind: DeviceKind,
    epoch: u64,
    volume: VolumeOf<S>,
    machine: Shared<Machine>,
    /// Devices that did not have what they should when this epoch began.
    absent: BTreeSet<usize>,
    oracle: S::Oracle,
    checker: Checker<S>,
    now: Time,
    /// Number of the operation that is under way.
    operation: u32,
    /// Device events of earlier epochs.
    events_before: u64,
    found: Option<Found>,
    search: Search,
}

/// Where in a run states are tried, and how much that may cost.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// From the operation with this number on.
    watch: u32,
    /// The only promise that matters, if not all do.
    sort: Option<Sort>,
    /// Blocks recovered after which the run stops; see [`Checker::work`].
    most_work: u64,
}

impl<S: Subject> Run<S> {
    /// A fresh volume, and everything that is to happen to it; the case decides on both.
    pub fn new(subject: S, case: u64, seed: u64) -> Run<S> {
        let mut rng = Rng::stream(seed, &format!("case {case}"));
        let drawn = subject.draw(kind_of(subject, seed, case), &mut rng);
        let base = rng.next();
        Run::of(subject, drawn, base)
    }

    /// The volume of a case of this kind on such devices, with this seed of what happens later.
    ///
    /// # Errors
    /// The sizes of the devices of the case, if they are not `device_blocks`.
    pub fn again(
        subject: S,
        (seed, case, kind): (u64, u64, u64),
        device_blocks: &[u64],
        devices: DeviceKind,
        base: u64,
    ) -> Result<Run<S>, Vec<u64>> {
        let mut rng = Rng::stream(seed, &format!("case {case}"));
        let drawn = subject.draw(kind, &mut rng);
        let made: Vec<u64> = drawn.media.iter().map(Medium::blocks).collect();
        if made != device_blocks {
            return Err(made);
        }
        Ok(Run::of(subject, Case { devices, ..drawn }, base))
    }

    fn of(subject: S, drawn: Case<S>, base: u64) -> Run<S> {
        let Case { workload, media, devices, script, mut oracle } = drawn;
        let (volume, machine, absent) = power_on(subject, media, Damage::None, devices, base);
        oracle.mounted(&volume);
        Run {
            subject,
            workload,
            script,
            base,
            kind: devices,
            epoch: 0,
            volume,
            machine,
            absent,
            oracle,
            checker: Checker::new(subject, devices.is_volatile()),
            now: 0,
            operation: 0,
            events_before: 0,
            found: None,
            search: Search { watch: 0, sort: None, most_work: u64::MAX },
        }
    }

    /// Everything that is to happen.
    pub fn script(&self) -> &[Operation<RequestOf<S>>] {
        &self.script
    }

    /// The name of its kind of workload.
    pub fn workload(&self) -> &'static str {
        self.workload
    }

    /// Sizes of the devices.
    pub fn device_blocks(&self) -> Vec<u64> {
        let machine = self.machine.lend();
        (0..machine.devices()).map(|device| machine.device(device).blocks()).collect()
    }

    /// What the devices are like.
    pub fn devices(&self) -> DeviceKind {
        self.kind
    }

    /// Seed of everything that is drawn after the case.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The run in a sentence.
    pub fn describe(&self) -> String {
        let sizes: Vec<String> = self.device_blocks().iter().map(u64::to_string).collect();
        let forget = match self.kind.is_volatile() {
            true => "forget what was not flushed",
            false => "keep what they have acknowledged",
        };
        let head = if self.kind.headed { ", with heads" } else { "" };
        format!(
            "workload \"{}\": {} on devices of {} blocks that {forget}{head}",
            self.workload,
            self.volume.describe(),
            sizes.join(" and ")
        )
    }

    /// With more states for each moment, for scripts of which little is left.
    pub fn thorough(mut self) -> Run<S> {
        self.checker.thorough = true;
        self
    }

    /// Trying states only from the operation `watch` on.
    pub fn watching(mut self, watch: u32) -> Run<S> {
        self.search.watch = watch;
        self
    }

    /// Looking for one broken promise only, and not beyond so much work.
    pub fn searching(mut self, sort: Sort, most_work: u64) -> Run<S> {
        self.search.sort = Some(sort);
        self.search.most_work = most_work;
        self
    }

    /// Blocks of devices recovered so far, and a few for each device event.
    pub fn work(&self) -> u64 {
        self.checker.work + EVENT_WORK * (self.events_before + self.machine.lend().events())
    }

    /// Runs these operations; says what broke first.
    pub fn execute(
        &mut self,
        operations: &[(u32, Operation<RequestOf<S>>)],
        report: &mut ProveReport,
    ) -> Option<Found> {
        for &(number, operation) in operations {
            debug_assert!(number >= self.operation, "operations come in order");
            self.operation = number;
            let goes_on = self.carry_out(operation, report) && self.work() < self.search.most_work;
            if self.found.is_some() || !goes_on {
                self.close(report);
                return self.found.take();
            }
        }
        self.finish(report);
        self.close(report);
        self.found.take()
    }

    /// The end of the run: a clean shutdown, then damage to what it has left.
    fn finish(&mut self, report: &mut ProveReport) {
        self.settle(report);
        self.drain(report);
        self.stop(report);
        if self.found.is_some() || self.checker.damage != Damage::None || self.is_excused() {
            return;
        }
        let moment = self.machine.lend().moment();
        let mut rng = self.rng_of(moment.event, "end");
        let media = moment.durable.clone();
        match self.checker.content_of(media, &mut self.oracle, &mut rng, report) {
            Err(wrong) => self.tell(moment.event, wrong),
            Ok(content) => {
                let content = content.expect("only damage keeps a volume from being mounted");
                self.oracle.restart(&content);
                self.checker.begin();
                let damages = self.subject.damages();
                if damages && self.search.sort.is_none_or(|sort| sort == Sort::Damage) {
                    self.strike(&moment.durable, &content, report);
                }
            }
        }
    }

    /// Counts what the epoch that ends has seen.
    fn close(&mut self, report: &mut ProveReport) {
        let mut machine = self.machine.lend();
        for device in 0..machine.devices() {
            let counts = machine.device_mut(device).faults_mut().take_counts();
            report.faults.failed_writes += counts.failed_writes + counts.full;
            report.faults.failed_flushes += counts.failed_flushes;
        }
        report.faults.failed += u64::from(self.volume.has_failed());
    }

    /// False if the run cannot go on.
    fn carry_out(&mut self, operation: Operation<RequestOf<S>>, report: &mut ProveReport) -> bool {
        match operation {
            Operation::Request(request) => {
                self.make_ready(report);
                let (operation, now) = (self.operation, self.now);
                let send = Send { request, operation, now, machine: &self.machine };
                self.oracle.send(send, &mut self.volume);
            }
            Operation::Pass(events) => self.pass(events, report),
            Operation::Rest(events) => self.rest(events, report),
            Operation::Break(fault) => self.go_wrong(fault, report),
            Operation::Heal => self.heal(),
            Operation::End(clean) => return self.end(clean, report),
        }
        true
    }

    /// Lets events pass until the client may send its next request.
    fn make_ready(&mut self, report: &mut ProveReport) {
        for _ in 0..PATIENCE {
            if self.oracle.is_ready() || self.found.is_some() {
                return;
            }
            self.settle(report);
            match self.volume.next_event() {
                _ if self.oracle.is_ready() => return,
                Some(due) => self.now = self.now.max(due),
                None => return self.stuck("and nothing is under way"),
            }
        }
        self.stuck("though devices complete requests all the time");
    }

    fn pass(&mut self, events: u32, report: &mut ProveReport) {
        self.settle(report);
        for passed in 0..events {
            let due = match self.volume.next_event() {
                // What a volume does in the background only is for a rest.
                Some(due) if self.oracle.waiting() == 0 && due > self.now + MILLIS => break,
                Some(due) => due,
                None => break,
            };
            self.now = self.now.max(due);
            self.settle(report);
            if passed > PATIENCE {
                self.stuck("though devices complete requests all the time");
            }
            if self.found.is_some() {
                return;
            }
        }
    }

    /// Leaves the volume alone for a while, if nothing is in flight: it may work in the background.
    fn rest(&mut self, events: u32, report: &mut ProveReport) {
        self.now += 250 * MILLIS;
        self.settle(report);
        for _ in 0..events {
            let Some(due) = self.volume.next_event().filter(|_| self.oracle.waiting() == 0) else {
                return;
            };
            self.now = self.now.max(due);
            self.settle(report);
            if self.found.is_some() {
                return;
            }
        }
    }

    /// Lets everything happen that is due, cuts the power after each device event, then lets the
    /// client hear its answers.
    fn settle(&mut self, report: &mut ProveReport) {
        let mut replies = Vec::new();
        let before = self.machine.lend().events();
        self.volume.settle(self.now, &mut replies);
        report.events += self.machine.lend().events() - before;
        let moments = self.machine.lend().take_moments();
        let last = moments.last().cloned();
        for moment in &moments {
            self.try_states(moment, report);
            if self.found.is_some() {
                return;
            }
        }
        report.requests += replies.len() as u64;
        if replies.is_empty() {
            return;
        }
        let excuse = self.excuse();
        for reply in replies {
            if let Some(wrong) = self.oracle.hear(reply, &self.volume, excuse) {
                let event = self.machine.lend().events();
                self.tell(event, wrong);
            }
        }
        // What the client has heard since may allow less.
        if self.found.is_none() {
            let moment = last.unwrap_or_else(|| self.machine.lend().moment());
            self.try_states(&moment, report);
        }
    }

    fn rng_of(&self, event: u64, name: &str) -> Rng {
        Rng::stream(self.base ^ (self.events_before + event).rotate_left(20), name)
    }

    fn try_states(&mut self, moment: &Moment, report: &mut ProveReport) {
        if self.operation < self.search.watch || self.work() >= self.search.most_work {
            return;
        }
        let thins = !self.checker.thorough && self.subject.cases().is_none();
        if thins && !is_tried(report.states, &mut self.rng_of(moment.event, "thinning")) {
            return;
        }
        let mut rng = self.rng_of(moment.event, "states");
        self.checker.failing = self.failing();
        if let Some(wrong) = self.checker.moment(moment, &mut self.oracle, &mut rng, report) {
            self.tell(moment.event, wrong);
        }
    }

    fn blame(&mut self, rule: Rule, sort: Sort, sentence: String) {
        let event = self.machine.lend().events();
        self.tell(event, rule.wrong(sort, sentence));
    }

    /// Notes what broke a promise, if nothing has before.
    fn tell(&mut self, event: u64, wrong: Wrong) {
        if self.found.is_none() && wrong.rule.applies() {
            let (operation, event) = (self.operation, self.events_before + event);
            self.found = Some(Found { operation, event, wrong, heard: self.oracle.heard() });
        }
    }

    fn stuck(&mut self, how: &str) {
        let story = format!("{} requests are not answered, {how}", self.oracle.waiting());
        self.blame(Rule::Answers, Sort::Hang, story);
    }

    /// Waits for all answers.
    fn drain(&mut self, report: &mut ProveReport) {
        for _ in 0..PATIENCE {
            if self.oracle.waiting() == 0 || self.found.is_some() {
                return;
            }
            let Some(due) = self.volume.next_event() else {
                return self.stuck("and nothing is under way");
            };
            self.now = self.now.max(due);
            self.settle(report);
        }
        self.stuck("though devices are busy");
    }

    fn stop(&mut self, report: &mut ProveReport) {
        if self.found.is_some() {
            return;
        }
        self.volume.stop(self.now);
        self.settle(report);
        for _ in 0..PATIENCE {
            if self.volume.stopped() || self.found.is_some() {
                break;
            }
            let Some(due) = self.volume.next_event() else { break };
            self.now = self.now.max(due);
            self.settle(report);
        }
        if self.found.is_none() && !self.volume.stopped() && !self.is_excused() {
            let story = "a clean shutdown never completes".to_owned();
            self.blame(Rule::ShutsDown, Sort::Hang, story);
        }
        if self.volume.stopped() && !self.volume.has_failed() {
            self.oracle.stopped();
        }
    }
}
