//! The same for an origin and its log on devices of their own.

use super::support::Shared;
use super::{Targets, block, change, correct_checksums};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_layouts::{Kind, dcd};
use std::sync::OnceLock;

const BLOCKS: u64 = 200;
const LOG_BLOCKS: u64 = 300;
/// Bytes of a change to a block: origin or log, then as on one device.
const CHANGE: usize = 7;

/// A volume on copies of its two halves, which are returned as well.
fn mounted(halves: &[Cells; 2], read_only: bool) -> Result<(Node, [Shared; 2]), LayoutError> {
    let [mut origin, mut log] = halves.clone();
    let options = MountOptions { volatile: true, read_only, ..MountOptions::default() };
    let (layer, ..) =
        dcd::mount(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &options)?;
    assert!(!read_only || [&origin, &log] == [&halves[0], &halves[1]], "a reader wrote");
    let shared = [origin, log].map(Shared::new);
    let device =
        |half: &Shared| -> Box<dyn Device> { Box::new(Ram::volatile(Box::new(half.clone()))) };
    let node = Node::new(Box::new(layer), shared.iter().map(device).collect(), 1);
    Ok((node, shared))
}

/// Halves of a volume that was mounted and written to twice, shut down cleanly or not.
fn base(clean: bool) -> [Cells; 2] {
    let mut halves = [Cells::new(BLOCKS), Cells::new(LOG_BLOCKS)];
    halves[0].write(0, &Data::stamp(BLOCKS as u32, 0, 1)).expect("it is in range");
    let [origin, log] = &mut halves;
    let options = FormatOptions::new(Kind::DCD, 0, 9);
    dcd::attach(&mut MediumDisk(origin), &mut MediumDisk(log), &options).expect("both are new");
    for round in 0..2 {
        let (mut node, shared) = mounted(&halves, false).expect("nothing is damaged");
        let mut now = 0;
        for version in 2..8 {
            let at = 7 * version + round;
            let data = Data::bytes(Data::stamp(3, at, version).to_bytes());
            node.run(&mut now, Io::write(0, at, data)).expect("space is left");
            if version == 5 {
                node.run(&mut now, Io::flush(0)).expect("the devices are sound");
            }
        }
        if clean || round == 0 {
            node.finish(&mut now);
        }
        halves = shared.map(|half| half.with(|cells| cells.clone()));
    }
    halves
}

/// Halves, and the used blocks of each.
type Base = ([Cells; 2], [Targets; 2]);

fn bases() -> &'static [Base; 2] {
    static BASES: OnceLock<[Base; 2]> = OnceLock::new();
    BASES.get_or_init(|| {
        [base(false), base(true)].map(|halves| {
            let targets = [Targets::of(&halves[0]), Targets::of(&halves[1])];
            for (cells, targets) in halves.iter().zip(&targets) {
                for &at in &targets.structure {
                    let mut corrected = block(cells, at);
                    correct_checksums(&mut corrected);
                    assert!(corrected == block(cells, at), "block {at} has other checksums");
                }
            }
            (halves, targets)
        })
    })
}

/// Checks, prints, mounts, uses and detaches a damaged volume.
fn use_halves(halves: &[Cells; 2]) {
    let [mut origin, mut log] = halves.clone();
    let _ = dcd::check(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), None);
    let mut text = String::new();
    let _ = dcd::dump(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &mut text);
    assert!([&origin, &log] == [&halves[0], &halves[1]], "a check wrote");
    for read_only in [true, false] {
        let Ok((mut node, _)) = mounted(halves, read_only) else { continue };
        let mut now = 0;
        let blocks = node.layer.blocks();
        for at in [0, 15, blocks / 2, blocks - 1] {
            let _ = node.run(&mut now, Io::read(0, at, 1));
            let data = Data::bytes(Data::stamp(1, at, 77).to_bytes());
            let _ = node.run(&mut now, Io::write(0, at, data));
        }
        let _ = node.run(&mut now, Io::flush(0));
        node.finish(&mut now);
    }
    let _ = dcd::detach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log));
}

/// Treats the input as changes to the halves of one of two volumes.
///
/// # Panics
/// If the code under test panics, or if a reader writes.
pub fn exercise(input: &[u8]) {
    let [setup, rest @ ..] = input else { return };
    let (halves, targets) = &bases()[usize::from(*setup) % 2];
    let mut halves = halves.clone();
    for one in rest.chunks_exact(CHANGE) {
        let half = usize::from(one[0]) % 2;
        change(&mut halves[half], &targets[half], &one[1..]);
    }
    use_halves(&halves);
}
