//! The first 128 KiB of an origin whose log is apart: where they are, and what becomes of them when
//! the power fails or the log is lost.
#![allow(clippy::unwrap_used, missing_docs)]

use super::dcd_attached_copies::{Volume, cut, mount, writing};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::SECONDS;
use seekless_layouts::dcd::Kept;
use seekless_layouts::{Kind, dcd};

const ORIGIN: u64 = 200;

/// An origin with a partition table, a key area and a file system, and its log.
fn attached() -> [Cells; 2] {
    let (mut origin, mut log) = (Cells::new(ORIGIN), Cells::new(300));
    for at in 0..ORIGIN {
        origin.write(at, &block(at, 1)).unwrap();
    }
    let options = FormatOptions::new(Kind::DCD, 0, 7);
    dcd::attach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &options).unwrap();
    [origin, log]
}

/// Block 0 is mostly zeros, the others are dense.
fn block(at: u64, version: u64) -> Data {
    let mut rng = Rng::stream(version * 1000 + at, "block");
    let dense = if at == 0 { 600 } else { 4096 };
    let bytes = (0..4096).map(|index| if index < dense { rng.below(256) as u8 } else { 0 });
    Data::bytes(bytes.collect::<Vec<u8>>().into())
}

impl Volume {
    fn put(&mut self, at: u64, version: u64) {
        let io = Io::write(0, at, block(at, version)).with_fua();
        self.node.run(&mut self.now, io).unwrap();
    }

    fn all(&mut self) -> Vec<u8> {
        let all = self.node.run(&mut self.now, Io::read(0, 0, ORIGIN as u32)).unwrap();
        all.to_bytes().to_vec()
    }
}

fn bytes(origin: &Cells) -> Vec<u8> {
    let mut origin = origin.clone();
    origin.read(0, ORIGIN as u32).unwrap().to_bytes().to_vec()
}

fn refusal(media: &[Cells; 2]) -> String {
    match mount(&mut media.clone()) {
        Ok(_) => "it was mounted".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A pair after a clean shutdown, and what its clients saw last.
fn stopped() -> ([Cells; 2], Vec<u8>) {
    let mut volume = Volume::of(attached());
    for at in [0, 1, 5, 31, 32, 120] {
        volume.put(at, 2);
    }
    let seen = volume.all();
    (volume.ended(), seen)
}

#[test]
fn after_a_clean_shutdown_the_origin_is_whole_without_its_log() {
    let (media, seen) = stopped();
    assert!(bytes(&media[0]) == seen, "the origin alone is not what its clients saw");
    // With its log it goes on.
    let mut volume = Volume::of(media);
    assert!(volume.all() == seen);
    volume.put(1, 3);
    volume.put(100, 3);
    assert!(bytes(&volume.left()[0])[..4096] != seen[..4096], "it is mounted, and looks whole");
    let seen = volume.all();
    assert!(bytes(&volume.ended()[0]) == seen);
}

#[test]
fn after_a_drain_the_origin_is_whole_without_its_log() {
    let mut volume = Volume::of(attached());
    for at in [0, 1, 5, 31, 32, 120] {
        volume.put(at, 2);
    }
    let seen = volume.all();
    let [mut origin, mut log] = volume.left();
    let (mut one, mut two) = (MediumDisk(&mut origin), MediumDisk(&mut log));
    dcd::drain(&mut [&mut one, &mut two], &mut |_, _| {}).unwrap();
    assert!(dcd::stands_alone(&mut one, &mut two).unwrap());
    assert!(bytes(&origin) == seen);
    // A reader finds the first blocks on the origin, and writes nothing.
    let (one, two) = (&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log));
    let (_, _, report) = dcd::check(one, two, None).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let (layer, ..) = dcd::mount(one, two, &options).unwrap();
    let devices: Vec<Box<dyn Device>> =
        vec![Box::new(Ram::new(Box::new(origin))), Box::new(Ram::new(Box::new(log)))];
    let all = Node::new(Box::new(layer), devices, 1).run(&mut 0, Io::read(0, 0, ORIGIN as u32));
    assert!(all.unwrap().to_bytes() == seen);
}

#[test]
fn an_origin_that_has_changed_alone_is_noticed_and_left_alone() {
    let (media, seen) = stopped();
    for at in [0, 1, 31] {
        let mut changed = media.clone();
        changed[0].write(at, &block(at, 9)).unwrap();
        let reason = refusal(&changed);
        assert!(reason.contains("is not as it was left"), "block {at}: {reason}");
    }
    let reason = refusal(&[Cells::new(ORIGIN), media[1].clone()]);
    assert!(reason.contains("this is another disk"), "{reason}");
    // Nothing tells a change behind the first blocks. An empty log has nothing to lay over it.
    let mut changed = media;
    changed[0].write(120, &block(120, 9)).unwrap();
    let mut volume = Volume::of(changed);
    let found = volume.all();
    assert!(found[120 * 4096..121 * 4096] == block(120, 9).to_bytes());
    assert!(found[..120 * 4096] == seen[..120 * 4096]);
}

/// Cut off at any step, torn at any sector, again and again: the pair has all that was written, and
/// goes on.
#[test]
fn moving_the_first_blocks_may_be_cut_off_at_any_step() {
    let (whole, seen) = stopped();
    let mount = |one: &mut dyn Disk, two: &mut dyn Disk| dcd::mount(one, two, &writing()).map(drop);
    let drain = |one: &mut dyn Disk, two: &mut dyn Disk| {
        dcd::drain(&mut [one, two], &mut |_, _| {}).map(drop)
    };
    let mut moved = [0, 0];
    for seed in 0..400 {
        let mut rng = Rng::stream(seed, "cuts");
        let mut media = whole.clone();
        for _ in 0..3 {
            let steps = rng.below(40);
            let drains = rng.chance(0.6);
            let (left, done) = match drains {
                true => cut(&media, steps, &mut rng, &drain),
                false => cut(&media, steps, &mut rng, &mount),
            };
            moved[usize::from(drains)] += u32::from(done);
            media = left;
        }
        let mut volume = Volume::of(media);
        assert!(volume.all() == seen, "seed {seed}");
        assert!(bytes(&volume.ended()[0]) == seen, "seed {seed}: not whole in the end");
    }
    assert!(moved[0] > 20 && moved[1] > 20, "{moved:?}");
}

/// The first blocks as they would be put back if the log was lost.
fn rescued(origin: &Cells) -> (Kept, Vec<u8>, u64) {
    let mut origin = origin.clone();
    let found = dcd::abandoned(&mut MediumDisk(&mut origin)).unwrap().expect("it is bound");
    (found.kept, found.first.to_bytes().to_vec(), found.dirty)
}

#[test]
fn a_bound_origin_keeps_a_copy_of_its_first_blocks() {
    let media = attached();
    let (kept, first, dirty) = rescued(&media[0]);
    let seen = (0..32).flat_map(|at| block(at, 1).to_bytes()).collect::<Vec<u8>>();
    assert_eq!((kept, dirty), (Kept::All, 0));
    assert!(first == seen);
    // It follows what comes home.
    let mut volume = Volume::of(media);
    for at in [0, 1, 7, 100] {
        volume.put(at, 2);
    }
    volume.node.idle(&mut volume.now, 30 * SECONDS);
    let seen = volume.all();
    let [mut origin, _] = volume.left();
    let (kept, first, _) = rescued(&origin);
    assert_eq!(kept, Kept::All);
    assert!(first == seen[..first.len()], "it is not what came home");
    // Everything was home, so nothing is lost with the log.
    let mut disk = MediumDisk(&mut origin);
    let first = dcd::abandoned(&mut disk).unwrap().expect("it is bound").first;
    dcd::abandon(&mut disk).unwrap();
    let again = dcd::abandoned(&mut disk).unwrap().expect("it is bound still");
    assert_eq!(again.kept, Kept::InFile);
    dcd::restore(&mut disk, &first).unwrap();
    assert!(dcd::abandoned(&mut disk).unwrap().is_none());
    assert!(bytes(&origin) == seen);
}

#[test]
fn a_bound_origin_knows_how_much_was_in_its_log() {
    let mut volume = Volume::of(attached());
    for at in 50..60 {
        volume.put(at, 2);
    }
    let mut media = volume.left();
    // The next mount finds it and notes it.
    mount(&mut media).unwrap();
    assert_eq!(rescued(&media[0]).2, 10);
}

/// A half of a pair that an earlier version made, as text: see `old_images`.
fn half(text: &str) -> Cells {
    let mut cells = Cells::new(0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number: u64 = words[1].parse().unwrap();
        if words[0] == "device" {
            cells = Cells::new(number);
            continue;
        }
        let mut bytes = Vec::new();
        for word in &words[2..] {
            let (unit, times) = word.split_once('*').unwrap_or((word, "1"));
            let unit = (0..32).step_by(2).map(|at| u8::from_str_radix(&unit[at..at + 2], 16));
            let unit: Vec<u8> = unit.map(Result::unwrap).collect();
            bytes.extend(unit.repeat(times.parse().unwrap()));
        }
        bytes.resize(4096, 0);
        cells.write(number, &Data::bytes(bytes.into())).unwrap();
    }
    cells
}

/// Pairs of the version without rescue copies and whole origins. They hold seven blocks in the log;
/// a clean shutdown of that version left them there.
#[test]
fn pairs_of_earlier_versions_become_whole() {
    let pairs = [
        [include_str!("../pairs/killed.origin.txt"), include_str!("../pairs/killed.log.txt")],
        [include_str!("../pairs/stopped.origin.txt"), include_str!("../pairs/stopped.log.txt")],
    ];
    let mut seen: Vec<u8> = (0..64).flat_map(|at| [at + 1; 4096]).collect();
    for at in [0, 1, 5, 31, 40, 60, 61] {
        seen[at * 4096..(at + 1) * 4096].fill(128 + at as u8);
    }
    for pair in pairs {
        let media = pair.map(half);
        assert_eq!(rescued(&media[0]).0, Kept::Nothing);
        let mut volume = Volume::of(media);
        let read = |volume: &mut Volume| volume.node.run(&mut volume.now, Io::read(0, 0, 64));
        assert!(read(&mut volume).unwrap().to_bytes() == seen);
        let mut media = volume.ended();
        assert!(media[0].read(0, 64).unwrap().to_bytes() == seen);
        let mut volume = Volume::of(media);
        assert!(read(&mut volume).unwrap().to_bytes() == seen);
    }
}
