//! Log-structured layouts on the fullest volumes that are allowed: the cleaner runs all the time,
//! and all written data is there.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use crate::striped::Striped;
use crate::support::Shared;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::units::MILLIS;
use seekless_layouts::Kind;
use seekless_layouts::lfs::{HOT_PERCENT, INTERVAL};
use seekless_layouts::read_superblock;
use seekless_layouts::shared::SEGMENT;

const DEVICE: u64 = 100_000;
const WRITES: u64 = 30_000;

struct Volume {
    medium: Shared,
    node: Node,
    now: u64,
    model: Vec<u64>,
}

impl Volume {
    fn new(kind: Kind, blocks: u64) -> Volume {
        let mut medium = Shared::new(Cells::new(DEVICE));
        let options = FormatOptions::new(kind, blocks, 9);
        seekless_layouts::format(&mut MediumDisk(&mut medium), &options).unwrap();
        let node = Volume::mount(&mut medium);
        Volume { medium, node, now: 0, model: vec![0; blocks as usize] }
    }

    fn mount(medium: &mut Shared) -> Node {
        // Blocks become cold within the test.
        let chosen =
            Options::default().with(&INTERVAL, Some(150 * MILLIS)).with(&HOT_PERCENT, Some(2));
        let options = MountOptions { volatile: true, options: chosen, ..MountOptions::default() };
        let (layer, ..) = seekless_layouts::mount(&mut MediumDisk(medium), &options).unwrap();
        let device = Ram::volatile(Box::new(medium.clone()));
        Node::new(layer, vec![Box::new(device)], 1)
    }

    fn run(&mut self, io: Io) -> Result<Data, IoError> {
        self.node.run(&mut self.now, io)
    }

    fn write(&mut self, at: u64, version: u64) {
        self.run(Io::write(0, at, Data::stamp(1, at, version))).unwrap();
        self.model[at as usize] = version;
    }

    fn verify(&mut self, kind: Kind) {
        for at in 0..self.model.len() as u64 {
            let expected = Data::stamp(1, at, self.model[at as usize]);
            assert_eq!(self.run(Io::read(0, at, 1)), Ok(expected), "{kind}: block {at}");
        }
    }

    fn stat(&self, name: &str) -> f64 {
        let stats = self.node.layer.status().stats();
        stats.iter().find(|(one, _)| *one == name).unwrap().1
    }
}

#[test]
fn nearly_full_volumes_stay_whole() {
    for kind in Kind::LOG_STRUCTURED {
        let blocks = kind.largest_volume(DEVICE) * 99 / 100;
        assert!(blocks as f64 > 0.94 * DEVICE as f64, "{blocks} of {DEVICE}");
        let mut volume = Volume::new(kind, blocks);
        for at in 0..blocks {
            volume.write(at, 1);
        }
        let mut rng = Rng::stream(1, "updates");
        for version in 2..WRITES {
            // Most writes go to few blocks.
            let range = if rng.chance(0.8) { blocks / 10 } else { blocks };
            let at = rng.below(range);
            volume.write(at, version);
            if version % 50 == 0 {
                volume.now += MILLIS;
            }
            if version % 1000 == 0 {
                volume.run(Io::flush(0)).unwrap();
            }
        }
        assert!(volume.stat("segments_cleaned") > 100.0, "{kind}");
        let overwritten = volume.stat("blocks_overwritten");
        assert_eq!(overwritten > 100.0, kind == Kind::HYLOG, "{kind}: {overwritten}");
        volume.verify(kind);
        volume.node.finish(&mut volume.now);
        let (_, _, found) = seekless_layouts::check(&mut MediumDisk(&mut volume.medium)).unwrap();
        assert_eq!(found.problems, Vec::<String>::new(), "{kind}");
        volume.node = Volume::mount(&mut volume.medium);
        volume.verify(kind);
    }
}

/// Segments begin at stripes if their length is a number of stripes and there is space. The
/// superblock records that: older programs refuse such a volume, and older volumes are read.
#[test]
fn segments_begin_where_stripes_do() {
    let most = Kind::LFS.largest_volume(DEVICE);
    for (stripe, segment, blocks, aligned) in [
        (1, Some(64), 1000, false),
        (64, Some(64), 1000, true),
        (96, Some(64), 1000, false),
        (8, None, most, false),
    ] {
        let mut medium = Shared::new(Cells::new(DEVICE));
        let options = FormatOptions::new(Kind::LFS, blocks, 9)
            .with(Options::default().with(&SEGMENT, segment));
        seekless_layouts::format(&mut Striped(MediumDisk(&mut medium), stripe), &options).unwrap();
        let superblock = read_superblock(&mut MediumDisk(&mut medium)).unwrap();
        let bit = superblock.options >> 9 & 1 == 1;
        assert_eq!(bit, aligned, "stripes of {stripe}, {blocks} blocks");
        let node = Volume::mount(&mut medium);
        let model = vec![0; 500];
        let mut volume = Volume { medium, node, now: 0, model };
        for at in 0..500 {
            volume.write(at, at + 1);
        }
        volume.run(Io::flush(0)).unwrap();
        // As after a crash.
        volume.node = Volume::mount(&mut volume.medium);
        volume.verify(Kind::LFS);
    }
}
