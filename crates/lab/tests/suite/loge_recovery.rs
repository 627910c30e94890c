//! How long a recovery by scan takes on the disk itself (claim L9): the time of every read of a
//! mount after a crash is that of a simulated disk.
#![allow(clippy::disallowed_types)]

use crate::support::Shared;
use seekless_disk::{Disk as Simulated, Spec, specs};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::Mechanical as _;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError, Label};
use seekless_engine::layout::{FormatOptions, MountOptions, MountReport};
use seekless_engine::node::Node;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, SECONDS, Time};
use seekless_lab::driver::Driver;
use seekless_lab::workload::{Generator, Workload};
use seekless_layouts::Kind;

/// A medium whose accesses take as long as those of a disk.
struct Timed {
    medium: Shared,
    clock: Box<dyn Device>,
    now: Time,
}

impl Timed {
    fn new(spec: &Spec, medium: Shared) -> Timed {
        let empty = Cells::new(spec.capacity_blocks());
        let clock = Simulated::new(spec, Box::new(empty)).expect("a sound specification");
        Timed { medium, clock: Box::new(clock), now: 0 }
    }

    fn spend(&mut self, io: Io) {
        self.clock.submit(self.now, io);
        let mut done = Vec::new();
        while done.is_empty() {
            self.now = self.clock.next_event().expect("it is under way").max(self.now);
            self.clock.reap(self.now, &mut done);
        }
        assert!(done[0].outcome.is_ok());
    }
}

impl Disk for Timed {
    fn blocks(&self) -> u64 {
        MediumDisk(&mut self.medium.clone()).blocks()
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.spend(Io::read(0, at, count));
        MediumDisk(&mut self.medium).read(at, count)
    }
    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        self.spend(Io::write(0, at, data.clone()));
        MediumDisk(&mut self.medium).write(at, data)
    }
    fn has_labels(&self) -> bool {
        MediumDisk(&mut self.medium.clone()).has_labels()
    }
    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        // The headers pass the head with their sectors.
        self.spend(Io::read(0, at, count));
        MediumDisk(&mut self.medium).labels(at, count)
    }
    fn flush(&mut self) -> Result<(), IoError> {
        self.spend(Io::flush(0));
        MediumDisk(&mut self.medium).flush()
    }
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        MediumDisk(&mut self.medium).next_data(at)
    }
}

/// Fills a volume, overwrites some of it, cuts the power and mounts: returns the report of the
/// mount, and its time in seconds.
fn recover(spec: &Spec, headers: bool) -> (MountReport, f64) {
    let cells = Cells::new(spec.capacity_blocks());
    let medium = Shared::new(if headers { cells.with_labels() } else { cells });
    let blocks = spec.capacity_blocks() * 8 / 10;
    let options = FormatOptions::new(Kind::LOGE, blocks, 3);
    seekless_layouts::format(&mut MediumDisk(&mut medium.clone()), &options).expect("fits");
    let device = Simulated::new(spec, Box::new(medium.clone())).expect("fits");
    let options = MountOptions { arm: device.arm(), ..MountOptions::default() };
    let mounted = seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options);
    let node = Node::new(mounted.expect("mounts").0, vec![Box::new(device)], 1);
    let mut driver = Driver::new(node, false);
    driver.fill(64).expect("fills");
    let workload = Workload::default();
    let mut generator = Generator::new(&workload, blocks, 1, "overwrites");
    driver.run(&workload, &mut generator, 5000, |_| {}).expect("goes on");
    drop(driver);
    let mut timed = Timed::new(spec, medium);
    let (_, _, report) =
        seekless_layouts::mount(&mut timed, &MountOptions::default()).expect("recovers");
    (report, timed.now as f64 / SECONDS as f64)
}

/// L9: the time to scan the disk. With sector headers the whole disk is read once, at the rate of
/// large sequential reads; label blocks are one in 128.
#[test]
fn l9_a_recovery_takes_a_scan_of_the_disk() {
    for name in ["hp97560-full", "st19101"] {
        let spec = specs::find(name).expect("built in");
        let (with, seconds) = recover(&spec, true);
        let (without, quick) = recover(&spec, false);
        let bytes = spec.capacity_blocks() as f64 * BLOCK_BYTES as f64;
        let rate = bytes / seconds / 1e6;
        println!(
            "| `{name}` | {:.0} | {} | {seconds:.1} | {rate:.2} | {} | {quick:.1} |",
            bytes / 1e6,
            with.blocks_read,
            without.blocks_read
        );
        assert!(with.blocks_read >= spec.capacity_blocks() * 99 / 100, "{name}: {with:?}");
        assert!(without.blocks_read * 50 < with.blocks_read, "{name}: {without:?}");
        assert!(quick < seconds, "{name}: {quick} s");
    }
}
