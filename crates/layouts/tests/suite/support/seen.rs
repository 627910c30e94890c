//! Members whose media can be read while they work, and their state after a power cut.

use seekless_arrays::{AssembleOptions, assemble};
use seekless_crash::Fate;
use seekless_crash::device::volatile::{Latency, VolatileRam};
use seekless_crash::tear::apply;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::{Device, DeviceStatus};
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Done, Io};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::shared::Shared;
use seekless_engine::units::Time;

/// A device whose medium can be read while it works.
#[derive(Clone, Debug)]
pub struct Seen(pub Shared<VolatileRam>);

impl Device for Seen {
    fn blocks(&self) -> u64 {
        self.0.lend().blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        self.0.lend().submit(now, io);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        self.0.lend().reap(now, done);
    }

    fn next_event(&self) -> Option<Time> {
        self.0.lend().next_event()
    }

    fn volatile(&self) -> bool {
        self.0.lend().volatile()
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for Seen {}

/// The media as disks, all of them.
pub fn with_disks<T>(
    media: &mut [Cells],
    act: impl FnOnce(&mut [Option<&mut dyn Disk>]) -> T,
) -> T {
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| Some(disk as &mut dyn Disk)).collect();
    act(&mut disks)
}

/// The array of media, on devices with a random delay for each request.
pub fn start(media: &mut [Cells], seed: u64) -> (Node, Vec<Seen>) {
    start_on(media, seed, true)
}

/// The same on devices that lose unflushed writes in a power cut, or lose nothing.
pub fn start_on(media: &mut [Cells], seed: u64, volatile: bool) -> (Node, Vec<Seen>) {
    let options = AssembleOptions { volatile, ..AssembleOptions::default() };
    let found = with_disks(media, |disks| assemble(disks, &options)).expect("all are there");
    let seen = |(member, medium): (u64, &Cells)| {
        let rng = Rng::stream(seed, &format!("member {member}"));
        let ram = VolatileRam::new(medium.clone(), volatile, Latency::Random, rng);
        Seen(Shared::new(ram))
    };
    let devices: Vec<Seen> = (0..).zip(media.iter()).map(seen).collect();
    let boxed = devices.iter().map(|one| Box::new(one.clone()) as Box<dyn Device>).collect();
    (Node::new(Box::new(found.array), boxed, 1), devices)
}

/// The state of devices after a power cut: some unflushed writes are kept.
// Not every test that shares this file cuts the power.
#[allow(dead_code)]
pub fn cut(devices: &[Seen], rng: &mut Rng) -> Vec<Cells> {
    let mut left = |device: &Seen| {
        let ram = device.0.lend();
        let mut medium = ram.durable().clone();
        for one in ram.pending().iter() {
            if rng.chance(0.5) {
                apply(&mut medium, &one.write, &Fate::Kept);
            }
        }
        medium
    };
    devices.iter().map(&mut left).collect()
}
