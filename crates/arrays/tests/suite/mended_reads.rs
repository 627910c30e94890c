//! A member of an array that gives something else than was written, without an error: what a
//! layout with checksums reads is right all the same, and the member gets it back.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::seen::{Seen, start, with_disks};
use seekless_arrays::member::MemberSuperblock;
use seekless_arrays::{ArrayDisk, AssembleOptions, CreateArray, Level, assemble, create};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::nested::Nested;
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::BLOCK_BYTES;
use seekless_layouts::Kind;
use seekless_layouts::shared::PAST_UNREADABLE;

const SHAPES: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid5, 3), (Level::Raid5, 4)];
const BLOCKS: u64 = 400;
const CHUNK: u32 = 16;

fn body(at: u64) -> Data {
    let mut rng = Rng::stream(at, "content");
    Data::bytes((0..BLOCK_BYTES).map(|_| rng.next() as u8).collect::<Vec<u8>>().into())
}

/// Does something with the array in blocking style.
fn with_array<T>(media: &mut [Cells], act: impl FnOnce(&mut dyn Disk) -> T) -> T {
    with_array_as(false, media, act)
}

fn with_array_as<T>(
    read_only: bool,
    media: &mut [Cells],
    act: impl FnOnce(&mut dyn Disk) -> T,
) -> T {
    with_disks(media, |disks| {
        let options = AssembleOptions { volatile: true, read_only, ..AssembleOptions::default() };
        let mut found = assemble(disks, &options).expect("all are there");
        act(&mut ArrayDisk::new(&mut found.array, disks))
    })
}

struct World {
    node: Node,
    devices: Vec<Seen>,
    now: u64,
}

impl World {
    fn mount(media: &mut [Cells]) -> World {
        let options = MountOptions { volatile: true, ..MountOptions::default() };
        let (layer, ..) =
            with_array(media, |disk| seekless_layouts::mount(disk, &options)).expect("whole");
        let (array, devices) = start(media, 1);
        World { node: Node::new(layer, vec![Box::new(Nested::new(array))], 1), devices, now: 0 }
    }

    /// A volume that holds something, on an array.
    fn new(kind: Kind, level: Level, members: usize) -> World {
        let mut media = vec![Cells::new(4000); members];
        let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
        let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
        let shape = CreateArray { level, chunk: CHUNK, id: 5, blank: true };
        create(&mut disks, &shape).expect("it fits");
        let options = FormatOptions::new(kind, BLOCKS, 9);
        with_array(&mut media, |disk| seekless_layouts::format(disk, &options)).expect("it fits");
        let mut world = World::mount(&mut media);
        for at in (0..BLOCKS).step_by(4) {
            let mut data = Data::none();
            (at..at + 4).for_each(|at| data.append(body(at)));
            world.run(Io::write(0, at, data)).expect("it is written");
        }
        world.node.finish(&mut world.now);
        World::mount(&mut world.media())
    }

    fn run(&mut self, io: Io) -> Result<Data, IoError> {
        self.node.run(&mut self.now, io)
    }

    fn media(&self) -> Vec<Cells> {
        self.devices.iter().map(|one| one.0.lend().durable().clone()).collect()
    }

    fn healed(&self) -> u64 {
        let stats = self.node.stats();
        let found = stats.iter().find(|(name, _)| *name == "array_mended_blocks");
        found.expect("the array counts them").1 as u64
    }

    /// Spoils so many blocks of clients on a member, and returns where.
    fn spoil(&mut self, member: usize, most: usize) -> Vec<u64> {
        self.spoil_some(member, most, true)
    }

    /// The same, of clients or what the layout has written for itself.
    fn spoil_some(&mut self, member: usize, most: usize, of_clients: bool) -> Vec<u64> {
        let mut ram = self.devices[member].0.lend();
        let known: Vec<_> = (0..BLOCKS).map(|at| body(at).to_bytes()).collect();
        let cells = ram.durable().clone();
        let holds = |&at: &u64| match cells.get(at) {
            Body::Zeros => false,
            body => {
                let bytes = seekless_engine::data::Piece::block(body).to_bytes();
                known.contains(&bytes) == of_clients
            }
        };
        // Not in the log of the array, nor in parity, where they may be as well.
        let superblock = MemberSuperblock::read(&mut MediumDisk(&mut cells.clone()));
        let geometry = superblock.expect("a member").geometry;
        let first = geometry.block(0, 0);
        let is_data = |at: &u64| geometry.parity(geometry.stripe_of(*at).0) != Some(member);
        let places: Vec<u64> =
            (first..ram.durable().blocks()).filter(is_data).filter(holds).take(most).collect();
        for &at in &places {
            let mut bytes = seekless_engine::data::Piece::block(cells.get(at)).to_bytes().to_vec();
            bytes[at as usize % BLOCK_BYTES] ^= 4;
            ram.rot(at, &Body::Bytes(bytes.into()));
        }
        places
    }

    fn reads_right(&mut self, each: u32) {
        for at in (0..BLOCKS).step_by(each as usize) {
            let mut data = Data::none();
            (at..at + u64::from(each)).for_each(|at| data.append(body(at)));
            let found = self.run(Io::read(0, at, each)).map(|data| data.to_bytes());
            assert_eq!(found, Ok(data.to_bytes()), "from block {at}");
        }
    }
}

fn kinds(level: Level) -> Vec<Kind> {
    let mut kinds: Vec<_> = Kind::LOG_STRUCTURED.into_iter().chain([Kind::VLOG]).collect();
    if level == Level::Raid1 {
        kinds.push(Kind::LOGE);
    }
    kinds
}

#[test]
fn what_a_member_gives_wrong_comes_from_the_others() {
    for (level, members) in SHAPES {
        for kind in kinds(level) {
            for member in 0..members {
                let mut world = World::new(kind, level, members);
                let before = world.media();
                let places = world.spoil(member, usize::MAX);
                assert!(places.len() > 20, "{kind} on {level:?}: {}", places.len());
                // Of mirrors not all reads go to the same one.
                for each in [40, 1, 8] {
                    world.reads_right(each);
                }
                let healed = world.healed();
                assert!(healed > 0 && healed <= places.len() as u64, "{kind}, {level:?}: {healed}");
                world.node.finish(&mut world.now);
                let mut after = world.media();
                if level == Level::Raid5 {
                    for &at in &places {
                        let (is, was) = (after[member].get(at), before[member].get(at));
                        assert_eq!(is, was, "{kind}, member {member}: block {at}");
                    }
                    let mut world = World::mount(&mut after);
                    world.reads_right(1);
                    assert_eq!(world.healed(), 0, "each once");
                }
            }
        }
    }
}

/// Of a volume at rest: nothing is damaged as long as one member has it, and a mount finds its map.
#[test]
fn checks_and_mounts_find_what_is_right() {
    for (level, members) in SHAPES {
        for kind in [Kind::LFS, Kind::VLOG] {
            for member in 0..members {
                let mut world = World::new(kind, level, members);
                assert!(world.spoil(member, usize::MAX).len() > 20, "{kind} on {level:?}");
                let mut media = world.media();
                let found =
                    with_array(&mut media, |disk| seekless_layouts::check(disk)).expect("mounts");
                assert_eq!(found.2.problems, Vec::<String>::new(), "{kind} on {level:?}");
            }
        }
    }
}

/// All that the layout has written for itself is wrong on one member: it tells so by itself, and a
/// mount takes it from the others; the member gets back what was looked at.
#[test]
fn mounts_take_metadata_from_who_has_it_right() {
    for (level, members) in SHAPES {
        for kind in kinds(level) {
            let mut back = 0;
            for member in 0..members {
                let mut world = World::new(kind, level, members);
                world.node.finish(&mut world.now);
                let places = world.spoil_some(member, usize::MAX, false);
                let label = format!("{kind} on {level:?}, member {member}");
                let mut media = world.media();
                let spoiled = media.clone();
                let found = with_array_as(true, &mut media, |disk| seekless_layouts::check(disk));
                assert_eq!(found.expect(&label).2.problems, Vec::<String>::new(), "{label}");
                assert!(media == spoiled, "{label}: a check writes nothing");
                let mut world = World::mount(&mut media);
                world.reads_right(1);
                assert_eq!(world.healed(), 0, "{label}: data of clients is right");
                let is_back = |at: &&u64| media[member].get(**at) != spoiled[member].get(**at);
                back += places.iter().filter(is_back).count();
            }
            // On RAID-5 some member may have none that are of use.
            assert!(back > 0, "{kind} on {level:?}");
        }
    }
}

/// What is whole on one member only need not be what belongs there: unless that is certain, it is
/// shown and no member gets it.
#[test]
fn only_what_certainly_belongs_there_is_given_back() {
    for level in [Level::Raid1, Level::Raid5] {
        let mut world = World::new(Kind::LFS, level, 3);
        world.node.finish(&mut world.now);
        let (mut media, right) = (world.media(), Data::stamp(1, 7, 7));
        let at = 3000;
        with_disks(&mut media, |disks| {
            let mut found = assemble(disks, &AssembleOptions::default()).expect("all are there");
            let mut disk = ArrayDisk::new(&mut found.array, disks);
            disk.write(at, right.clone()).expect("written");
            // Else the next assembly would bring the members into step.
            disk.end().expect("in order");
        });
        let geometry = with_disks(&mut media, |disks| {
            let first = disks[0].as_deref_mut().expect("there");
            MemberSuperblock::read(first).expect("a member").geometry
        });
        let place = geometry.place(at);
        let member = geometry.member(place.stripe, place.index);
        let block = geometry.block(place.stripe, place.row);
        let other = Data::stamp(1, 8, 8);
        MediumDisk(&mut media[member]).write(block, other.clone()).expect("writes");
        let is_right = |block: &Piece| Data::block_of(block.body.clone()) == right;
        let seen = with_array(&mut media, |disk| disk.look_for_whole(at, &is_right));
        assert_eq!(seen, Ok(right.clone()), "{level:?}");
        let held = MediumDisk(&mut media[member]).read(block, 1);
        assert_eq!(held, Ok(other), "{level:?}: looking changes nothing");
        let read = with_array(&mut media, |disk| disk.read_whole(at, 1, &|_, it| is_right(it)));
        assert_eq!(read, Ok(right.clone()), "{level:?}");
        assert_eq!(MediumDisk(&mut media[member]).read(block, 1), Ok(right), "{level:?}");
    }
}

/// Two members that are wrong in different stripes, and both in the same: what can be had is had,
/// and what cannot is an error, never wrong bytes.
#[test]
fn what_nobody_has_is_an_error() {
    let mut world = World::new(Kind::LFS, Level::Raid5, 3);
    let (one, other) = (world.spoil(0, usize::MAX), world.spoil(1, usize::MAX));
    let both = one.iter().filter(|at| other.contains(at)).count();
    assert!(both > 0);
    let mut errors = 0;
    for at in 0..BLOCKS {
        match world.run(Io::read(0, at, 1)) {
            Ok(data) => assert_eq!(data.to_bytes(), body(at).to_bytes(), "block {at}"),
            Err(error) => {
                assert!(matches!(error, IoError::Checksum { .. }), "{error:?}");
                errors += 1;
            }
        }
    }
    assert!(errors > 0 && errors < BLOCKS, "{errors}");
}

/// On an array that lacks a member, wrong bytes of another make two blocks wrong at once. Where
/// one of them is the record of a clean shutdown of `vlog`, the other may be its youngest map
/// block, and nothing that is left tells: the mount fails, unless it is asked to go on.
#[test]
fn two_blocks_that_are_wrong_at_once_are_an_error() {
    let mut world = World::new(Kind::VLOG, Level::Raid5, 3);
    world.node.finish(&mut world.now);
    let media = world.media();
    let superblock = MemberSuperblock::read(&mut MediumDisk(&mut media[0].clone()));
    let geometry = superblock.expect("a member").geometry;
    let tail = geometry.place(1);
    let lost = geometry.member(tail.stripe, tail.index);
    let row = geometry.block(tail.stripe, tail.row);
    let mount = |wrong: Option<usize>, past_unreadable| {
        let mut media = media.clone();
        if let Some(member) = wrong {
            let mut bytes = Piece::block(media[member].get(row)).to_bytes().to_vec();
            bytes[100] ^= 4;
            media[member].set(row, Body::Bytes(bytes.into()));
        }
        let mut options = MountOptions { volatile: true, ..MountOptions::default() };
        options.options.set(&PAST_UNREADABLE, past_unreadable);
        with_disks(&mut media, |disks| {
            disks[lost] = None;
            let options_of_array =
                AssembleOptions { volatile: true, degraded: true, ..AssembleOptions::default() };
            let mut found = assemble(disks, &options_of_array).expect("two of three are there");
            seekless_layouts::mount(&mut ArrayDisk::new(&mut found.array, disks), &options)
                .map(|_| ())
        })
    };
    assert_eq!(mount(None, false), Ok(()));
    for wrong in (0..3).filter(|&member| member != lost) {
        let found = mount(Some(wrong), false);
        let said = found.expect_err("the record is wrong").to_string();
        assert!(said.contains("a member of the array has wrong bytes"), "{said}");
        assert_eq!(mount(Some(wrong), true), Ok(()));
    }
}
