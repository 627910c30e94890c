//! A log on a device of its own: matching halves work, others are refused by name.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_layouts::shared::PAST_UNREADABLE;
use seekless_layouts::{Kind, dcd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

fn attached(id: u128) -> (Cells, Cells) {
    let (mut origin, mut log) = (Cells::new(500), Cells::new(300));
    origin.write(0, &Data::stamp(500, 0, 1)).unwrap();
    let options = FormatOptions::new(Kind::DCD, 0, id);
    dcd::attach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &options).unwrap();
    (origin, log)
}

/// Mounts for writing; its writes stay in the media.
fn mount(origin: &mut Cells, log: &mut Cells) -> Result<dcd::Dcd, LayoutError> {
    let options = MountOptions { volatile: true, ..MountOptions::default() };
    let mounted = dcd::mount(&mut MediumDisk(origin), &mut MediumDisk(log), &options);
    mounted.map(|(layer, _, _)| layer)
}

/// Mounts a volume of two copies of media and reads a block.
fn read(origin: &Cells, log: &Cells, at: u64) -> Data {
    let (mut origin, mut log) = (origin.clone(), log.clone());
    let layer = mount(&mut origin, &mut log).unwrap();
    let devices: Vec<Box<dyn Device>> =
        vec![Box::new(Ram::volatile(Box::new(origin))), Box::new(Ram::volatile(Box::new(log)))];
    Node::new(Box::new(layer), devices, 1).run(&mut 0, Io::read(0, at, 1)).unwrap()
}

fn reason<T>(result: Result<T, LayoutError>) -> String {
    match result {
        Err(error) => error.to_string(),
        Ok(_) => "it was mounted".to_owned(),
    }
}

#[test]
fn attaching_keeps_what_was_there_and_detaching_brings_it_back() {
    let (mut origin, mut log) = attached(1);
    for at in [0, 5, 31, 32, 499] {
        assert_eq!(read(&origin, &log, at), Data::stamp(1, at, 1), "block {at}");
    }
    assert_ne!(MediumDisk(&mut origin).read(0, 32).unwrap(), Data::stamp(32, 0, 1));
    dcd::detach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log)).unwrap();
    let all = MediumDisk(&mut origin).read(0, 500).unwrap().to_bytes();
    assert_eq!(all, Data::stamp(500, 0, 1).to_bytes());
    assert!(reason(mount(&mut origin, &mut log)).contains("no Seekless volume"));
}

#[test]
fn a_log_that_does_not_fit_is_refused() {
    let (mut origin, mut log) = attached(1);
    let (_, mut other) = attached(2);
    assert!(reason(mount(&mut origin, &mut other)).contains("another volume"));
    assert!(reason(mount(&mut origin, &mut Cells::new(300))).contains("no Seekless volume"));
    let (old_origin, mut old_log) = (origin.clone(), log.clone());
    for _ in 0..3 {
        mount(&mut origin, &mut log).unwrap();
    }
    assert!(reason(mount(&mut origin, &mut old_log)).contains("older than the origin"));
    assert!(reason(mount(&mut old_origin.clone(), &mut log)).contains("older than its log"));
    assert!(reason(mount(&mut Cells::new(500), &mut log)).contains("not sealed"));
    mount(&mut origin, &mut log).unwrap();
}

#[test]
fn half_a_volume_is_refused() {
    let (mut origin, mut log) = attached(1);
    let options = MountOptions::default();
    let alone =
        |cells: &mut Cells| reason(seekless_layouts::mount(&mut MediumDisk(cells), &options));
    assert!(alone(&mut origin).contains("is the origin"));
    assert!(alone(&mut log).contains("is the log"));
    let again = FormatOptions::new(Kind::DCD, 0, 3);
    let mut spare = Cells::new(300);
    let twice = dcd::attach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut spare), &again);
    assert!(reason(twice).contains("attached"));
}

/// A medium that outlives its device, and can be pulled out.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Cells>>, Arc<AtomicBool>);

impl Shared {
    fn new(cells: Cells) -> Shared {
        Shared(Arc::new(Mutex::new(cells)), Arc::default())
    }

    fn check(&self) -> Result<(), IoError> {
        if self.1.load(Relaxed) { Err(IoError::Os { errno: 19 }) } else { Ok(()) }
    }
}

impl Medium for Shared {
    fn blocks(&self) -> u64 {
        self.0.lock().unwrap().blocks()
    }
    fn read(&mut self, at: u64, count: u32) -> Result<Data, IoError> {
        self.check()?;
        self.0.lock().unwrap().read(at, count)
    }
    fn write(&mut self, at: u64, data: &Data) -> Result<(), IoError> {
        self.check()?;
        self.0.lock().unwrap().write(at, data)
    }
    fn trim(&mut self, at: u64, count: u32) -> Result<(), IoError> {
        self.check()?;
        self.0.lock().unwrap().trim(at, count)
    }
    fn sync(&mut self) -> Result<(), IoError> {
        self.check()
    }
}

/// A volume that was just attached, and its media.
fn served() -> (Node, [Shared; 2]) {
    let (mut origin, mut log) = attached(1);
    let layer = mount(&mut origin, &mut log).unwrap();
    let media = [origin, log].map(Shared::new);
    let ram =
        |medium: &Shared| Box::new(Ram::volatile(Box::new(medium.clone()))) as Box<dyn Device>;
    (Node::new(Box::new(layer), media.iter().map(ram).collect(), 1), media)
}

/// The content of the media after the server died.
fn left(media: [Shared; 2]) -> [Cells; 2] {
    media.map(|medium| medium.0.lock().unwrap().clone())
}

#[test]
fn a_log_that_vanishes_ends_writing_and_comes_back_with_all_that_was_durable() {
    let (mut node, media) = served();
    node.run(&mut 0, Io::write(0, 100, Data::stamp(3, 100, 2)).with_fua()).unwrap();
    media[1].1.store(true, Relaxed);
    node.run(&mut 0, Io::write(0, 200, Data::stamp(1, 200, 2)).with_fua()).unwrap_err();
    let refused = node.run(&mut 0, Io::write(0, 300, Data::stamp(1, 300, 2)));
    assert_eq!(refused, Err(IoError::ReadOnly));
    assert!(node.layer.failed().is_some());
    // Blocks at their home location can be read, and blocks that did not reach the log; the log
    // itself cannot.
    assert_eq!(node.run(&mut 0, Io::read(0, 300, 1)), Ok(Data::stamp(1, 300, 1)));
    assert_eq!(node.run(&mut 0, Io::read(0, 200, 1)), Ok(Data::stamp(1, 200, 2)));
    node.run(&mut 0, Io::read(0, 100, 1)).unwrap_err();
    drop(node);
    let [origin, log] = left(media);
    for at in 100..103 {
        assert_eq!(read(&origin, &log, at), Data::stamp(1, at, 2));
    }
    // A wiped log is refused, and with it the origin.
    let wiped = reason(mount(&mut origin.clone(), &mut Cells::new(300)));
    assert!(wiped.contains("no Seekless volume"), "{wiped}");
}

/// Where the log lies on its device.
fn first_of_log(origin: &Cells, log: &Cells) -> u64 {
    let mut out = String::new();
    let (mut origin, mut log) = (origin.clone(), log.clone());
    dcd::dump(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &mut out).unwrap();
    let place = out.split("from device block ").nth(1).unwrap();
    place.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn a_log_whose_youngest_record_may_be_unreadable_is_refused_unless_told_otherwise() {
    let (mut node, media) = served();
    for version in 2..4 {
        let data = Data::stamp(1, 100, version);
        node.run(&mut 0, Io::write(0, 100, data).with_fua()).unwrap();
    }
    drop(node);
    let [origin, whole] = left(media);
    let first = first_of_log(&origin, &whole);
    // Record 1 is empty, 2 and 3 have a block each. Recovery does not need the first two.
    for (at, newest) in [(0, 3), (1, 3), (2, 3)] {
        let mut log = whole.clone();
        log.lose(first + at);
        assert_eq!(read(&origin, &log, 100), Data::stamp(1, 100, newest), "block {at} is lost");
    }
    for (at, newest) in [(3, 2), (5, 3)] {
        let (mut origin, mut log) = (origin.clone(), whole.clone());
        log.lose(first + at);
        let refused = reason(mount(&mut origin, &mut log));
        let named = format!("block {} of the log cannot be read", first + at);
        assert!(refused.contains(&named) && refused.contains("--past-unreadable"), "{refused}");
        let mut options = MountOptions { volatile: true, ..MountOptions::default() };
        options.options.set(&PAST_UNREADABLE, true);
        dcd::mount(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &options).unwrap();
        // Later mounts need no option.
        assert_eq!(read(&origin, &log, 100), Data::stamp(1, 100, newest));
    }
    let mut log = whole.clone();
    for at in 0..8 {
        log.write(first + at, &Data::zeros(1)).unwrap();
    }
    let wiped = reason(mount(&mut origin.clone(), &mut log));
    assert!(wiped.contains("holds no record"), "{wiped}");
}

/// A segment that a record has marked as not needed stays so, although later records lie in it.
#[test]
fn a_record_that_nobody_needs_any_more_may_be_unreadable() {
    let (mut node, media) = served();
    // The second record overwrites what is in the first one, the third one does not.
    for (at, version) in [(100, 2), (100, 3), (200, 4)] {
        node.run(&mut 0, Io::write(0, at, Data::stamp(1, at, version)).with_fua()).unwrap();
    }
    drop(node);
    let [origin, whole] = left(media);
    let first = first_of_log(&origin, &whole);
    for at in 0..3 {
        let mut log = whole.clone();
        log.lose(first + at);
        assert_eq!(read(&origin, &log, 100), Data::stamp(1, 100, 3), "block {at} is lost");
        assert_eq!(read(&origin, &log, 200), Data::stamp(1, 200, 4), "block {at} is lost");
    }
}

#[test]
fn draining_writes_home_and_only_then_can_a_log_be_detached() {
    let (mut node, mut media) = served();
    for at in [3, 100, 101, 300] {
        node.run(&mut 0, Io::write(0, at, Data::stamp(1, at, 2)).with_fua()).unwrap();
    }
    // The server is gone; its acknowledged writes are in the log only.
    drop(node);
    let [origin, log] = &mut media;
    let (mut origin, mut log) = (MediumDisk(origin), MediumDisk(log));
    assert!(reason(dcd::detach(&mut origin, &mut log)).contains("4 blocks are in the log only"));
    let mut seen = Vec::new();
    let mut both: [&mut dyn Disk; 2] = [&mut origin, &mut log];
    let drained = dcd::drain(&mut both, &mut |done, total| seen.push((done, total))).unwrap();
    assert_eq!((drained, seen), (4, vec![(0, 4), (4, 4)]));
    dcd::detach(&mut origin, &mut log).unwrap();
    for at in [3, 100, 101, 300] {
        assert_eq!(origin.read(at, 1).unwrap().to_bytes(), Data::stamp(1, at, 2).to_bytes());
    }
    assert_eq!(origin.read(102, 1).unwrap().to_bytes(), Data::stamp(1, 102, 1).to_bytes());
}
