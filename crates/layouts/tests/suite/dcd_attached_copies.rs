//! A log on its own device, or its origin, restored from an older copy; power cuts while both are
//! mounted.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use crate::support::Shared;
use seekless_crash::Fate;
use seekless_crash::device::volatile::{Latency, VolatileRam};
use seekless_crash::tear::apply;
use seekless_engine::checksum::crc32c;
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::SECONDS;
use seekless_layouts::{Kind, dcd};
use std::cell::Cell;
use std::rc::Rc;

const ORIGIN: u64 = 200;
const LOG: u64 = 300;

fn attached() -> [Cells; 2] {
    let (mut origin, mut log) = (Cells::new(ORIGIN), Cells::new(LOG));
    origin.write(0, &Data::stamp(ORIGIN as u32, 0, 1)).unwrap();
    let options = FormatOptions::new(Kind::DCD, 0, 7);
    dcd::attach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &options).unwrap();
    [origin, log]
}

/// How a mount for writing is done.
pub fn writing() -> MountOptions<'static> {
    MountOptions { volatile: true, ..MountOptions::default() }
}

pub fn mount(media: &mut [Cells; 2]) -> Result<dcd::Dcd, LayoutError> {
    let [origin, log] = media;
    let mounted = dcd::mount(&mut MediumDisk(origin), &mut MediumDisk(log), &writing());
    mounted.map(|(layer, _, _)| layer)
}

/// Why a pair is refused; `None` if it is not.
fn refusal(origin: &Cells, log: &Cells) -> Option<String> {
    match mount(&mut [origin.clone(), log.clone()]) {
        Ok(_) => None,
        Err(LayoutError::Apart(reason)) => Some(reason),
        Err(LayoutError::OfLog(error)) => Some(error.to_string()),
        Err(other) => panic!("{other}"),
    }
}

fn is_refused(origin: &Cells, log: &Cells, why: &str) {
    let reason = refusal(origin, log).unwrap_or_else(|| "it was mounted".to_owned());
    assert!(reason.contains(why) && reason.contains("put back from a copy"), "{reason}");
}

/// A mounted volume whose media can be looked at.
pub struct Volume {
    pub node: Node,
    media: [Shared; 2],
    pub now: u64,
}

impl Volume {
    pub fn of(mut media: [Cells; 2]) -> Volume {
        let layer = mount(&mut media).unwrap();
        let media = media.map(Shared::new);
        let ram = |one: &Shared| Box::new(Ram::volatile(Box::new(one.clone()))) as Box<dyn Device>;
        let node = Node::new(Box::new(layer), media.iter().map(ram).collect(), 1);
        Volume { node, media, now: 0 }
    }

    fn write(&mut self, at: u64, version: u64) {
        let io = Io::write(0, at, Data::stamp(1, at, version)).with_fua();
        self.node.run(&mut self.now, io).unwrap();
    }

    pub fn left(&self) -> [Cells; 2] {
        self.media.clone().map(|one| one.with(|cells| cells.clone()))
    }

    pub fn ended(mut self) -> [Cells; 2] {
        self.node.finish(&mut self.now);
        self.left()
    }
}

#[test]
fn an_origin_that_is_one_mount_older_is_refused() {
    let media = Volume::of(attached()).ended();
    let old = media[0].clone();
    for ends in [true, false] {
        let mut volume = Volume::of(media.clone());
        // A mount alone is enough, without a write to the origin or the log.
        let [_, log] = volume.left();
        is_refused(&old, &log, "the origin is older than its log");
        volume.write(100, 2);
        let media = if ends { volume.ended() } else { volume.left() };
        if ends {
            // Whole origins are told apart by their first blocks only. The log is empty then, so
            // nothing of it is laid over the copy.
            assert_eq!(refusal(&old, &media[1]), None);
        } else {
            is_refused(&old, &media[1], "the origin is older than its log");
        }
        assert_eq!(refusal(&media[0], &media[1]), None);
    }
}

#[test]
fn a_log_from_earlier_within_a_mount_is_refused_after_an_orderly_end() {
    let mut volume = Volume::of(attached());
    volume.write(100, 2);
    let [_, early] = volume.left();
    volume.write(101, 2);
    let [origin, log] = volume.ended();
    is_refused(&origin, &early, "the log is older than the origin");
    assert_eq!(refusal(&origin, &log), None);
    // The record of the shutdown has no blocks: nothing is lost without it.
    let mut volume = Volume::of([origin, log]);
    let [_, before] = volume.left();
    assert_eq!(refusal(&volume.left()[0], &before), None);
    volume.write(102, 2);
    let [origin, log] = volume.ended();
    is_refused(&origin, &before, "the log is older than the origin");
    assert_eq!(refusal(&origin, &log), None);
}

#[test]
fn a_log_from_before_something_came_home_is_refused_after_a_crash() {
    let mut volume = Volume::of(attached());
    volume.write(100, 2);
    let [_, early] = volume.left();
    volume.write(101, 2);
    // No block is destaged yet, so the origin has no trace of the second record.
    assert_eq!(refusal(&volume.left()[0], &early), None);
    volume.node.idle(&mut volume.now, 20 * SECONDS);
    let [origin, log] = volume.left();
    is_refused(&origin, &early, "the log is older than the origin");
    assert_eq!(refusal(&origin, &log), None);
}

#[test]
fn draining_leaves_a_note_as_well() {
    let mut volume = Volume::of(attached());
    for at in 100..110 {
        volume.write(at, 2);
    }
    let [mut origin, mut log] = volume.left();
    let early = log.clone();
    let (mut one, mut two) = (MediumDisk(&mut origin), MediumDisk(&mut log));
    dcd::drain(&mut [&mut one, &mut two], &mut |_, _| {}).unwrap();
    is_refused(&origin, &early, "the log is older than the origin");
    assert_eq!(refusal(&origin, &log), None);
}

/// Devices of one machine: the power of all of them fails at one step, and unflushed writes are
/// lost, all or some.
struct Cut<'d> {
    device: &'d mut VolatileRam,
    steps: Rc<Cell<u64>>,
}

impl Cut<'_> {
    fn run(&mut self, io: Io) -> Result<Data, IoError> {
        self.device.submit(0, io);
        let mut done = Vec::new();
        let at = self.device.next_event().unwrap_or(0);
        self.device.reap(at, &mut done);
        done.pop().expect("it answers").outcome
    }

    /// A write or a flush that the power may fail before.
    fn step(&mut self) -> Result<(), IoError> {
        let left = self.steps.get().checked_sub(1).ok_or(IoError::PowerOff)?;
        self.steps.set(left);
        Ok(())
    }
}

impl Disk for Cut<'_> {
    fn blocks(&self) -> u64 {
        self.device.blocks()
    }
    fn read(&mut self, at: u64, count: u32) -> Result<Data, IoError> {
        self.run(Io::read(0, at, count))
    }
    fn write(&mut self, at: u64, data: Data) -> Result<(), IoError> {
        self.step()?;
        self.run(Io::write(0, at, data)).map(|_| ())
    }
    fn flush(&mut self) -> Result<(), IoError> {
        self.step()?;
        self.run(Io::flush(0)).map(|_| ())
    }
}

/// Mounts until the power fails; returns the media, and whether the mount succeeded before.
fn mount_cut(media: &[Cells; 2], steps: u64, rng: &mut Rng) -> ([Cells; 2], bool) {
    let act = |one: &mut dyn Disk, two: &mut dyn Disk| dcd::mount(one, two, &writing()).map(drop);
    cut(media, steps, rng, &act)
}

/// What is done to both devices.
type Act<'a> = &'a dyn Fn(&mut dyn Disk, &mut dyn Disk) -> Result<(), LayoutError>;

/// Does something until the power fails; returns the media, and whether it was done before.
pub fn cut(media: &[Cells; 2], steps: u64, rng: &mut Rng, act: Act<'_>) -> ([Cells; 2], bool) {
    let device = |cells: &Cells| {
        VolatileRam::new(cells.clone(), true, Latency::InOrder(1), Rng::stream(1, "device"))
    };
    let mut devices = [device(&media[0]), device(&media[1])];
    let steps = Rc::new(Cell::new(steps));
    let [origin, log] = &mut devices;
    let mut origin = Cut { device: origin, steps: Rc::clone(&steps) };
    let mut log = Cut { device: log, steps };
    let up = match act(&mut origin, &mut log) {
        Ok(()) => true,
        Err(error) if error.to_string() == IoError::PowerOff.to_string() => false,
        Err(error) => panic!("{error}"),
    };
    let mut left = |device: &VolatileRam| {
        let mut medium = device.durable().clone();
        for one in device.pending().iter() {
            match rng.below(3) {
                0 => apply(&mut medium, &one.write, &Fate::Kept),
                1 => {
                    let sectors = (0..8 * one.write.blocks()).map(|_| rng.chance(0.5)).collect();
                    apply(&mut medium, &one.write, &Fate::Torn(sectors));
                }
                _ => {}
            }
        }
        medium
    };
    ([left(&devices[0]), left(&devices[1])], up)
}

/// After any number of power cuts in mounts, all written data is there. A copy of the origin from
/// before a successful mount is refused.
#[test]
fn mounts_that_are_cut_off_at_any_step_leave_a_pair() {
    let mut volume = Volume::of(attached());
    volume.write(100, 2);
    let start = volume.left();
    let all = (0..).find(|&steps| mount_cut(&start, steps, &mut Rng::stream(0, "all")).1);
    let all = all.unwrap();
    assert!(all > 8, "{all}");
    for (first, second) in (0..=all).flat_map(|one| (0..=all).map(move |two| (one, two))) {
        for seed in 0..12 {
            let mut rng = Rng::stream(seed, "cuts");
            let mut media = start.clone();
            for steps in [first, second, rng.below(all + 1)] {
                let before = media.clone();
                let (left, up) = mount_cut(&media, steps, &mut rng);
                media = left;
                if up {
                    is_refused(&before[0], &media[1], "the origin is older than its log");
                }
            }
            let mut volume = Volume::of(media);
            let found = volume.node.run(&mut volume.now, Io::read(0, 100, 1)).unwrap();
            assert_eq!(found, Data::stamp(1, 100, 2), "cut at {first} and {second}, seed {seed}");
        }
    }
}

/// Pairs of earlier versions lack these fields: they are accepted, and have the fields from the
/// next mount on.
#[test]
fn pairs_of_earlier_versions_fit() {
    let mut volume = Volume::of(attached());
    volume.write(100, 2);
    let mut media = volume.left();
    for (medium, copies) in media.iter_mut().zip([[0, 1], [0, LOG - 1]]) {
        for at in copies {
            let mut block = medium.read(at, 1).unwrap().to_bytes().to_vec();
            block[60..4092].fill(0);
            let sum = crc32c(&block[..4092]);
            block[4092..].copy_from_slice(&sum.to_le_bytes());
            medium.write(at, &Data::bytes(block.into())).unwrap();
        }
    }
    media[0].write(2, &Data::zeros(30)).unwrap();
    let old = media[0].clone();
    let mut volume = Volume::of(media);
    let found = volume.node.run(&mut volume.now, Io::read(0, 100, 1)).unwrap();
    assert_eq!(found, Data::stamp(1, 100, 2));
    is_refused(&old, &volume.ended()[1], "the origin is older than its log");
}
