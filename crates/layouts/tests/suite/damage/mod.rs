//! Damaged and forged images: a volume is made, and its blocks are changed as an input says. All
//! readers of images must neither panic nor return wrong data. The body of the fuzz target `mount`
//! and of the tests of damaged images.

pub mod arrays;
pub mod attached;
#[path = "../support/mod.rs"]
mod support;

use seekless_engine::Bytes;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Io, Outcome};
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_layouts::Kind;
use std::sync::OnceLock;
use support::Shared;

/// Largest raw image, in blocks: 256 KiB.
const RAW_BLOCKS: usize = 64;
/// Magic numbers of blocks of the layouts.
const MAGICS: [&[u8]; 10] = [
    b"SEEKLESS",
    b"SKLSTAIL",
    b"SKLSMAP1",
    b"SKLSLOGE",
    b"SKLSSEG1",
    b"SKLSCKPT",
    b"SKLSDCR2",
    b"SKLSTRAN",
    MEMBER,
    b"SEEKRLG3",
];
/// Magic number of a member of an array; its first sector has its own checksum.
const MEMBER: &[u8] = b"SEEKARRY";
/// Offsets of the checksums in a map block: that of its entries, and that of its header.
const ENTRIES_SUM: usize = 84;
const HEADER_SUM: usize = 508;
/// Versions of the content of each block of a base image.
const VERSIONS: u64 = 6;

/// A mounted volume that answers one request at a time.
struct Volume {
    node: Node,
    now: u64,
}

impl Volume {
    fn new(image: Shared) -> Result<Volume, seekless_engine::layout::LayoutError> {
        let options = MountOptions { volatile: true, ..MountOptions::default() };
        let (layer, ..) = seekless_layouts::mount(&mut MediumDisk(&mut image.clone()), &options)?;
        let device = Ram::volatile(Box::new(image));
        Ok(Volume { node: Node::new(layer, vec![Box::new(device)], 1), now: 0 })
    }

    fn run(&mut self, io: Io) -> Outcome {
        self.node.run(&mut self.now, io)
    }

    fn stop(&mut self) {
        self.node.finish(&mut self.now);
    }
}

/// A base image: small or with several slices of map, shut down cleanly or not.
fn base(kind: Kind, large: bool, clean: bool) -> Cells {
    let blocks = if large { 1000 } else { 32 };
    let device = kind.device_blocks(blocks);
    let image = Shared::new(Cells::new(device));
    let options = FormatOptions::new(kind, blocks, 0x5eed);
    seekless_layouts::format(&mut MediumDisk(&mut image.clone()), &options).expect("the sizes fit");
    let mut volume = Volume::new(image.clone()).expect("the volume is fresh");
    for version in 1..=VERSIONS {
        for at in (0..blocks).step_by(blocks as usize / 8).skip(version as usize % 3) {
            let data = Data::bytes(Data::stamp(3, at, version).to_bytes());
            volume.run(Io::write(0, at, data)).expect("space is left");
        }
        if version % 2 == 0 {
            volume.run(Io::flush(0)).expect("the device is sound");
        }
    }
    if clean {
        volume.stop();
    }
    image.with(|cells| cells.clone())
}

/// The used blocks of an image.
struct Targets {
    written: Vec<BlockNr>,
    /// Superblocks, map blocks, tail records.
    structure: Vec<BlockNr>,
}

impl Targets {
    fn of(cells: &Cells) -> Targets {
        let all = || 0..cells.blocks();
        let is_structure = |at: &BlockNr| MAGICS.iter().any(|it| block(cells, *at).starts_with(it));
        Targets {
            written: all().filter(|&at| cells.get(at) != Body::Zeros).collect(),
            structure: all().filter(is_structure).collect(),
        }
    }
}

/// An image to damage, and its properties.
type Base = (Kind, Cells, Targets);

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        let mut out = Vec::new();
        for kind in Kind::ALL {
            for (large, clean) in [(false, false), (false, true), (true, false), (true, true)] {
                let image = base(kind, large, clean);
                let targets = Targets::of(&image);
                for &at in &targets.structure {
                    let whole = block(&image, at);
                    let mut corrected = whole.clone();
                    correct_checksums(&mut corrected);
                    // Else the checksums would detect every forgery, and the code behind them would
                    // not run.
                    assert!(corrected == whole, "{kind}: block {at} has other checksums");
                }
                out.push((kind, image, targets));
            }
        }
        out
    })
}

fn block(cells: &Cells, at: BlockNr) -> Vec<u8> {
    let mut clone = cells.clone();
    clone.read(at, 1).expect("a block of the image").to_bytes().to_vec()
}

/// Corrects the checksums of a block: the damage becomes a forgery that checksums do not detect.
fn correct_checksums(bytes: &mut [u8]) {
    let is = MAGICS.map(|magic| bytes.starts_with(magic));
    let map = is[2];
    // Superblocks and structures of arrays have plain CRCs in all volumes.
    let plain = bytes.starts_with(b"SEEK");
    let member = bytes.starts_with(MEMBER);
    let sums = if plain { Sums::Crc } else { Sums::NEWEST };
    let id = Identity::new(0, sums);
    let mut sum = |at: usize, from: usize, to: usize| {
        let sum = id.sum(&bytes[from..to]);
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    };
    if map {
        sum(ENTRIES_SUM, 512, BLOCK_BYTES);
        sum(HEADER_SUM, 0, HEADER_SUM);
    } else if member {
        sum(HEADER_SUM, 0, HEADER_SUM);
    } else if is.contains(&true) {
        sum(BLOCK_BYTES - 4, 0, BLOCK_BYTES - 4);
    }
}

/// Changes an image as the input says, six bytes a change. Returns true if checksums were
/// corrected, so that content is unprotected.
fn damage(cells: &mut Cells, targets: &Targets, input: &[u8]) -> bool {
    let mut forged = false;
    for one in input.chunks_exact(6) {
        forged |= change(cells, targets, one);
    }
    forged
}

/// Changes one block. Returns true if its checksums were corrected.
fn change(cells: &mut Cells, targets: &Targets, change: &[u8]) -> bool {
    let blocks = cells.blocks();
    let near = u64::from(u16::from_le_bytes([change[1], change[2]]));
    // Most changes hit used blocks, half of them metadata.
    let pick = |from: &[BlockNr]| from.get(near as usize % from.len().max(1)).copied();
    let at = match change[0] & 3 {
        0 => None,
        1 => pick(&targets.written),
        _ => pick(&targets.structure),
    };
    let at = at.unwrap_or(near % blocks);
    let mut bytes = block(cells, at);
    let value = u16::from_le_bytes([change[4], change[5]]);
    // Structures begin at the start of a block and checksums of them lie at its end.
    let offset = match change[0] & 12 {
        0 => usize::from(change[3]),
        4 => 512 + usize::from(change[3]) * 8,
        8 => BLOCK_BYTES - 1 - usize::from(change[3]) % 8,
        _ => usize::from(change[3]) * 16,
    }
    .min(BLOCK_BYTES - 2);
    match change[0] >> 4 & 7 {
        0 => bytes = vec![0; BLOCK_BYTES],
        1 => bytes = block(cells, u64::from(value) % blocks),
        2 => bytes[offset..].fill(value as u8),
        3 => bytes[offset..offset + 2].copy_from_slice(&value.to_le_bytes()),
        4 => bytes[offset] = bytes[offset].wrapping_add(value as u8),
        _ => bytes[offset] ^= value as u8,
    }
    let forged = change[0] & 128 != 0;
    if forged {
        correct_checksums(&mut bytes);
    }
    cells.set(at, Body::Bytes(Bytes::from(bytes)));
    forged
}

/// Valid content of a block of the volume: one of the versions it was written with, or zeros.
fn is_ours(at: BlockNr, found: &Data) -> bool {
    let found = found.to_bytes();
    let zeros = found.iter().all(|&byte| byte == 0);
    zeros || (1..=VERSIONS).any(|version| Data::stamp(1, at, version).to_bytes() == found)
}

/// Checks, prints and mounts an image, then uses the volume; with `genuine`, all content that can
/// be read must have been written.
fn use_image(cells: &Cells, genuine: bool) {
    let mut copy = cells.clone();
    let checked = seekless_layouts::check(&mut MediumDisk(&mut copy));
    let mut text = String::new();
    let _ = seekless_layouts::dump(&mut MediumDisk(&mut copy), &mut text);
    assert!(copy == *cells, "a check wrote to the image");
    let image = Shared::new(copy);
    let Ok(mut volume) = Volume::new(image) else { return };
    let found_whole = checked.is_ok_and(|(_, _, report)| report.problems.is_empty());
    let blocks = volume.node.layer.blocks();
    for at in (0..blocks.min(1000)).step_by(1 + blocks as usize / 200) {
        let outcome = volume.run(Io::read(0, at, 1));
        assert!(!(genuine && found_whole && outcome.is_err()), "the check missed block {at}");
        if let Ok(data) = outcome {
            assert!(!genuine || is_ours(at, &data), "block {at} was never written like that");
        }
    }
    let mut written = Vec::new();
    for at in [0, blocks / 2, blocks - 1] {
        let data = Data::bytes(Data::stamp(1, at, 77).to_bytes());
        if volume.run(Io::write(0, at, data.clone())).is_ok() {
            written.push((at, data));
        }
        let _ = volume.run(Io::trim(0, at / 3, 1));
    }
    let _ = volume.run(Io::flush(0));
    let trimmed = [0, blocks / 6, (blocks - 1) / 3];
    for (at, data) in written.into_iter().filter(|(at, _)| genuine && !trimmed.contains(at)) {
        assert_eq!(volume.run(Io::read(0, at, 1)), Ok(data), "block {at}");
    }
    volume.stop();
}

/// Treats the input as an image, or as changes to one, to an array, or to an origin and its log, as
/// its first byte says, and runs all readers on it.
///
/// # Panics
/// If the code under test panics, if a check writes, or if a volume with checksums returns bytes
/// that were never written.
pub fn exercise(input: &[u8]) {
    let [setup, rest @ ..] = input else { return };
    if setup & 0x80 != 0 {
        let mut cells = Cells::new(rest.len().div_ceil(BLOCK_BYTES).min(RAW_BLOCKS) as u64);
        for (at, bytes) in (0..cells.blocks()).zip(rest.chunks(BLOCK_BYTES)) {
            let mut bytes = bytes.to_vec();
            bytes.resize(BLOCK_BYTES, 0);
            if setup & 1 != 0 {
                correct_checksums(&mut bytes);
            }
            cells.set(at, Body::Bytes(Bytes::from(bytes)));
        }
        return use_image(&cells, false);
    }
    match setup & 0x60 {
        0x40 => return arrays::exercise(&[&[setup & 0x1f], rest].concat()),
        0x60 => return attached::exercise(&[&[setup & 0x1f], rest].concat()),
        _ => {}
    }
    let bases = bases();
    let (kind, image, targets) = &bases[usize::from(*setup) % bases.len()];
    let mut cells = image.clone();
    let forged = damage(&mut cells, targets, rest);
    // Update in place has no checksums of data.
    use_image(&cells, !forged && kind.promises().checked);
}
