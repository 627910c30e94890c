//! The logical disk (claim V10): segments of 512 KiB on the 22 MiB of the paper's disk, and what
//! becomes of those that are not full.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use crate::support::Shared;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::units::{MILLIS, SECONDS, Time};
use seekless_layouts::Kind;
use seekless_layouts::lfs::{PARTIAL, Partial, VICTIMS, Victims};

/// 22 MiB.
const DEVICE: u64 = 5632;

struct Volume {
    node: Node,
    now: Time,
    model: Vec<u64>,
}

impl Volume {
    fn new(blocks: u64, options: Options, volatile: bool) -> (Volume, Shared) {
        let mut medium = Shared::new(Cells::new(DEVICE));
        let format = FormatOptions::new(Kind::LLD, blocks, 7);
        seekless_layouts::format(&mut MediumDisk(&mut medium), &format).unwrap();
        let node = mount(&medium, options, volatile);
        (Volume { node, now: 0, model: vec![0; blocks as usize] }, medium)
    }

    fn write(&mut self, at: u64, version: u64) {
        let io = Io::write(0, at, Data::stamp(1, at, version));
        assert_eq!(self.node.run(&mut self.now, io), Ok(Data::none()));
        self.model[at as usize] = version;
    }

    fn flush(&mut self) {
        assert_eq!(self.node.run(&mut self.now, Io::flush(0)), Ok(Data::none()));
    }

    fn stat(&self, name: &str) -> f64 {
        self.node.stats().iter().find(|stat| stat.0 == name).unwrap().1
    }

    fn verify(&mut self, what: &str) {
        for (at, &version) in (0..).zip(&self.model) {
            let right = if version == 0 { Data::zeros(1) } else { Data::stamp(1, at, version) };
            let found = self.node.run(&mut self.now, Io::read(0, at, 1));
            assert_eq!(found, Ok(right), "{what}: block {at}");
        }
    }
}

fn mount(medium: &Shared, options: Options, volatile: bool) -> Node {
    let options = MountOptions { volatile, options, ..MountOptions::default() };
    let (layer, ..) =
        seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options).unwrap();
    let medium = Box::new(medium.clone());
    let ram = if volatile { Ram::volatile(medium) } else { Ram::new(medium) };
    Node::new(layer, vec![Box::new(ram)], 1)
}

/// 95 % by `df` with 12 % counted as unusable: .95 * .88 of 22 MiB.
#[test]
fn it_holds_what_the_paper_stores() {
    let blocks = Kind::LLD.largest_volume(DEVICE);
    assert!(blocks as f64 >= 0.95 * 0.88 * 0.99 * DEVICE as f64, "{blocks} of {DEVICE}");
    for victims in Victims::ALL {
        let options = Options::default().with(&VICTIMS, Some(victims));
        let (mut volume, medium) = Volume::new(blocks, options, true);
        for at in 0..blocks {
            volume.write(at, 1);
        }
        let mut rng = Rng::stream(3, "updates");
        for version in 2..12_000 {
            volume.write(rng.below(blocks), version);
            if version % 40 == 0 {
                volume.flush();
            }
            if version % 400 == 0 {
                volume.node.idle(&mut volume.now, SECONDS);
            }
        }
        assert!(volume.stat("segments_cleaned") > 50.0, "{victims}");
        volume.flush();
        volume.verify(victims.name());
        // Without a shutdown.
        volume.node =
            mount(&Shared::new(medium.with(|cells| cells.clone())), Options::default(), true);
        volume.verify(victims.name());
    }
}

#[test]
fn a_partial_segment_is_written_again_to_a_fresh_one() {
    for (partial, volatile) in Partial::ALL.into_iter().flat_map(|one| [(one, false), (one, true)])
    {
        let options = Options::default().with(&PARTIAL, partial);
        let (mut volume, medium) = Volume::new(2000, options, volatile);
        // Ten flushes of nine blocks: the first segments are written in part, again and again.
        for version in 1..=10 {
            for at in 0..9 {
                volume.write(version * 20 + at, version);
            }
            volume.flush();
            volume.node.idle(&mut volume.now, MILLIS);
        }
        let again = volume.stat("blocks_rewritten");
        match partial {
            // 9 + 18 + ... + 81 without what a full segment ends.
            Partial::Fresh => assert!((300.0..=405.0).contains(&again), "{again}"),
            Partial::InPlace => assert_eq!(again, 0.0),
        }
        let crashed = Shared::new(medium.with(|cells| cells.clone()));
        volume.verify("before");
        volume.node = mount(&crashed, Options::default(), volatile);
        volume.verify("behind a crash");
    }
}

/// The next thing that a client sees after a burst: empty segments, won while it rested.
#[test]
fn segments_are_won_in_idle_time() {
    let blocks = Kind::LLD.largest_volume(DEVICE) * 9 / 10;
    let (mut volume, _) = Volume::new(blocks, Options::default(), true);
    for at in 0..blocks {
        volume.write(at, 1);
    }
    let mut rng = Rng::stream(5, "burst");
    for version in 2..500 {
        volume.write(rng.below(blocks), version);
    }
    volume.flush();
    let before = volume.stat("free_segments");
    volume.node.idle(&mut volume.now, 20 * SECONDS);
    let after = volume.stat("free_segments");
    assert!(after >= before + 2.0, "{before} {after}");
    volume.verify("after a rest");
}
