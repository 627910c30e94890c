//! Long runs on disks that are 95 to 99 % full: nothing is lost, neither data nor space.
#![allow(clippy::disallowed_types)]

use crate::support::Shared;
use seekless_disk::{Disk, specs};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_lab::driver::Driver;
use seekless_lab::workload::{Generator, Workload};
use seekless_layouts::Kind;

/// Blocks that may wait for a commit at the end of a run.
const WAITING: u64 = 64;

#[derive(Clone, Copy, Debug)]
enum Below {
    Disk,
    DiskWithHeaders,
    /// Completed writes are durable only after a flush.
    Cache,
}

struct Case {
    kind: Kind,
    below: Below,
    medium: Shared,
    blocks: u64,
}

impl Case {
    fn new(kind: Kind, below: Below, share: f64) -> Case {
        let device = specs::find("st19101").expect("built in").capacity_blocks();
        let cells = Cells::new(device);
        let medium = Shared::new(match below {
            Below::DiskWithHeaders => cells.with_labels(),
            Below::Disk | Below::Cache => cells,
        });
        let blocks = ((device as f64 * share) as u64).min(kind.largest_volume(device));
        let options = FormatOptions::new(kind, blocks, 9);
        seekless_layouts::format(&mut MediumDisk(&mut medium.clone()), &options).expect("fits");
        Case { kind, below, medium, blocks }
    }

    fn device(&self) -> Box<dyn Device> {
        let medium = Box::new(self.medium.clone());
        match self.below {
            Below::Cache => Box::new(Ram::volatile(medium)),
            Below::Disk | Below::DiskWithHeaders => {
                let spec = specs::find("st19101").expect("built in");
                Box::new(Disk::new(&spec, medium).expect("fits"))
            }
        }
    }

    fn mount(&self) -> Node {
        let device = self.device();
        let volatile = device.volatile();
        let options = MountOptions { arm: device.arm(), volatile, ..MountOptions::default() };
        let mounted = seekless_layouts::mount(&mut MediumDisk(&mut self.medium.clone()), &options);
        Node::new(mounted.expect("mounts").0, vec![device], 1)
    }

    /// Checks the volume after a clean shutdown; returns the free blocks.
    fn check(&self) -> u64 {
        let (_, _, found) =
            seekless_layouts::check(&mut MediumDisk(&mut self.medium.clone())).expect("checks");
        assert_eq!(found.problems, Vec::<String>::new(), "{} {:?}", self.kind, self.below);
        let free = found.facts.iter().find(|(name, _)| *name == "free blocks").expect("a fact");
        free.1.parse().expect("a number")
    }

    /// Overwrites in two sizes, with flushes, then with trims; a mount after each.
    fn run(&self) {
        let mut driver = Driver::new(self.mount(), true);
        driver.fill(64).expect("fills");
        for (request_blocks, depth, seed) in [(1, 1, 1), (8, 3, 2)] {
            let workload =
                Workload { request_blocks, depth, flush_every: Some(5), ..Workload::default() };
            let mut generator = Generator::new(&workload, self.blocks, seed, "overwrites");
            driver.run(&workload, &mut generator, self.blocks, |_| {}).expect("goes on");
        }
        driver.read_back(64).expect("nothing is lost");
        driver.stop().expect("ends");
        let free = stat(driver.node(), "free_blocks");
        let found = self.check();
        assert!(
            (free..=free + WAITING).contains(&found),
            "{} {:?}: {free} blocks were free, then {found}",
            self.kind,
            self.below
        );
        self.trim_and_overwrite();
        // Trimmed blocks are free: on an empty volume all except a few map blocks.
        let mut node = self.mount();
        let mut now = 0;
        node.run(&mut now, Io::trim(0, 0, self.blocks as u32)).expect("trims");
        node.finish(&mut now);
        let maps = stat(&node, "live_map_blocks");
        assert!(self.check() + maps >= found + self.blocks, "{} {:?}", self.kind, self.below);
    }

    /// Compares with an array of versions: zero is trimmed, one is the content of the run before.
    fn trim_and_overwrite(&self) {
        let mut node = self.mount();
        let mut now = 0;
        let mut rng = Rng::stream(7, "nearly full");
        let mut model = vec![1; self.blocks as usize];
        for version in 2..1500 {
            let count = 1 + rng.below(20);
            let at = rng.below(self.blocks - count);
            let range = at as usize..(at + count) as usize;
            if rng.chance(0.1) {
                node.run(&mut now, Io::trim(0, at, count as u32)).expect("trims");
                model[range].fill(0);
            } else {
                let io = Io::write(0, at, Data::stamp(count as u32, at, version));
                node.run(&mut now, io).expect("writes");
                model[range].fill(version);
            }
        }
        node.finish(&mut now);
        self.check();
        let mut node = self.mount();
        for (at, &version) in (0..).zip(&model).filter(|&(_, &version)| version != 1) {
            let found = node.run(&mut now, Io::read(0, at, 1)).expect("reads");
            let expected = if version == 0 { Data::zeros(1) } else { Data::stamp(1, at, version) };
            assert_eq!(found, expected, "{} {:?}: block {at}", self.kind, self.below);
        }
        node.finish(&mut now);
    }
}

fn stat(node: &Node, name: &str) -> u64 {
    let found = node.layer.status().stats().into_iter().find(|(found, _)| *found == name);
    found.map_or(0, |(_, value)| value as u64)
}

#[test]
fn long_runs_on_nearly_full_disks_lose_no_space() {
    for share in [0.95, 0.97, 0.99] {
        Case::new(Kind::VLOG, Below::Disk, share).run();
        Case::new(Kind::VLOG, Below::Cache, share).run();
        Case::new(Kind::LOGE, Below::Disk, share).run();
        Case::new(Kind::LOGE, Below::DiskWithHeaders, share).run();
        Case::new(Kind::LOGE, Below::Cache, share).run();
    }
}
