//! The drive as a whole against a model: random requests, remounts, power cuts.

use super::address::address;
use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use seekless_crash::device::cut::CutMedium;
use seekless_crash::fate::Fate;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Outcome;
use seekless_engine::layout::MountPath;
use seekless_engine::node::Node;
use seekless_engine::superblock::LayoutNumber;
use seekless_engine::units::SECONDS;
use std::collections::BTreeMap;
use std::sync::OnceLock;

mod checkpoints;
mod lost;

const DEVICE: u64 = 1500;

fn made(device: u64) -> Cells {
    let mut cells = Cells::new(device);
    let blocks = Vlfs::largest_volume(device);
    let options = FormatOptions {
        layout: LayoutNumber(9),
        ..FormatOptions::new(crate::Kind::VLOG, blocks, 77)
    };
    recover::format(&mut MediumDisk(&mut cells), &options).expect("it fits");
    cells
}

/// What blocks hold, by address; what is not there is zeros.
type Model = BTreeMap<BlockNr, Bytes>;

/// What a version of a block is.
fn stamp(at: BlockNr, version: u64) -> Bytes {
    Data::stamp(1, at, version).to_bytes()
}

struct Drive {
    medium: CutMedium,
    node: Node,
    now: u64,
    model: Model,
    path: MountPath,
    chosen: Options,
}

/// Options of a drive that has checkpoints, small as it is, or none.
fn choices(checkpoints: bool) -> Options {
    let below = if checkpoints { 0 } else { u64::MAX };
    Options::default().with(&WALK_BELOW, below)
}

fn options(volatile: bool, checkpoints: bool) -> MountOptions<'static> {
    MountOptions { volatile, options: choices(checkpoints), ..MountOptions::default() }
}

fn superblock(medium: &mut CutMedium) -> Superblock {
    Superblock::read(&mut MediumDisk(medium), &Ok).expect("it was made")
}

fn mounted(medium: &CutMedium, options: &MountOptions<'_>) -> (Vlfs, MountPath) {
    let mut medium = medium.clone();
    let superblock = superblock(&mut medium);
    let mut steps = RecoverySteps::new(None);
    let volume = recover::mount(&mut MediumDisk(&mut medium), &superblock, options, &mut steps);
    let volume = volume.unwrap_or_else(|error| panic!("it mounts: {error}"));
    (volume, steps.finish().path)
}

impl Drive {
    fn mount(medium: CutMedium, volatile: bool, model: Model) -> Drive {
        Drive::mount_with(medium, (volatile, false), model)
    }

    fn mount_with(medium: CutMedium, (volatile, checkpoints): (bool, bool), model: Model) -> Drive {
        Drive::mount_as(medium, volatile, model, choices(checkpoints))
    }

    fn mount_as(medium: CutMedium, volatile: bool, model: Model, chosen: Options) -> Drive {
        let options = MountOptions { volatile, options: chosen.clone(), ..MountOptions::default() };
        let (volume, path) = mounted(&medium, &options);
        let boxed = Box::new(medium.clone());
        let device = if volatile { Ram::volatile(boxed) } else { Ram::new(boxed) };
        let node = Node::new(Box::new(volume), vec![Box::new(device)], 1);
        Drive { medium, node, now: 0, model, path, chosen }
    }

    fn new(volatile: bool) -> Drive {
        Drive::with(volatile, false)
    }

    fn with(volatile: bool, checkpoints: bool) -> Drive {
        let medium = CutMedium::new(made(DEVICE));
        Drive::mount_with(medium, (volatile, checkpoints), Model::new())
    }

    /// With these of its options: `LITERAL` and `COMPACT`.
    fn of_forms(volatile: bool, (literal, compact): (bool, bool), checkpoints: bool) -> Drive {
        let chosen = choices(checkpoints).with(&LITERAL, literal).with(&COMPACT, compact);
        Drive::mount_as(CutMedium::new(made(DEVICE)), volatile, Model::new(), chosen)
    }

    fn stat(&self, name: &str) -> f64 {
        let stats = self.node.layer.status().stats();
        stats.iter().find(|(one, _)| *one == name).expect("it counts").1
    }

    fn run(&mut self, io: Io) -> Outcome {
        let outcome = self.node.run(&mut self.now, io);
        self.node.layer.status().check();
        outcome
    }

    fn write(&mut self, at: BlockNr, count: u32, version: u64) -> Result<(), IoError> {
        self.run(Io::write(0, at, Data::stamp(count, at, version)))?;
        self.model.extend((at..at + u64::from(count)).map(|at| (at, stamp(at, version))));
        Ok(())
    }

    fn trim(&mut self, at: BlockNr, count: u32) {
        self.run(Io::trim(0, at, count)).expect("a trim needs little room");
        self.model.retain(|block, _| !(at..at + u64::from(count)).contains(block));
    }

    fn flush(&mut self) {
        self.run(Io::flush(0)).expect("it flushes");
    }

    fn verify(&mut self, around: &[BlockNr]) {
        let all: Vec<BlockNr> = self.model.keys().chain(around).copied().collect();
        for at in all {
            let found = self.run(Io::read(0, at, 1)).expect("it can be read").to_bytes();
            let zeros = Data::zeros(1).to_bytes();
            let wanted = self.model.get(&at).unwrap_or(&zeros);
            assert!(found == wanted, "address {at:#x}");
        }
    }

    /// A check of the device as it is finds nothing wrong.
    fn is_whole(&self) {
        is_whole(&self.medium);
    }

    /// Mounts anew, after a clean shutdown or without one.
    fn again(mut self, volatile: bool, clean: bool) -> Drive {
        if clean {
            self.node.finish(&mut self.now);
        } else if volatile {
            self.flush();
        }
        let contents = CutMedium::new(self.medium.contents());
        let drive = Drive::mount_as(contents, volatile, self.model, self.chosen);
        let by_tail = drive.path == MountPath::Tail;
        assert!(by_tail || !clean, "a clean shutdown leaves a tail record");
        drive
    }
}

impl Drive {
    /// Mounts the medium as it is, whatever was done to it, on a device that works.
    fn again_as_it_is(self, volatile: bool) -> Drive {
        Drive::mount(CutMedium::new(self.medium.contents()), volatile, self.model)
    }
}

fn is_whole(medium: &CutMedium) {
    for checkpoints in [false, true] {
        let options = MountOptions { read_only: true, ..options(false, checkpoints) };
        let (volume, _) = mounted(medium, &options);
        let mut medium = medium.clone();
        let report = check::check(&volume, &mut MediumDisk(&mut medium)).expect("it can be read");
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(BlockNr, u32),
    Trim(BlockNr, u32),
    Group(Vec<(BlockNr, Part)>),
    Flush,
    Pause,
    Again(bool),
}

/// What a transaction does with a block.
#[derive(Clone, Debug)]
enum Part {
    Write,
    Trim,
    /// All of its object from it on.
    Cut,
    Patch(usize, Vec<u8>),
}

fn part() -> impl Strategy<Value = Part> {
    let bytes = prop::collection::vec(any::<u8>(), 1..90);
    prop_oneof![
        3 => Just(Part::Write),
        1 => Just(Part::Trim),
        1 => Just(Part::Cut),
        6 => (0..4000_usize, bytes).prop_map(|(at, bytes)| Part::Patch(at, bytes)),
    ]
}

/// The block, or the attributes of its object, whose bytes a patch changes.
fn patched(at: BlockNr, offset: usize, bytes: &[u8]) -> (BlockNr, usize, Vec<u8>) {
    match offset % 3 {
        0 => {
            let offset = offset % address::ATTRIBUTE_BYTES;
            let length = bytes.len().min(address::ATTRIBUTE_BYTES - offset);
            (address(address::split(at).0, address::ATTRIBUTES), offset, bytes[..length].to_vec())
        }
        _ => (at, offset, bytes.to_vec()),
    }
}

fn at() -> impl Strategy<Value = BlockNr> {
    let object = prop_oneof![0..4_u32, Just(17), Just(127), Just(128), Just(200)];
    let within = prop_oneof![0..14_u32, 500..540_u32, 524 + 512 * 3..524 + 512 * 3 + 4_u32];
    (object, within).prop_map(|(object, within)| address(object, within))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (at(), prop_oneof![1..4_u32, 1..130_u32]).prop_map(|(at, n)| Step::Write(at, n)),
        2 => (at(), prop_oneof![1..40_u32, Just(2000)]).prop_map(|(at, n)| Step::Trim(at, n)),
        2 => prop::collection::vec((at(), part()), 1..12).prop_map(Step::Group),
        1 => Just(Step::Flush),
        1 => Just(Step::Pause),
        1 => any::<bool>().prop_map(Step::Again),
    ]
}

fn play(drive: &mut Drive, version: u64, step: &Step, seen: &mut Vec<BlockNr>) {
    match step {
        Step::Write(at, count) => match drive.write(*at, *count, version) {
            Ok(()) | Err(IoError::NoSpace) => seen.push(*at),
            Err(error) => panic!("{error}"),
        },
        Step::Trim(at, count) => drive.trim(*at, *count),
        Step::Group(all) => {
            let mut group = Transaction::new();
            let mut model = drive.model.clone();
            expect(step, version, &mut model);
            for (at, part) in all {
                let end = address(address::split(*at).0 + 1, 0);
                match part {
                    Part::Write => group.write(*at, &Data::stamp(1, *at, version)),
                    Part::Trim => group.trim(*at, 1),
                    Part::Cut => group.cut(*at..end),
                    Part::Patch(offset, bytes) => {
                        let (at, offset, bytes) = patched(*at, *offset, bytes);
                        group.patch(at, offset, &bytes);
                    }
                }
            }
            seen.extend(model.keys());
            match drive.node.run_transaction(&mut drive.now, group).expect("it has them") {
                Ok(_) => drive.model = model,
                Err(error) => assert_eq!(error, IoError::NoSpace),
            }
        }
        Step::Flush => drive.flush(),
        Step::Pause => drive.node.idle(&mut drive.now, 5 * SECONDS),
        Step::Again(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn requests_are_served_as_by_a_plain_map(
        steps in prop::collection::vec(step(), 1..60),
        volatile in any::<bool>(),
        forms in any::<(bool, bool)>(),
        checkpoints in any::<bool>(),
    ) {
        let (mut drive, mut seen) = (Drive::of_forms(volatile, forms, checkpoints), Vec::new());
        for (version, step) in (1..).zip(&steps) {
            play(&mut drive, version, step, &mut seen);
            if let Step::Again(clean) = *step {
                drive = drive.again(volatile, clean);
                drive.is_whole();
            }
            drive.verify(&seen[seen.len().saturating_sub(3)..]);
        }
        drive = drive.again(volatile, true);
        prop_assert!(!forms.1 || drive.stat("patch_bytes") == 0.0);
        drive.verify(&seen);
        drive.is_whole();
    }

    /// Power cuts of a device with a volatile cache: what was flushed is there, and what was not is
    /// there up to a commit, for all blocks together.
    #[test]
    fn a_power_cut_leaves_what_some_commit_said(
        steps in prop::collection::vec(step(), 1..40),
        dies in 1..400_u64,
        fates in any::<u64>(),
        forms in any::<(bool, bool)>(),
        checkpoints in any::<bool>(),
    ) {
        let (mut drive, mut seen) = (Drive::of_forms(true, forms, checkpoints), Vec::new());
        drive.medium.die_after(dies);
        // What each step left behind, from the last flush on.
        let mut since = vec![Model::new()];
        for (version, step) in (1..).zip(&steps) {
            let before = drive.model.clone();
            let survived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                play(&mut drive, version, step, &mut seen);
            }));
            let dead = survived.is_err() || drive.node.layer.failed().is_some();
            if dead {
                // The last step may have taken hold, or parts of it.
                let mut after = before.clone();
                expect(step, version, &mut after);
                since.push(after);
                break;
            }
            if matches!(step, Step::Flush) {
                since.clear();
            }
            since.push(drive.model.clone());
        }
        let fate = |number: usize| match fates >> (number % 60) & 3 {
            0 => Fate::Lost,
            _ => Fate::Kept,
        };
        let medium = CutMedium::new(drive.medium.cut(fate));
        is_whole(&medium);
        let mut left = Drive::mount_with(medium, (true, checkpoints), Model::new());
        left.is_whole();
        // What it takes for free is free: nothing that is written now harms anything else.
        left.node.idle(&mut left.now, 20 * SECONDS);
        for within in 0..60 {
            left.write(address(90, within * 3), 1, 5000).expect("room");
        }
        left.verify(&[]);
        let mut left = left.again(true, false);
        left.is_whole();
        let all: std::collections::BTreeSet<BlockNr> =
            since.iter().flat_map(|model| model.keys().copied()).chain(seen).collect();
        for &at in &all {
            let found = left.run(Io::read(0, at, 1)).expect("it can be read").block(0).to_bytes();
            let may = |model: &Model| match model.get(&at) {
                Some(bytes) => found == *bytes,
                None => found.iter().all(|&byte| byte == 0),
            };
            prop_assert!(since.iter().any(may), "address {at:#x} holds what no step left there");
        }
    }
}

/// What a step does to a model.
fn expect(step: &Step, version: u64, model: &mut Model) {
    match step {
        Step::Write(at, count) => {
            model.extend((*at..at + u64::from(*count)).map(|at| (at, stamp(at, version))));
        }
        Step::Trim(at, count) => {
            model.retain(|block, _| !(*at..at + u64::from(*count)).contains(block));
        }
        Step::Group(all) => {
            for (at, part) in all {
                let end = address(address::split(*at).0 + 1, 0);
                match part {
                    Part::Write => drop(model.insert(*at, stamp(*at, version))),
                    Part::Trim => drop(model.remove(at)),
                    Part::Cut => model.retain(|block, _| !(*at..end).contains(block)),
                    Part::Patch(offset, bytes) => {
                        let (at, offset, bytes) = patched(*at, *offset, bytes);
                        let old = model.remove(&at).unwrap_or_else(|| Data::zeros(1).to_bytes());
                        let mut block = old.to_vec();
                        block[offset..offset + bytes.len()].copy_from_slice(&bytes);
                        model.insert(at, block.into());
                    }
                }
            }
        }
        Step::Flush | Step::Pause | Step::Again(_) => {}
    }
}

#[test]
fn a_small_durable_write_takes_two_blocks() {
    let mut drive = Drive::new(false);
    drive.write(address(5, 0), 40, 1).expect("room");
    let written = |drive: &Drive| {
        let stats = drive.node.layer.status().stats();
        stats.iter().find(|(name, _)| *name == "device_blocks_written").expect("it counts").1
    };
    let before = written(&drive);
    for (version, within) in (2..).zip(0..20) {
        drive.write(address(5, within), 1, version).expect("room");
    }
    assert_eq!(written(&drive) - before, 40.0, "data and a map block each");
    drive.verify(&[]);
}

#[test]
fn a_full_drive_says_so_and_goes_on() {
    for volatile in [false, true] {
        let mut drive = Drive::new(volatile);
        let mut written = 0;
        let full = loop {
            match drive.write(address(7, written), 1, 1) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full, IoError::NoSpace);
        assert!(written > 1000, "{written} blocks of {DEVICE}");
        drive.verify(&[]);
        // What is removed has room again.
        drive.trim(address(7, 0), written / 2);
        for within in 0..written / 2 - 100 {
            drive.write(address(8, within), 1, 2).unwrap_or_else(|error| {
                panic!("{error}: block {within} of {} that were freed", written / 2)
            });
        }
        drive.verify(&[]);
        let drive = drive.again(volatile, true);
        drive.is_whole();
    }
}

#[test]
fn what_no_pointer_reaches_is_refused() {
    let mut drive = Drive::new(true);
    let behind = address(3, address::MOST_BLOCKS);
    let refused = Err(IoError::OutOfRange { at: behind, count: 1 });
    assert_eq!(drive.run(Io::write(0, behind, Data::stamp(1, 1, 1))), refused);
    assert_eq!(drive.run(Io::read(0, behind, 1)), refused);
    let beyond = address(3, address::MOST_BLOCKS - 1);
    drive.write(beyond, 1, 1).expect("room");
    drive.verify(&[]);
}

/// A drive with several objects, some of them spilled, after a clean shutdown.
fn used() -> (Cells, Model) {
    let mut drive = Drive::new(true);
    for (version, object) in (1..).zip([0, 1, 17, 130]) {
        for within in [0, 5, 11, 12, 30, 600, 700_000] {
            drive.write(address(object, within), 2, version).expect("room");
        }
        drive.flush();
    }
    for version in 10..300 {
        drive.write(address(1, version as u32 % 250 * 2), 1, version).expect("room");
        if version % 20 == 0 {
            drive.flush();
        }
    }
    drive.node.finish(&mut drive.now);
    (drive.medium.contents(), drive.model)
}

/// What a mount for reading shows of a damaged image: each block is as `may_be` says, or an error.
fn shows(cells: &Cells, model: &Model, may_be: impl Fn(BlockNr, &[u8]) -> bool) -> (usize, usize) {
    let mut medium = CutMedium::new(cells.clone());
    let Ok(superblock) = Superblock::read(&mut MediumDisk(&mut medium), &Ok) else {
        return (0, model.len());
    };
    let options = MountOptions { read_only: true, volatile: true, ..MountOptions::default() };
    let mut steps = RecoverySteps::new(None);
    let mounted = recover::mount(&mut MediumDisk(&mut medium), &superblock, &options, &mut steps);
    let Ok(volume) = mounted else { return (0, model.len()) };
    let problems = check::check(&volume, &mut MediumDisk(&mut medium)).expect("memory").problems;
    let devices: Vec<Box<dyn Device>> = vec![Box::new(Ram::volatile(Box::new(medium.clone())))];
    let (mut node, mut now) = (Node::new(Box::new(volume), devices, 1), 0);
    let (mut right, mut lost) = (0, 0);
    for &at in model.keys() {
        match node.run(&mut now, Io::read(0, at, 1)) {
            Ok(data) => {
                assert!(may_be(at, &data.to_bytes()), "address {at:#x} reads as something else");
                right += 1;
            }
            Err(_) => lost += 1,
        }
    }
    assert!(lost == 0 || !problems.is_empty(), "a check names what is lost");
    (right, lost)
}

#[test]
fn a_block_of_wrong_bytes_takes_no_more_than_it_leads_to() {
    let (cells, model) = used();
    let is_right = |at: BlockNr, found: &[u8]| model[&at] == found;
    assert_eq!(shows(&cells, &model, is_right), (model.len(), 0));
    let (mut unmountable, mut partly) = (0, 0);
    for place in Areas::new(3, DEVICE).end()..DEVICE - 1 {
        let mut damaged = cells.clone();
        let block = damaged.read(place, 1);
        let mut bytes = block.expect("memory").to_bytes().to_vec();
        bytes[100] ^= 0x20;
        damaged.set(place, Body::Bytes(bytes.into()));
        let (right, lost) = shows(&damaged, &model, is_right);
        assert_eq!(right + lost, model.len());
        unmountable += u32::from(right == 0);
        partly += u32::from(right > 0 && lost > 0);
    }
    // The newest map block of each slice, of which there are two.
    assert!(unmountable <= 2, "{unmountable} blocks");
    // Content, and what leads to it.
    assert!(partly as usize >= model.len(), "{partly} blocks for {}", model.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    /// Where much is damaged, all that tells of the last commits may be gone. What a block held
    /// before is the worst that is read then.
    fn no_damage_makes_a_mount_panic_or_a_block_foreign(
        hits in prop::collection::vec((1..DEVICE - 1, 0..4096_usize, 1..=255_u8), 1..60),
    ) {
        static USED: OnceLock<(Cells, Model)> = OnceLock::new();
        let (cells, model) = USED.get_or_init(used);
        let mut damaged = cells.clone();
        for (place, at, flip) in hits {
            // Most hits are where something lies.
            let place = if at % 4 == 0 { place } else { 1 + place % 200 };
            let block = damaged.read(place, 1);
            let mut bytes = block.expect("memory").to_bytes().to_vec();
            bytes[at] ^= flip;
            damaged.set(place, Body::Bytes(bytes.into()));
        }
        let held_once = |at: BlockNr, found: &[u8]| {
            found.iter().all(|&byte| byte == 0) || (1..300).any(|one| stamp(at, one) == found)
        };
        shows(&damaged, model, held_once);
        let mut medium = CutMedium::new(damaged);
        let superblock = superblock(&mut medium);
        let options = MountOptions { volatile: true, ..MountOptions::default() };
        let mut steps = RecoverySteps::new(None);
        // For writing it is an error, or right.
        let _ = recover::mount(&mut MediumDisk(&mut medium), &superblock, &options, &mut steps);
    }
}

/// A transaction needs two slices spilled, and a block of the second one has to be read first: what
/// the first one's spill has written goes out all the same.
#[test]
fn a_spill_is_written_though_the_change_behind_it_waits() {
    let mut drive = Drive::new(false);
    let far = |index: u32| 20 + 2 * index;
    for object in [0, 200] {
        // Inodes and indirect blocks, then patches that nearly fill the map block.
        for index in 0..400 {
            drive.write(address(object, far(index % 200)), 1, u64::from(index) + 1).expect("room");
        }
    }
    let mut spilled = 0;
    for round in 0..200 {
        drive = drive.again(false, true);
        let mut group = Transaction::new();
        for object in [0, 200] {
            for index in 0..40 {
                let at = address(object, far((round * 7 + index * 3) % 200));
                group.write(at, &Data::stamp(1, at, 1000 + u64::from(round)));
                drive.model.insert(at, stamp(at, 1000 + u64::from(round)));
            }
        }
        // Within the blocks of one transaction.
        let done = drive.node.run_transaction(&mut drive.now, group);
        let Ok(done) = done else { panic!("{done:?}") };
        done.expect("room");
        let stats = drive.node.layer.status().stats();
        spilled += u64::from(stats.iter().any(|(name, value)| *name == "spills" && *value >= 2.0));
        drive.verify(&[]);
        drive.is_whole();
    }
    assert!(spilled > 0, "no transaction spills both");
}
