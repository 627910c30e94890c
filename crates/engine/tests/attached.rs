//! A log on a device of its own: what fits together works, what does not is refused by name.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{FormatOptions, Kind, LayoutError, MountOptions, dcd};
use seekless_engine::node::Node;
use std::sync::{Arc, Mutex};

fn attached(id: u128) -> (Cells, Cells) {
    let (mut origin, mut log) = (Cells::new(500), Cells::new(300));
    origin.write(0, &Data::stamp(500, 0, 1)).unwrap();
    let options = FormatOptions::new(Kind::Dcd, 0, id);
    dcd::attach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &options).unwrap();
    (origin, log)
}

/// Mounts for writing; what that writes stays in the media.
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
        Err(LayoutError::Apart(reason)) => reason,
        Err(other) => other.to_string(),
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
    let alone = |cells: &mut Cells| {
        reason(seekless_engine::layout::mount(&mut MediumDisk(cells), &options))
    };
    assert!(alone(&mut origin).contains("is the origin"));
    assert!(alone(&mut log).contains("is the log"));
    let again = FormatOptions::new(Kind::Dcd, 0, 3);
    let mut spare = Cells::new(300);
    let twice = dcd::attach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut spare), &again);
    assert!(reason(twice).contains("attached"));
}

/// A medium that outlives its device.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Cells>>);

impl Medium for Shared {
    fn blocks(&self) -> u64 {
        self.0.lock().unwrap().blocks()
    }
    fn read(&mut self, at: u64, count: u32) -> Result<Data, IoError> {
        self.0.lock().unwrap().read(at, count)
    }
    fn write(&mut self, at: u64, data: &Data) -> Result<(), IoError> {
        self.0.lock().unwrap().write(at, data)
    }
    fn trim(&mut self, at: u64, count: u32) -> Result<(), IoError> {
        self.0.lock().unwrap().trim(at, count)
    }
}

#[test]
fn draining_writes_home_and_only_then_can_a_log_be_detached() {
    let (mut origin, mut log) = attached(1);
    let layer = mount(&mut origin, &mut log).unwrap();
    let mut media = [origin, log].map(|cells| Shared(Arc::new(Mutex::new(cells))));
    let ram =
        |medium: &Shared| Box::new(Ram::volatile(Box::new(medium.clone()))) as Box<dyn Device>;
    let mut node = Node::new(Box::new(layer), media.iter().map(ram).collect(), 1);
    for at in [3, 100, 101, 300] {
        node.run(&mut 0, Io::write(0, at, Data::stamp(1, at, 2)).with_fua()).unwrap();
    }
    // The server is gone; what it had acknowledged is in the log only.
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
