//! What durable changes cost on the drive of VLFS, on a mechanical disk, beside the virtual log.

use seekless_disk::specs;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, Layout as _, MountOptions, RecoverySteps};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::superblock::{LayoutNumber, Superblock};
use seekless_engine::transaction::Transaction;
use seekless_engine::units::Time;
use seekless_lab::sim::{SimOptions, Target, simulate};
use seekless_lab::workload::Workload;
use seekless_layouts::Kind;
use seekless_layouts::vlfs::Vlfs;
use seekless_layouts::vlfs::address::{ATTRIBUTES, address};

/// A drive on a simulated disk, with one object that fills a share of it.
struct Drive {
    node: Node,
    now: Time,
    blocks: u32,
}

impl Drive {
    fn new(disk: &str, utilisation: f64) -> Drive {
        let spec = specs::find(disk).expect("built in");
        let target = Target::disk(&spec, None).expect("it can be simulated");
        let mut cells = Cells::new(target.blocks());
        let blocks = Vlfs::largest_volume(target.blocks());
        let format = FormatOptions::new(Kind::VLOG, blocks, 5);
        let format = FormatOptions { layout: LayoutNumber(9), ..format };
        Vlfs::format(&mut MediumDisk(&mut cells), &format).expect("it fits");
        let superblock = Superblock::read(&mut MediumDisk(&mut cells), &Ok).expect("just made");
        let lender = target.device(Box::new(Cells::new(1)));
        let options = MountOptions { arm: lender.arm(), ..MountOptions::default() };
        let mut steps = RecoverySteps::new(None);
        let volume = Vlfs::mount(&mut MediumDisk(&mut cells), &superblock, &options, &mut steps);
        let volume = Box::new(volume.expect("it is empty"));
        let node = Node::new(volume, vec![target.device(Box::new(cells))], 1);
        let blocks = (target.blocks() as f64 * utilisation) as u32;
        let mut drive = Drive { node, now: 0, blocks };
        for from in (0..blocks).step_by(64) {
            let at = address(0, from);
            let data = Data::stamp(64.min(blocks - from), at, 1);
            drive.node.run(&mut drive.now, Io::write(0, at, data)).expect("there is room");
        }
        drive
    }

    /// Mean time of durable updates of random blocks, in milliseconds.
    fn update_ms(&mut self, updates: u32) -> f64 {
        let mut rng = Rng::stream(3, "updates");
        let begin = self.now;
        for version in 0..updates {
            let at = address(0, rng.below(u64::from(self.blocks)) as u32);
            let data = Data::stamp(1, at, u64::from(version) + 2);
            self.node.run(&mut self.now, Io::write(0, at, data)).expect("there is room");
        }
        (self.now - begin) as f64 / f64::from(updates) / 1e6
    }

    /// Mean time of transactions that make an empty file: an entry of a directory, attributes of
    /// the file, times of the directory.
    fn create_ms(&mut self, files: u32) -> f64 {
        let begin = self.now;
        for file in 0..files {
            let (dir, object) = (128, 129 + file % 120);
            let mut all = Transaction::new();
            all.patch(address(object, ATTRIBUTES), 0, &[file as u8 | 1; 64]);
            all.patch(address(dir, file / 100), file as usize % 100 * 40, &[7; 32]);
            all.patch(address(dir, ATTRIBUTES), 16, &[file as u8 | 1; 24]);
            let done = self.node.run_transaction(&mut self.now, all).expect("it takes patches");
            done.expect("there is room");
        }
        (self.now - begin) as f64 / f64::from(files) / 1e6
    }
}

/// Mean time of durable updates on the virtual log, in milliseconds.
fn vlog_ms(disk: &str, utilisation: f64) -> f64 {
    let spec = specs::find(disk).expect("built in");
    let target = Target::disk(&spec, None).expect("it can be simulated");
    let workload = Workload { requests: 4000, ..Workload::default() };
    let options =
        SimOptions { workload, utilisation: Some(utilisation), ..SimOptions::new(Kind::VLOG) };
    simulate(&target, &options, || 0).expect("nothing is lost").latency_ms.mean
}

#[test]
fn a_durable_update_costs_what_it_costs_on_the_virtual_log() {
    for disk in ["st19101", "hp97560"] {
        for utilisation in [0.5, 0.8] {
            let (vlog, mut drive) = (vlog_ms(disk, utilisation), Drive::new(disk, utilisation));
            let (update, create) = (drive.update_ms(2000), drive.create_ms(1000));
            let said = format!("{disk} at {utilisation}: {vlog:.2}, {update:.2}, {create:.2} ms");
            assert!(update < 1.1 * vlog, "{said}");
            // A file system on the virtual log makes a file in two commits.
            assert!(create < 0.6 * 2.0 * vlog, "{said}");
            assert!(update > 0.5 * vlog && create > 0.25 * vlog, "too good: {said}");
        }
    }
}
