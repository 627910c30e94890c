//! Every layout, with and without a volatile cache below, against a flat array: random requests,
//! clean shutdowns, and crashes in which the device keeps all writes.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use crate::support::Shared;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Done, Io};
use seekless_engine::layout::{FormatOptions, MountOptions, MountPath};
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_layouts::Kind;
use seekless_layouts::loge::options::TABLE;

each_layout!(all_layouts_hold_what_was_written, images_kept_on_the_volume_itself_do_no_harm);

struct Volume {
    medium: Shared,
    volatile: bool,
    node: Node,
    now: u64,
    tag: u64,
    model: Vec<(u64, u64)>,
    path: MountPath,
}

impl Volume {
    fn new(kind: Kind, blocks: u64, cells: Cells, volatile: bool) -> Volume {
        Volume::made(&FormatOptions::new(kind, blocks, 77), cells, volatile)
    }

    fn made(options: &FormatOptions, cells: Cells, volatile: bool) -> Volume {
        let mut medium = Shared::new(cells);
        let blocks = options.blocks;
        seekless_layouts::format(&mut MediumDisk(&mut medium), options).unwrap();
        let (node, path) = Volume::mount(&mut medium, volatile);
        Volume {
            medium,
            volatile,
            node,
            now: 0,
            tag: 0,
            model: vec![(0, 0); blocks as usize],
            path,
        }
    }

    fn mount(medium: &mut Shared, volatile: bool) -> (Node, MountPath) {
        let options = MountOptions { volatile, ..MountOptions::default() };
        let (layer, _, report) =
            seekless_layouts::mount(&mut MediumDisk(medium), &options).unwrap();
        let boxed = Box::new(medium.clone());
        let device = if volatile { Ram::volatile(boxed) } else { Ram::new(boxed) };
        (Node::new(layer, vec![Box::new(device)], 1), report.path)
    }

    fn run(&mut self, ios: Vec<Io>) -> Vec<Done> {
        let expected = ios.len();
        for io in ios {
            self.node.submit(self.now, io);
        }
        let mut done = Vec::new();
        self.node.settle(self.now, &mut done);
        while done.len() < expected {
            self.now = self.node.next_event().expect("requests are in flight").max(self.now);
            self.node.settle(self.now, &mut done);
        }
        done
    }

    fn one(&mut self, io: Io) -> Data {
        self.node.run(&mut self.now, io).unwrap()
    }

    fn write(&mut self, at: u64, count: u32, version: u64) -> Io {
        for block in at..at + u64::from(count) {
            self.model[block as usize] = (block + 1000, version);
        }
        self.tag += 1;
        Io::write(self.tag, at, Data::stamp(count, at + 1000, version))
    }

    fn verify(&mut self) {
        for at in 0..self.model.len() as u64 {
            let data = self.one(Io::read(u64::MAX, at, 1));
            let (key, version) = self.model[at as usize];
            let expected = if version == 0 { Data::zeros(1) } else { Data::stamp(1, key, version) };
            assert_eq!(data, expected, "block {at}");
        }
    }

    fn stop(&mut self) {
        self.node.finish(&mut self.now);
    }

    fn remount(&mut self) {
        let (node, path) = Volume::mount(&mut self.medium, self.volatile);
        self.node = node;
        self.path = path;
    }
}

fn exercise(kind: Kind, volatile: bool, seed: u64, blocks: u64, cells: Cells) {
    exercise_made(&FormatOptions::new(kind, blocks, 77), volatile, seed, cells);
}

/// Returns the greatest number of exceptions in Loge's table, and their limit.
fn exercise_made(
    options: &FormatOptions,
    volatile: bool,
    seed: u64,
    cells: Cells,
) -> (f64, f64, f64) {
    let blocks = options.blocks;
    let mut volume = Volume::made(options, cells, volatile);
    let (mut peak, mut most, mut homed) = (0.0_f64, 0.0_f64, 0.0_f64);
    let mut rng = Rng::stream(seed, "model");
    for round in 0..30 {
        for step in 0..60 {
            let at = rng.below(blocks);
            let count = (1 + rng.below(40)).min(blocks - at) as u32;
            let version = 1 + round * 1000 + step;
            match rng.below(10) {
                0 => {
                    volume.one(Io::flush(0));
                }
                1 => {
                    for block in at..at + u64::from(count) {
                        volume.model[block as usize] = (0, 0);
                    }
                    volume.one(Io::trim(0, at, count));
                }
                2 => {
                    let io = volume.write(at, count, version).with_fua();
                    volume.one(io);
                }
                3..=5 => {
                    // Several at once, not overlapping.
                    let ios = (0..8)
                        .map(|part| {
                            volume.write((at / 8 + part * (blocks / 8)).min(blocks - 1), 1, version)
                        })
                        .collect();
                    for done in volume.run(ios) {
                        done.outcome.unwrap();
                    }
                }
                6 => volume.now += 1_000_000_000,
                _ => {
                    let io = volume.write(at, count, version);
                    volume.one(io);
                }
            }
            let mut none = Vec::new();
            volume.node.settle(volume.now, &mut none);
            assert!(none.is_empty());
        }
        if round % 3 == 0 {
            volume.verify();
        }
        let stats = volume.node.layer.status().stats();
        let stat = |name: &str| stats.iter().find(|one| one.0 == name).map_or(0.0, |one| one.1);
        peak = peak.max(stat("exceptions_peak"));
        most = most.max(stat("exceptions_most"));
        homed += stat("blocks_brought_home");
        if rng.below(2) == 0 {
            volume.stop();
            volume.remount();
            assert_ne!(volume.path, MountPath::Scan, "after a clean shutdown no scan is needed");
        } else {
            volume.one(Io::flush(0));
            volume.remount();
        }
        volume.verify();
        let (_, _, report) = seekless_layouts::check(&mut MediumDisk(&mut volume.medium)).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
    }
    (peak, most, homed)
}

/// Sorted and Compressed Loge: nothing is lost, a table of exceptions keeps its bound, and blocks
/// are relocated to their home locations. Volumes are written full, with the least slack possible.
#[test]
fn compact_tables_hold_what_was_written() {
    for form in ["sorted:1", "sorted:2", "compressed:1", "compressed:10"] {
        let mut homed_in_all = 0.0;
        for (volatile, headers) in [(false, false), (false, true), (true, false), (true, true)] {
            for seed in 0..2 {
                for (blocks, device) in [(1000, 1300), (Kind::LOGE.largest_volume(700), 700)] {
                    let table = form.parse().unwrap();
                    let plain = FormatOptions::new(Kind::LOGE, blocks, 77);
                    let options = plain.with(Options::default().with(&TABLE, table));
                    let cells = Cells::new(device);
                    let cells = if headers { cells.with_labels() } else { cells };
                    let (peak, most, homed) = exercise_made(&options, volatile, seed, cells);
                    assert!(most > 0.0, "the table has the form {form}");
                    // A request of 40 blocks may exceed the space of the table.
                    let bound = most.max(40.0);
                    let bound = if form.starts_with("compressed") { bound } else { f64::MAX };
                    assert!(peak <= bound, "{peak} exceptions of {most} with {form}");
                    homed_in_all += homed;
                }
            }
        }
        let compressed = form.starts_with("compressed");
        assert!(!compressed || homed_in_all > 100.0, "{homed_in_all} blocks were brought home");
    }
}

fn all_layouts_hold_what_was_written(kind: Kind) {
    for volatile in [false, true] {
        for seed in 0..4 {
            exercise(kind, volatile, seed, 1000, Cells::new(1320));
            exercise(kind, volatile, seed, kind.largest_volume(700), Cells::new(700));
        }
    }
}

#[test]
fn loge_in_sector_headers_holds_what_was_written() {
    for volatile in [false, true] {
        for seed in 0..8 {
            let cells = Cells::new(1300).with_labels();
            exercise(Kind::LOGE, volatile, seed, 1000, cells);
            let cells = Cells::new(700).with_labels();
            exercise(Kind::LOGE, volatile, seed, Kind::LOGE.largest_volume(700), cells);
        }
    }
}

fn images_kept_on_the_volume_itself_do_no_harm(kind: Kind) {
    // These two have no map blocks that a copy could be mistaken for.
    if matches!(kind, Kind::INPLACE | Kind::DCD) {
        return;
    }
    let mut volume = Volume::new(kind, 1000, Cells::new(2500), true);
    let io = volume.write(0, 100, 1);
    volume.one(io);
    volume.stop();
    volume.remount();
    // Copy the device's own blocks, map blocks among them, into the volume, twice over.
    let device = volume.medium.blocks();
    for round in 0..2 {
        for block in 0..device.min(900) {
            let data = volume.medium.read(block, 1).unwrap();
            let bytes = Data::bytes(data.to_bytes());
            volume.one(Io::write(0, 100 + block, bytes.clone()));
            if round == 1 {
                assert_eq!(volume.one(Io::read(0, 100 + block, 1)).to_bytes(), bytes.to_bytes());
            }
        }
    }
    volume.one(Io::flush(0));
    let before: Vec<_> = (0..1000).map(|at| volume.one(Io::read(0, at, 1)).to_bytes()).collect();
    volume.remount();
    assert_eq!(volume.path, MountPath::Scan);
    for (at, expected) in (0..).zip(before) {
        assert_eq!(volume.one(Io::read(0, at, 1)).to_bytes(), expected, "block {at}");
    }
}
