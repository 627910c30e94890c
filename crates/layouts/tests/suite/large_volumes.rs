//! A volume of a terabyte that holds little costs as much as what it holds: making it, mounting it
//! and trimming it pass over holes.

use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::units::BlockNr;
use seekless_layouts::Kind;
use std::time::{Duration, Instant};

/// A tebibyte.
const BLOCKS: u64 = 1 << 28;

each_layout!(holes_are_passed_over, a_trim_of_holes_looks_at_none_of_them);

/// Counts how often a layout asks where data begins: a medium may go through a whole hole to say
/// so.
struct Asked<'m> {
    below: MediumDisk<'m>,
    times: u64,
}

impl Disk for Asked<'_> {
    fn blocks(&self) -> u64 {
        self.below.blocks()
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.below.read(at, count)
    }
    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        self.below.write(at, data)
    }
    fn flush(&mut self) -> Result<(), IoError> {
        self.below.flush()
    }
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.times += 1;
        self.below.next_data(at)
    }
}

fn made(kind: Kind) -> (Cells, u64) {
    let mut cells = Cells::new(kind.device_blocks(BLOCKS));
    let mut disk = Asked { below: MediumDisk(&mut cells), times: 0 };
    let options = FormatOptions::new(kind, BLOCKS, 0x5eed);
    seekless_layouts::format(&mut disk, &options).expect("the sizes fit");
    let times = disk.times;
    (cells, times)
}

fn holes_are_passed_over(kind: Kind) {
    let (mut cells, times) = made(kind);
    assert!(times < 100, "{kind}: format asked {times} times where data begins");
    let mut disk = Asked { below: MediumDisk(&mut cells), times: 0 };
    seekless_layouts::mount(&mut disk, &MountOptions::default()).expect("mounts");
    // The log of dcd has so many segments, and each begins with a hole or not.
    let most = if kind == Kind::DCD { 10_000 } else { 100 };
    assert!(disk.times < most, "{kind}: the mount asked {} times where data begins", disk.times);
}

#[allow(clippy::disallowed_methods)]
fn a_trim_of_holes_looks_at_none_of_them(kind: Kind) {
    if [Kind::INPLACE, Kind::DCD].contains(&kind) {
        // They hand trims on to the device.
        return;
    }
    let (mut cells, _) = made(kind);
    let options = MountOptions { volatile: true, ..MountOptions::default() };
    let (layer, ..) =
        seekless_layouts::mount(&mut MediumDisk(&mut cells), &options).expect("mounts");
    let mut node = Node::new(layer, vec![Box::new(Ram::volatile(Box::new(cells)))], 1);
    let (began, mut answers) = (Instant::now(), Vec::new());
    for (tag, at) in (0..).zip((0..BLOCKS).step_by(1 << 19)) {
        node.submit(0, Io::trim(tag, at, 1 << 19));
        node.settle(0, &mut answers);
    }
    assert_eq!(answers.len() as u64, BLOCKS >> 19, "{kind}");
    assert!(answers.iter().all(|done| done.outcome.is_ok()), "{kind}");
    // Milliseconds, or seconds where each block is looked at.
    assert!(began.elapsed() < Duration::from_secs(1), "{kind}: {:?}", began.elapsed());
}
