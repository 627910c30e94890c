//! Members change while clients are busy: one is being filled, one fails, and the power is cut.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::seen::{Seen, cut, start, with_disks};
use seekless_arrays::member::{MemberState, MemberSuperblock};
use seekless_arrays::scrub::scrub;
use seekless_arrays::{AssembleOptions, CreateArray, Level, assemble, create, replace};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::Io;
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;

const MEMBERS: usize = 3;
/// So large that four stripes are a step of a rebuild, and a client's writes come between steps.
const CHUNK: u32 = 64;
const STRIPES: u64 = 32;
const WHOLE: u32 = 2 * CHUNK;
/// Power cuts after each event while a stripe is filled and no superblock says so.
const CUTS: u64 = 30;
const REPLACED: usize = 1;

/// Members that hold the first version of everything, one of them new and still empty.
fn replaced() -> Vec<Cells> {
    let chunk = u64::from(CHUNK);
    let device = 4 + 2 * (1 + MEMBERS as u64 * chunk) + 2 + STRIPES * chunk;
    let mut media = vec![Cells::new(device); MEMBERS];
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    let shape = CreateArray { level: Level::Raid5, chunk: CHUNK, id: 5, blank: true };
    create(&mut disks, &shape).expect("it fits");
    let (mut node, devices) = start(&mut media, 0);
    let mut now = 0;
    for stripe in 0..STRIPES {
        let first = stripe * u64::from(WHOLE);
        node.run(&mut now, Io::write(1, first, content(first, 1))).expect("it is written");
    }
    node.finish(&mut now);
    let mut media: Vec<Cells> = devices.iter().map(|one| one.0.lend().durable().clone()).collect();
    let mut fresh = Cells::new(device);
    with_disks(&mut media, |disks| {
        replace(disks, REPLACED, &mut MediumDisk(&mut fresh)).expect("the others are there");
    });
    media[REPLACED] = fresh;
    media
}

/// What is written to a stripe. Its chunks differ: stamps are linear, and in the parity of equal
/// versions nothing of them would be left.
fn content(first: u64, version: u64) -> Data {
    let mut data = Data::stamp(CHUNK, first, version);
    data.append(Data::stamp(CHUNK, first + u64::from(CHUNK), 1000 + version));
    data
}

/// True if all blocks of a stripe have a version that was written there.
fn is_right(media: &mut [Cells], first: u64, last: u64) -> bool {
    let (mut node, _) = start(media, 0);
    let data = node.run(&mut 0, Io::read(1, first, WHOLE)).expect("it is readable");
    (0..WHOLE).all(|at| {
        let found = data.slice(at, 1);
        (1..=last).any(|version| found == content(first, version).slice(at, 1))
    })
}

/// Stripes that are filled, as far as the array knows.
fn rebuilt(node: &Node) -> u64 {
    let stats = node.layer.status().stats();
    let found = stats.iter().find(|(name, _)| *name == "array_rebuilt_stripes");
    found.map_or(0, |&(_, value)| value as u64)
}

/// Stripes that are filled, as a member that loses its power now knows.
fn noted(device: &Seen) -> u64 {
    let mut medium = device.0.lend().durable().clone();
    let superblock = MemberSuperblock::read(&mut MediumDisk(&mut medium)).expect("a member");
    superblock.rebuilt
}

/// What is filled counts from when the superblocks say so: until then a crash takes it back, and
/// with it what whole stripes that were being written would be computed from.
#[test]
fn a_stripe_cut_off_during_a_rebuild_is_old_or_new() {
    let media = replaced();
    let mut tried = 0;
    for seed in 0..4 {
        let mut rng = Rng::stream(seed, "subsets");
        let (mut node, devices) = start(&mut media.clone(), seed);
        let (mut now, mut answers) = (0, Vec::new());
        for version in 2..40 {
            // What has been filled last; marks are set ahead of it.
            let filled = rebuilt(&node);
            let stripe = if filled == 0 { STRIPES - 1 } else { filled - 1 - rng.below(2) };
            let first = stripe * u64::from(WHOLE);
            node.submit(now, Io::write(version, first, content(first, version)));
            node.settle(now, &mut answers);
            while answers.is_empty() {
                let unnoted = noted(&devices[0]) <= stripe && stripe < rebuilt(&node);
                for _ in 0..if unnoted { CUTS } else { 0 } {
                    let mut media = cut(&devices, &mut rng);
                    let right = is_right(&mut media, first, version);
                    assert!(right, "seed {seed}: stripe {stripe} is mixed in version {version}");
                    tried += 1;
                }
                now = node.next_event().expect("the write is under way").max(now);
                node.settle(now, &mut answers);
            }
            answers.clear();
        }
    }
    assert!(tried > 1000, "{tried}");
}

/// Behind a write that waits for a stripe a read waits to be computed, because its member is being
/// filled. When it is its turn that member is filled, and another one has just gone out.
#[test]
fn a_read_that_waited_while_its_member_was_filled_is_answered() {
    let media = replaced();
    let mut gone = 0;
    for seed in 0..60 {
        let mut rng = Rng::stream(seed, "failures");
        let (mut node, devices) = start(&mut media.clone(), seed);
        let (mut now, mut answers) = (0, Vec::new());
        while rebuilt(&node) == 0 {
            node.settle(now, &mut answers);
            now = node.next_event().expect("the rebuild is under way").max(now);
        }
        // The stripes of the last steps are being filled.
        let stripes = STRIPES - 4..STRIPES;
        for stripe in stripes.clone() {
            let first = stripe * u64::from(WHOLE);
            let changed = content(first, 2).slice(0, 1);
            node.submit(now, Io::write(2 * stripe, first, changed));
            node.submit(now, Io::read(2 * stripe + 1, first, WHOLE));
        }
        devices[0].0.lend().faults_mut().fail_write_after(rng.below(10), false);
        while answers.len() < 2 * stripes.clone().count() {
            node.settle(now, &mut answers);
            now = node.next_event().map_or(now, |next| next.max(now));
        }
        for read in answers.iter().filter(|answer| answer.tag % 2 == 1) {
            let first = (read.tag / 2) * u64::from(WHOLE);
            let data = read.outcome.clone().expect("members that are there suffice");
            let expected = |version| content(first, version);
            assert!(
                [1, 2].map(|version| expected(version).slice(0, 1)).contains(&data.slice(0, 1))
            );
            assert_eq!(data.slice(1, WHOLE - 1), expected(1).slice(1, WHOLE - 1), "seed {seed}");
        }
        node.finish(&mut now);
        let mut medium = devices[1].0.lend().durable().clone();
        let superblock = MemberSuperblock::read(&mut MediumDisk(&mut medium)).expect("a member");
        gone += u32::from(superblock.states[0] == MemberState::Out);
    }
    assert!(gone > 5, "a member went out {gone} times");
}

/// Blocks of each member of the array whose member fails.
const SMALL: u64 = 40;
/// Power cuts after each event while a flush of one member fails.
const FAILING_CUTS: u64 = 10;

/// Recovers media; the stripes whose parity does not fit, if all members are part of the array.
fn recovered_wrong(media: &mut [Cells]) -> Option<Vec<u64>> {
    let options = AssembleOptions { volatile: true, ..AssembleOptions::default() };
    let found = with_disks(media, |disks| assemble(disks, &options)).expect("all are there");
    let superblock = found.array.superblock().clone();
    if superblock.states.iter().any(|&one| one != MemberState::Active) {
        return None;
    }
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    Some(scrub(&mut disks, &superblock, None, &mut |_| {}).expect("all are active").mismatched)
}

/// A member that fails a flush has lost what it was to cover, while the others have not. Until all
/// of them know that it is out, a crash makes it a member again, and only the log tells what it
/// has missed.
#[test]
fn what_a_failed_flush_was_to_cover_is_recovered_from_the_log() {
    let mut media = vec![Cells::new(SMALL); MEMBERS];
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    let shape = CreateArray { level: Level::Raid5, chunk: 1, id: 5, blank: true };
    create(&mut disks, &shape).expect("it fits");
    let mut tried = 0;
    for seed in 0..100 {
        let mut rng = Rng::stream(seed, "subsets");
        let (mut node, devices) = start(&mut media.clone(), seed);
        let (mut now, mut answers) = (0, Vec::new());
        let blocks = node.layer.blocks();
        // Each write has a version of its own, so that parity of old and new ones never fits.
        for version in 1..6 {
            let at = rng.below(blocks);
            let io = Io::write(version, at, Data::stamp(1, at, version));
            node.run(&mut now, io).expect("it is written");
        }
        let fails = rng.below(MEMBERS as u64) as usize;
        devices[fails].0.lend().faults_mut().fail_flush_after(0);
        node.submit(now, Io::flush(6));
        for version in 7..12 {
            let at = rng.below(blocks);
            node.submit(now, Io::write(version, at, Data::stamp(1, at, version)));
        }
        node.settle(now, &mut answers);
        while answers.len() < 6 {
            for _ in 0..FAILING_CUTS {
                let mut left = cut(&devices, &mut rng);
                let Some(wrong) = recovered_wrong(&mut left) else { continue };
                assert!(wrong.is_empty(), "seed {seed}, {now} ns: stripes {wrong:?} do not fit");
                tried += 1;
            }
            now = node.next_event().expect("something is under way").max(now);
            node.settle(now, &mut answers);
        }
    }
    assert!(tried > 1000, "{tried}");
}
