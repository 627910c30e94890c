//! A subject that is no block volume, on contract devices: what it takes to add one, and that the
//! contract of the devices decides what is found.
#![allow(missing_docs)]

use seekless_crash::contract::{Contract, Order};
use seekless_crash::tear::Unit;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::io::{Done, Io};
use seekless_engine::layout::MountOptions;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::units::Time;
use seekless_prove::machine::DeviceKind;
use seekless_prove::oracle::{Allowance, Excuse, Heard, Oracle, Send};
use seekless_prove::script::{Operation, Request};
use seekless_prove::subject::{Case, Disks, Subject};
use seekless_prove::volume::{Mounted, Volume};
use seekless_prove::{Complaint, ProveOptions, ProveReport, Wrong, prove};
use std::fmt;

/// A pair of blocks that hold one number: the second is written once the first has completed, and
/// is never to be the newer one. It relies on the order of its device, or flushes in between.
#[derive(Clone, Copy, Debug)]
struct Pair {
    contract: Contract,
    flushes: bool,
}

/// Sets the number to that of the operation.
#[derive(Clone, Copy, Debug)]
struct Set;

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("set the pair")
    }
}

impl Request for Set {
    fn length(&self) -> Option<u32> {
        None
    }
    fn limited(self, _most: u32) -> Set {
        self
    }
}

#[derive(Debug)]
struct PairVolume {
    device: Box<dyn Device>,
    flushes: bool,
    /// Numbers to set, the first of which is under way.
    queue: Vec<u64>,
    stopped: bool,
}

impl PairVolume {
    fn begin(&mut self, now: Time) {
        if let Some(&number) = self.queue.first() {
            self.device.submit(now, Io::write(0, 0, Data::stamp(1, 0, number)));
        }
    }

    /// What follows a step; true if the number is set.
    fn step(&mut self, now: Time, done: &Done) -> bool {
        let number = self.queue[0];
        let second = Io::write(2, 1, Data::stamp(1, 1, number));
        match done.tag {
            0 if self.flushes => self.device.submit(now, Io::flush(1)),
            0 | 1 => self.device.submit(now, second),
            _ => return true,
        }
        false
    }

    /// The number that a block holds; `None` if it holds none or cannot be read.
    fn number(&mut self, at: u64) -> Option<u64> {
        let mut done = Vec::new();
        self.device.submit(0, Io::read(9, at, 1));
        self.device.reap(0, &mut done);
        match done.pop()?.outcome.ok()?.block(0).body {
            Body::Zeros => Some(0),
            Body::Stamp { key, version } if key == at => Some(version),
            _ => None,
        }
    }
}

impl Volume for PairVolume {
    type Reply = u64;

    fn describe(&self) -> String {
        "a pair".to_owned()
    }
    fn next_event(&self) -> Option<Time> {
        self.device.next_event()
    }
    fn settle(&mut self, now: Time, replies: &mut Vec<u64>) {
        while self.device.next_event().is_some_and(|due| due <= now) {
            let mut done = Vec::new();
            self.device.reap(now, &mut done);
            for one in done {
                if self.step(now, &one) {
                    replies.push(self.queue.remove(0));
                    self.begin(now);
                }
            }
        }
    }
    fn stop(&mut self, _now: Time) {
        self.stopped = true;
    }
    fn stopped(&self) -> bool {
        self.stopped
    }
    fn has_failed(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct MountedPair(bool);

impl Mounted for MountedPair {
    type Volume = PairVolume;

    fn blocks_read(&self) -> u64 {
        0
    }
    fn join(self, mut devices: Vec<Box<dyn Device>>, _seed: u64) -> PairVolume {
        let device = devices.pop().expect("one device");
        PairVolume { device, flushes: self.0, queue: Vec::new(), stopped: false }
    }
}

/// Two blocks: the number of each, or nothing readable.
type Found = [Option<u64>; 2];

#[derive(Debug, Default)]
struct PairOracle {
    revision: u64,
    sent: u64,
    heard: u64,
}

impl Oracle for PairOracle {
    type Request = Set;
    type Volume = PairVolume;
    type Content = Found;

    fn mounted(&mut self, _volume: &PairVolume) {}

    fn send(&mut self, send: Send<'_, Set>, volume: &mut PairVolume) {
        self.sent += 1;
        self.revision += 1;
        volume.queue.push(u64::from(send.operation) + 1);
        if volume.queue.len() == 1 {
            volume.begin(send.now);
        }
    }
    fn hear(&mut self, _set: u64, _volume: &PairVolume, _excuse: Excuse) -> Option<Wrong> {
        self.heard += 1;
        None
    }
    fn waiting(&self) -> usize {
        (self.sent - self.heard) as usize
    }
    fn heard(&self) -> Heard {
        Heard::default()
    }
    fn revision(&self) -> u64 {
        self.revision + 1
    }
    fn restart(&mut self, _content: &Found) {
        *self = PairOracle { revision: self.revision + 1, ..PairOracle::default() };
    }
    fn read(&mut self, volume: &mut PairVolume) -> Result<Found, String> {
        Ok(self.read_what_can_be(volume))
    }
    fn read_what_can_be(&mut self, volume: &mut PairVolume) -> Found {
        [volume.number(0), volume.number(1)]
    }
    fn print(content: &Found) -> u64 {
        content[0].unwrap_or(99) << 32 | content[1].unwrap_or(99)
    }
    fn judge(&self, found: &Found, allowance: Allowance) -> Vec<Complaint> {
        match found {
            [Some(first), Some(second)] if second <= first => Vec::new(),
            [Some(first), Some(second)] => {
                vec![Complaint::own(format!("{second} comes before {first}"))]
            }
            _ if allowance.is_damaged() => Vec::new(),
            _ => vec![Complaint::own("a block is torn")],
        }
    }
    fn differs(&self, found: &Found, expected: &Found, errors: bool) -> Option<String> {
        let differs = |(found, expected): (&Option<u64>, &Option<u64>)| {
            found != expected && !(errors && found.is_none())
        };
        let differ = found.iter().zip(expected).any(differs);
        differ.then(|| format!("{found:?}, not {expected:?}"))
    }
    fn exercise(&self, _volume: &mut PairVolume, _rng: &mut Rng) -> Vec<Complaint> {
        Vec::new()
    }
}

impl Subject for Pair {
    type Mounted = MountedPair;
    type Oracle = PairOracle;
    type Looks = ();
    const WORKLOADS: u64 = 1;

    fn name(self) -> String {
        "pair".to_owned()
    }
    fn flags(self) -> String {
        "--pair".to_owned()
    }
    fn draw(self, _case: u64, rng: &mut Rng) -> Case<Pair> {
        let mut script = Vec::new();
        for _ in 0..12 {
            script.push(Operation::Request(Set));
            script.push(Operation::Pass(rng.below(4) as u32));
        }
        script.push(Operation::End(rng.chance(0.5)));
        let devices = DeviceKind {
            contract: self.contract,
            headed: false,
            slow_flushes: false,
            keeps_forced: false,
        };
        let media = vec![Cells::new(8)];
        Case { workload: "sets", media, devices, script, oracle: PairOracle::default() }
    }
    fn mount_options(self, _seed: u64, _rng: &mut Rng) -> Options {
        Options::default()
    }
    fn mount(
        self,
        _disks: &mut Disks<'_>,
        _options: &MountOptions<'_>,
    ) -> Result<MountedPair, String> {
        Ok(MountedPair(self.flushes))
    }
    fn checks(self) -> bool {
        false
    }
    fn stops_at_damage(self) -> bool {
        false
    }
}

fn proved(order: Order, unit: Unit, flushes: bool) -> ProveReport {
    let subject = Pair { contract: Contract { order, unit }, flushes };
    let options = ProveOptions { states: 4_000, shrink: true, ..ProveOptions::of(subject) };
    let options = ProveOptions { stop_at_first: true, ..options };
    prove(&options, || 0, &mut |_, _| {})
}

#[test]
fn order_is_enough_where_the_device_promises_it() {
    for order in [Order::KeepsCompleted, Order::Prefix] {
        let report = proved(order, Unit::Request, false);
        assert!(report.violations.is_empty(), "{order:?}: {}", report.to_text());
        assert!(report.faults.lost > 0, "writes in flight are lost");
    }
    let report = proved(Order::Unordered, Unit::Request, false);
    let story = report.violations[0].story.join("\n");
    assert!(story.contains("comes before"), "{story}");
    assert_eq!(report.violations[0].keep.as_deref().map(|keep| keep.len() < 9), Some(true));
}

#[test]
fn a_flush_in_between_is_enough_on_every_device_that_does_not_tear() {
    for contract in Contract::all() {
        let report = proved(contract.order, contract.unit, true);
        // A pair of blocks has no answer to a tear within one.
        let tears = contract.unit == Unit::Sector;
        assert_eq!(report.violations.is_empty(), !tears, "{contract:?}: {}", report.to_text());
    }
}
