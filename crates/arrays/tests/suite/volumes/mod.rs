//! Small arrays with volumes of each layout, in memory, and wrong bytes on their members.
#![allow(dead_code, clippy::disallowed_types, missing_docs)]

pub use crate::support::Shared;
use seekless_arrays::geometry::Geometry;
use seekless_arrays::member::MemberSuperblock;
use seekless_arrays::scrub::{Scrubbed, scrub};
use seekless_arrays::{
    Array, ArrayDisk, AssembleOptions, CreateArray, Level, VolumeError, assemble, create,
};
use seekless_engine::Bytes;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_layouts::Kind;

pub const CHUNK: u32 = 4;
pub const BLOCKS: u64 = 64;
pub const SHAPES: [(Level, usize); 3] = [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid5, 3)];

/// Lets something happen to the members as disks.
pub fn with_disks<T>(media: &mut [Cells], act: impl FnOnce(&mut [&mut dyn Disk]) -> T) -> T {
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    act(&mut disks)
}

pub fn with_array<T>(
    media: &mut [Cells],
    act: impl FnOnce(Array, &mut [Option<&mut dyn Disk>]) -> T,
) -> T {
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| Some(disk as &mut dyn Disk)).collect();
    let array = assemble(&mut disks, &AssembleOptions::default()).expect("all are there").array;
    act(array, &mut disks)
}

pub fn geometry(media: &mut [Cells]) -> Geometry {
    with_disks(media, |disks| MemberSuperblock::read(disks[0]).expect("a member").geometry)
}

/// A new volume on a new array.
pub fn fresh(level: Level, members: usize, kind: Kind) -> Vec<Cells> {
    let data = if level == Level::Raid5 { members as u64 - 1 } else { 1 };
    let stripes = kind.device_blocks(BLOCKS).div_ceil(data * u64::from(CHUNK));
    let log = if level == Level::Raid5 { 2 * (1 + members as u64 * 4) + 2 } else { 0 };
    let device = 4 + log + stripes * u64::from(CHUNK);
    let mut media = vec![Cells::new(device); members];
    let options = CreateArray { level, chunk: CHUNK, id: 5, blank: true };
    with_disks(&mut media, |disks| create(disks, &options).expect("fits"));
    with_array(&mut media, |mut array, disks| {
        let mut disk = ArrayDisk::new(&mut array, disks);
        seekless_layouts::format(&mut disk, &FormatOptions::new(kind, BLOCKS, 7)).expect("fits");
    });
    media
}

/// The volume on copies of the members, which are handed back as well.
pub fn mounted(media: &[Cells]) -> (Node, Vec<Shared>) {
    mounted_on(media, |_, medium| Box::new(medium))
}

/// The same; `wrap` makes the medium of each member from its number and content.
pub fn mounted_on(
    media: &[Cells],
    wrap: impl Fn(usize, Shared) -> Box<dyn Medium>,
) -> (Node, Vec<Shared>) {
    let mut media = media.to_vec();
    let (array, layer) = with_array(&mut media, |mut array, disks| {
        let options = MountOptions { volatile: true, ..MountOptions::default() };
        let mut disk = ArrayDisk::new(&mut array, disks);
        let (layer, ..) = seekless_layouts::mount(&mut disk, &options).expect("mounts");
        (array, layer)
    });
    let shared: Vec<Shared> = media.into_iter().map(Shared::new).collect();
    let device = |(member, medium): (usize, &Shared)| -> Box<dyn Device> {
        Box::new(Ram::volatile(wrap(member, medium.clone())))
    };
    let devices = shared.iter().enumerate().map(device).collect();
    let array = Node::new(Box::new(array), devices, 3);
    (Node::new(layer, vec![Box::new(Nested::new(array))], 3), shared)
}

/// Members of an array with a volume that was written to, ended orderly or not, and its content.
/// What a crash has left of the array itself is still there.
pub fn written(level: Level, members: usize, kind: Kind, orderly: bool) -> (Vec<Cells>, Vec<Data>) {
    let (mut node, shared) = mounted(&fresh(level, members, kind));
    let (mut now, mut rng) = (0, Rng::stream(1, "scrubs"));
    let mut content = vec![Data::zeros(1); BLOCKS as usize];
    for version in 1..=60 {
        let at = rng.below(BLOCKS - 3);
        let data = Data::bytes(Data::stamp(3, at, version).to_bytes());
        for index in 0..3 {
            content[at as usize + index] = data.slice(index as u32, 1);
        }
        node.run(&mut now, Io::write(0, at, data)).expect("space is left");
        if version % 7 == 0 {
            node.run(&mut now, Io::flush(0)).expect("the devices are sound");
        }
    }
    node.run(&mut now, Io::flush(0)).expect("the devices are sound");
    if orderly {
        node.finish(&mut now);
    }
    (shared.iter().map(|one| one.with(|cells| cells.clone())).collect(), content)
}

pub fn scrubbed(media: &mut [Cells], repair: bool) -> Result<Scrubbed, VolumeError> {
    with_disks(media, |disks| {
        let superblock = MemberSuperblock::read(disks[0]).expect("a member");
        scrub(disks, &superblock, repair.then_some(seekless_layouts::check), &mut |_| {})
    })
}

/// Changes a byte of a block.
pub fn spoil(medium: &mut Cells, at: u64, byte: usize) {
    let mut bytes = medium.read(at, 1).expect("a block").to_bytes().to_vec();
    bytes[byte] ^= 0x55;
    medium.set(at, Body::Bytes(Bytes::from(bytes)));
}

pub fn holds(media: &[Cells], content: &[Data], what: &str) {
    let (mut node, _) = mounted(media);
    let data = node.run(&mut 0, Io::read(0, 0, BLOCKS as u32));
    let data = data.unwrap_or_else(|error| panic!("{what}: {error}"));
    for (block, expected) in content.iter().enumerate() {
        let found = data.slice(block as u32, 1).to_bytes();
        assert!(found == expected.to_bytes(), "{what}: block {block}");
    }
}
