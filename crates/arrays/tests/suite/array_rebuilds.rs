//! Members are filled though no client asks for anything, however often the power is cut.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::members::{STRIPES, filled, fresh, is_whole, newest, on_medium};
use crate::seen::{Seen, cut, start, start_on, with_disks};
use seekless_arrays::member::MemberState;
use seekless_arrays::scrub::scrub;
use seekless_arrays::{AssembleOptions, Level, VolumeError, assemble, replace};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::Io;
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::{SECONDS, Time};

/// Two stripes are a step of a rebuild.
const CHUNK: u32 = 128;
const REPLACED: usize = 1;
const SHAPES: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid5, 3), (Level::Raid5, 4)];
/// Subsets of the unflushed writes that are tried after each event.
const CUTS: u64 = 3;

fn put_in(media: &mut [Cells], member: usize, new: Cells) {
    let mut new = new;
    with_disks(media, |disks| {
        disks[member] = None;
        replace(disks, member, &mut MediumDisk(&mut new)).expect("the others are there");
    });
    media[member] = new;
}

/// Members full of data, one of them new and still empty.
fn replaced(level: Level, members: usize) -> Vec<Cells> {
    let mut media = filled(level, members, CHUNK);
    put_in(&mut media, REPLACED, fresh(level, members, CHUNK));
    media
}

fn holds(node: &mut Node) {
    let blocks = node.layer.blocks() as u32;
    let data = node.run(&mut 0, Io::read(1, 0, blocks)).expect("it is readable");
    assert_eq!(data, Data::stamp(blocks, 0, 1));
}

/// Without each of the other members the array holds what was written, or is refused for lack of
/// members, which it must not be once the members that are left say that it is whole.
fn does_without_others(media: &[Cells]) {
    for gone in (0..media.len()).filter(|&member| member != REPLACED) {
        let mut media = media.to_vec();
        let left = [&media[..gone], &media[gone + 1..]].concat();
        let whole = is_whole(&left);
        let options =
            AssembleOptions { volatile: true, degraded: true, ..AssembleOptions::default() };
        let found = with_disks(&mut media, |disks| {
            disks[gone] = None;
            assemble(disks, &options)
        });
        match found {
            Ok(found) => {
                let boxed = |medium: &Cells| {
                    let medium = Box::new(medium.clone());
                    Box::new(seekless_engine::device::ram::Ram::volatile(medium)) as Box<_>
                };
                let devices = media.iter().map(boxed).collect();
                holds(&mut Node::new(Box::new(found.array), devices, 1));
            }
            Err(VolumeError::TooFew { .. }) => assert!(!whole, "member {gone}"),
            Err(error) => panic!("without member {gone}: {error}"),
        }
    }
}

/// Lets the array be for a while, with no client; its members say at its end that it is whole.
fn comes_to_its_end(media: &mut [Cells], volatile: bool) -> Vec<Cells> {
    let (mut node, devices) = start_on(media, 1, volatile);
    node.idle(&mut 0, 60 * SECONDS);
    let media = on_medium(&devices);
    assert!(is_whole(&media), "{:?}", newest(&media));
    media
}

fn scrubs(media: &mut [Cells]) {
    let superblock = newest(media);
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    let found = scrub(&mut disks, &superblock, None, &mut |_| {}).expect("all are active");
    assert!(found.mismatched.is_empty(), "{:?}", found.mismatched);
}

#[test]
fn a_rebuild_ends_without_clients() {
    for (level, members) in SHAPES {
        for volatile in [true, false] {
            let mut media = comes_to_its_end(&mut replaced(level, members), volatile);
            does_without_others(&media);
            scrubs(&mut media);
        }
    }
}

/// Calls `look` with the devices before each event until the array is whole.
fn step_by_step(media: &mut [Cells], seed: u64, mut look: impl FnMut(&[Seen], Time)) {
    let (mut node, devices) = start(media, seed);
    let (mut now, mut none) = (0, Vec::new());
    while !is_whole(&on_medium(&devices)) {
        node.settle(now, &mut none);
        look(&devices, now);
        now = node.next_event().expect("the rebuild goes on").max(now);
    }
}

#[test]
fn an_idle_rebuild_survives_power_cuts() {
    let mut cuts = 0;
    for (seed, (level, members)) in (0..).zip(SHAPES) {
        let mut rng = Rng::stream(seed, "subsets");
        step_by_step(&mut replaced(level, members), seed, |devices, _| {
            for _ in 0..CUTS {
                let mut media = cut(devices, &mut rng);
                does_without_others(&media);
                let (mut node, _) = start(&mut media, seed);
                holds(&mut node);
                let media = comes_to_its_end(&mut media, true);
                does_without_others(&media);
                cuts += 1;
            }
        });
    }
    assert!(cuts > 500, "{cuts}");
}

/// A clean shutdown may come at any moment; in it, too, the power may be cut.
#[test]
fn an_idle_rebuild_goes_on_after_any_orderly_end() {
    for (seed, (level, members)) in (0..).zip(SHAPES) {
        let mut rng = Rng::stream(seed, "subsets");
        let start_at = replaced(level, members);
        let mut moments = Vec::new();
        step_by_step(&mut start_at.clone(), seed, |_, now| moments.push(now));
        for moment in moments {
            let (mut node, devices) = start(&mut start_at.clone(), seed);
            let mut now = 0;
            node.idle(&mut now, moment);
            node.stop(now);
            let mut none = Vec::new();
            node.settle(now, &mut none);
            while !node.stopped() {
                now = node.next_event().expect("the end is under way").max(now);
                node.settle(now, &mut none);
                if rng.chance(0.1) {
                    does_without_others(&cut(&devices, &mut rng));
                }
            }
            let mut media = on_medium(&devices);
            let superblock = newest(&media);
            assert!(superblock.clean);
            assert_eq!(superblock.rebuilt == STRIPES, is_whole(&media), "{superblock:?}");
            does_without_others(&media);
            let (mut node, _) = start(&mut media, seed);
            holds(&mut node);
            comes_to_its_end(&mut media, true);
        }
    }
}

/// Earlier versions left a member behind that was filled to its end and did not count. It does as
/// soon as the array is assembled, even if another one is lost by then.
#[test]
fn a_member_that_was_filled_and_did_not_count_does() {
    for (level, members) in SHAPES {
        let mut media = comes_to_its_end(&mut replaced(level, members), true);
        let mut stuck = newest(&media);
        stuck.states[REPLACED] = MemberState::Rebuilding;
        (stuck.clean, stuck.rebuilt) = (true, STRIPES);
        for (member, medium) in media.iter_mut().enumerate() {
            for _ in 0..2 {
                stuck.events += 1;
                stuck.write(&mut MediumDisk(medium), member).expect("it is written");
            }
            stuck.events -= 2;
        }
        does_without_others(&media);
        let (mut node, _) = start(&mut media, 1);
        holds(&mut node);
        // The superblocks themselves say so then: the byte of the state is 0.
        for medium in &mut media {
            let slot = newest(std::slice::from_ref(medium)).slot();
            let block = MediumDisk(medium).read(slot, 1).expect("it is there").to_bytes();
            assert_eq!(block[96 + REPLACED], MemberState::Active as u8);
        }
    }
}

#[test]
fn two_members_are_filled_one_after_the_other() {
    let mut media = replaced(Level::Raid1, 3);
    let new = fresh(Level::Raid1, 3, CHUNK);
    // The first one was not filled yet: a copy of the last one that is left is what there is.
    let mut media = comes_to_its_end(&mut media, true);
    put_in(&mut media, 0, new.clone());
    let mut media = comes_to_its_end(&mut media, true);
    put_in(&mut media, 2, new);
    let mut media = comes_to_its_end(&mut media, true);
    does_without_others(&media);
    scrubs(&mut media);
}
