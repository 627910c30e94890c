//! The same for arrays: blocks of members are changed, and assembly must neither panic nor return
//! wrong data.

use super::support::Shared;
use super::{Targets, block, change, correct_checksums};
use seekless_arrays::assemble::arrange;
use seekless_arrays::member::MemberSuperblock;
use seekless_arrays::scrub::scrub;
use seekless_arrays::{
    Array, ArrayDisk, AssembleOptions, CreateArray, Level, VolumeError, assemble, create,
};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::Io;
use seekless_engine::layer::Layer;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use seekless_layouts::Kind;
use std::sync::OnceLock;

const SHAPES: [(Level, usize, Kind); 4] = [
    (Level::Raid0, 2, Kind::INPLACE),
    (Level::Raid1, 2, Kind::LFS),
    (Level::Raid5, 3, Kind::INPLACE),
    (Level::Raid5, 3, Kind::VLOG),
];
const CHUNK: u32 = 2;
const BLOCKS: u64 = 32;
/// Bytes of a change to a block: the member, then as on one device.
const CHANGE: usize = 7;

/// The members in their places. Members whose superblock gives no place are left out.
fn in_places(media: &mut [Cells]) -> Result<Vec<Option<usize>>, VolumeError> {
    let read = |cells: &mut Cells| MemberSuperblock::read(&mut MediumDisk(cells)).ok();
    let found: Vec<_> = media.iter_mut().map(read).collect();
    arrange(&found)
}

/// Assembles an array and calls `act` with it.
fn with_array<T>(
    media: &mut [Cells],
    options: &AssembleOptions,
    act: impl FnOnce(Array, &mut [Option<&mut dyn Disk>]) -> T,
) -> Result<T, VolumeError> {
    let places = in_places(media)?;
    let mut plain: Vec<_> = media.iter_mut().map(|cells| Some(MediumDisk(cells))).collect();
    let mut taken: Vec<Option<MediumDisk<'_>>> =
        places.iter().map(|place| place.and_then(|at| plain[at].take())).collect();
    let mut disks: Vec<Option<&mut dyn Disk>> =
        taken.iter_mut().map(|disk| disk.as_mut().map(|disk| disk as _)).collect();
    let found = assemble(&mut disks, options)?;
    Ok(act(found.array, &mut disks))
}

/// A volume on an array, each with its own event loop.
fn served(array: Array, layer: Box<dyn Layer>, media: &[Cells]) -> (Node, Vec<Shared>) {
    let shared: Vec<Shared> = media.iter().cloned().map(Shared::new).collect();
    let device =
        |medium: &Shared| -> Box<dyn Device> { Box::new(Ram::volatile(Box::new(medium.clone()))) };
    let array = Node::new(Box::new(array), shared.iter().map(device).collect(), 3);
    (Node::new(layer, vec![Box::new(Nested::new(array))], 3), shared)
}

fn mount_options() -> MountOptions<'static> {
    MountOptions { volatile: true, ..MountOptions::default() }
}

/// A volume on an array that was written to, shut down cleanly or not.
fn base(&(level, members, kind): &(Level, usize, Kind), clean: bool) -> Vec<Cells> {
    let data = if level == Level::Raid1 { 1 } else { members as u64 };
    let device = 40 + kind.device_blocks(BLOCKS).div_ceil(data) * 2;
    let mut media = vec![Cells::new(device); members];
    let options = CreateArray { level, chunk: CHUNK, id: 5, blank: true };
    let mut plain: Vec<_> = media.iter_mut().map(|cells| MediumDisk(cells)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    create(&mut disks, &options).expect("it fits");
    let made = with_array(&mut media, &AssembleOptions::default(), |mut array, disks| {
        let mut disk = ArrayDisk::new(&mut array, disks);
        seekless_layouts::format(&mut disk, &FormatOptions::new(kind, BLOCKS, 7)).expect("it fits");
        let (layer, ..) =
            seekless_layouts::mount(&mut disk, &mount_options()).expect("it is fresh");
        (array, layer)
    });
    let (array, layer) = made.expect("it was just made");
    let (mut node, shared) = served(array, layer, &media);
    let mut now = 0;
    for version in 1..8 {
        let data = Data::bytes(Data::stamp(3, version * 4, version).to_bytes());
        node.run(&mut now, Io::write(0, version * 4, data)).expect("space is left");
        if version == 5 {
            node.run(&mut now, Io::flush(0)).expect("the devices are sound");
        }
    }
    if clean {
        node.finish(&mut now);
    }
    shared.iter().map(|one| one.with(|cells| cells.clone())).collect()
}

/// Members, and the used blocks of each.
type Base = (Vec<Cells>, Vec<Targets>);

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        let both = |shape| [base(shape, false), base(shape, true)];
        let known = |media: Vec<Cells>| {
            let targets: Vec<Targets> = media.iter().map(Targets::of).collect();
            for (cells, targets) in media.iter().zip(&targets) {
                for &at in &targets.structure {
                    let mut corrected = block(cells, at);
                    correct_checksums(&mut corrected);
                    assert!(corrected == block(cells, at), "block {at} has other checksums");
                }
            }
            (media, targets)
        };
        SHAPES.iter().flat_map(both).map(known).collect()
    })
}

/// Assembles, checks, compares, repairs, mounts and uses a damaged array.
fn use_array(media: &[Cells]) {
    for (read_only, degraded) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut copy = media.to_vec();
        let volume = Some(seekless_layouts::check as _);
        let options = AssembleOptions { volatile: true, read_only, degraded, volume };
        let mounted = with_array(&mut copy, &options, |mut array, disks| {
            let mut disk = ArrayDisk::new(&mut array, disks);
            if read_only {
                let _ = seekless_layouts::check(&mut disk);
                let _ = seekless_layouts::dump(&mut disk, &mut String::new());
                return None;
            }
            let layer = seekless_layouts::mount(&mut disk, &mount_options()).ok()?.0;
            Some((array, layer))
        });
        assert!(!read_only || copy == media, "a reader wrote to a member");
        let Ok(Some((array, layer))) = mounted else { continue };
        let places = in_places(&mut copy).expect("it was assembled");
        let placed: Option<Vec<Cells>> =
            places.iter().map(|place| place.map(|at| copy[at].clone())).collect();
        // This test mounts only arrays with all members.
        let Some(placed) = placed else { continue };
        let (mut node, _) = served(array, layer, &placed);
        let mut now = 0;
        let blocks = node.layer.blocks();
        for at in [0, blocks / 2, blocks - 1] {
            let _ = node.run(&mut now, Io::read(0, at, 1));
            let data = Data::bytes(Data::stamp(1, at, 77).to_bytes());
            let _ = node.run(&mut now, Io::write(0, at, data));
        }
        let _ = node.run(&mut now, Io::flush(0));
        node.finish(&mut now);
    }
    let mut copy = media.to_vec();
    let superblock = MemberSuperblock::read(&mut MediumDisk(&mut copy[0]));
    if let Ok(superblock) = superblock.as_ref()
        && superblock.geometry.members == copy.len()
        && copy.iter().all(|cells| cells.blocks() >= superblock.device_blocks())
    {
        let mut plain: Vec<_> = copy.iter_mut().map(|cells| MediumDisk(cells)).collect();
        let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
        let _ = scrub(&mut disks, superblock, Some(seekless_layouts::check), &mut |_| {});
    }
}

/// Treats the input as changes to members of one of some arrays.
///
/// # Panics
/// If the code under test panics, or if a reader writes.
pub fn exercise(input: &[u8]) {
    let [setup, rest @ ..] = input else { return };
    let bases = bases();
    let (media, targets) = &bases[usize::from(*setup) % bases.len()];
    let mut media = media.clone();
    for one in rest.chunks_exact(CHANGE) {
        let member = usize::from(one[0]) % media.len();
        change(&mut media[member], &targets[member], &one[1..]);
    }
    use_array(&media);
}
