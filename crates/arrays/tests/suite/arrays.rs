//! Arrays against a flat model: contents with members failing, and what is asked of the members.
#![allow(clippy::disallowed_types, missing_docs)]

use crate::support::Shared;
use proptest::prelude::*;
use seekless_arrays::member::{MemberState, MemberSuperblock};
use seekless_arrays::scrub::scrub;
use seekless_arrays::{
    Array, AssembleOptions, Assembled, CreateArray, Level, VolumeError, assemble, create, replace,
};
use seekless_crash::device::faulty::{Control, Faults};
use seekless_crash::device::volatile::{Latency, VolatileRam};
use seekless_crash::faults::{Blocks, Plan};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::Io;
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::SECONDS;

/// An array of media that can be looked at, and pulled out.
struct World {
    media: Vec<Shared>,
    controls: Vec<Control>,
    node: Node,
    now: u64,
}

fn media(level: Level, members: usize, chunk: u32, stripes: u64) -> Vec<Shared> {
    let log =
        if level == Level::Raid5 { 2 * (1 + members as u64 * u64::from(chunk)) + 2 } else { 0 };
    let device = 4 + log + stripes * u64::from(chunk);
    let media: Vec<Shared> = (0..members).map(|_| Shared::new(Cells::new(device))).collect();
    let mut handles = media.clone();
    let mut plain: Vec<_> = handles.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
    create(&mut disks, &CreateArray { level, chunk, id: 5, blank: true }).expect("fits");
    media
}

/// Media with the same content.
fn copies(media: &[Shared]) -> Vec<Shared> {
    media.iter().map(|one| Shared::new(one.with(|cells| cells.clone()))).collect()
}

/// The media as disks, without those that are pulled out.
fn with_disks<T>(
    media: &[Shared],
    pulled: &[usize],
    act: impl FnOnce(&mut [Option<&mut dyn Disk>]) -> T,
) -> T {
    let mut media = media.to_vec();
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let here = |(index, disk)| (!pulled.contains(&index)).then_some(disk as &mut dyn Disk);
    let mut disks: Vec<_> = plain.iter_mut().enumerate().map(here).collect();
    act(&mut disks)
}

fn find(media: &[Shared], pulled: &[usize], degraded: bool) -> Result<Assembled, VolumeError> {
    let options = AssembleOptions { degraded, volatile: true, ..AssembleOptions::default() };
    with_disks(media, pulled, |disks| assemble(disks, &options))
}

impl World {
    fn new(media: Vec<Shared>, array: Array) -> World {
        let device = |medium: &Shared| {
            let ram = Ram::volatile(Box::new(medium.clone()));
            Faults::new(Box::new(ram), Plan::default(), 1)
        };
        let (devices, controls): (Vec<Faults>, Vec<Control>) = media.iter().map(device).unzip();
        let devices = devices.into_iter().map(|one| Box::new(one) as Box<dyn Device>).collect();
        let node = Node::new(Box::new(array), devices, 3);
        World { media, controls, node, now: 0 }
    }

    fn fresh(level: Level, members: usize, chunk: u32, stripes: u64) -> World {
        let media = media(level, members, chunk, stripes);
        let array = find(&media, &[], false).expect("just made").array;
        World::new(media, array)
    }

    fn run(&mut self, io: Io) -> Result<Data, seekless_engine::io::IoError> {
        self.node.run(&mut self.now, io)
    }

    fn check(&mut self, model: &[u64]) {
        let data = self.run(Io::read(9, 0, model.len() as u32)).expect("reads");
        for (block, &version) in model.iter().enumerate() {
            let expected = match version {
                0 => Data::zeros(1),
                version => Data::stamp(1, block as u64, version),
            };
            assert_eq!(data.slice(block as u32, 1), expected, "block {block}");
        }
    }

    fn scrub_finds(&self) -> usize {
        let mut media = self.media.clone();
        let superblock = MemberSuperblock::read(&mut MediumDisk(&mut media[0])).expect("a member");
        let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
        let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
        scrub(&mut disks, &superblock, None, &mut |_| {}).expect("scrubs").mismatched.len()
    }
}

fn all_shapes() -> Vec<(Level, usize)> {
    vec![
        (Level::Raid0, 2),
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid5, 3),
        (Level::Raid5, 4),
        (Level::Raid5, 5),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Writes and trims of all sizes, members failing in the middle, replaced and rebuilt: what is
    /// read is always what was written.
    #[test]
    fn an_array_holds_what_was_written(
        seed in any::<u64>(),
        shape in 0_usize..7,
        chunk in 1_u32..5,
    ) {
        let (level, members) = all_shapes()[shape];
        let mut rng = Rng::stream(seed, "arrays");
        let mut world = World::fresh(level, members, chunk, 24);
        let blocks = world.node.layer.blocks();
        let mut model = vec![0_u64; blocks as usize];
        for version in 1..120 {
            let at = rng.below(blocks);
            let most = if rng.chance(0.2) { blocks } else { 12 };
            let count = (1 + rng.below(most)).min(blocks - at);
            let range = at as usize..(at + count) as usize;
            if rng.chance(0.15) {
                world.run(Io::trim(1, at, count as u32)).expect("trims");
                model[range].fill(0);
            } else {
                let io = Io::write(1, at, Data::stamp(count as u32, at, version));
                world.run(if rng.chance(0.3) { io.with_fua() } else { io }).expect("writes");
                model[range].fill(version);
            }
            if rng.chance(0.1) {
                world.run(Io::flush(2)).expect("flushes");
            }
            if version == 40 && level.spare(members) > 0 {
                let victim = rng.below(members as u64) as usize;
                let next = world.controls[victim].writes() + 1;
                let plan = Plan { failing_write: Some(next), ..Plan::default() };
                world.controls[victim].set(plan);
            }
            if version % 20 == 0 {
                world.check(&model);
            }
            if version == 80 && level.spare(members) > 0 {
                world = replaced(world);
            }
        }
        world.node.idle(&mut world.now, SECONDS);
        world.check(&model);
        world.node.finish(&mut world.now);
        if level.spare(members) > 0 {
            prop_assert_eq!(world.scrub_finds(), 0);
            for lost in 0..members {
                let media = copies(&world.media);
                let array = find(&media, &[lost], true).expect("one less will do").array;
                World::new(media, array).check(&model);
            }
        }
    }
}

/// Ends in order, finds out who is out, and puts an empty medium there.
fn replaced(mut world: World) -> World {
    world.node.finish(&mut world.now);
    let superblocks = world.media.iter().map(|medium| {
        MemberSuperblock::read(&mut MediumDisk(&mut medium.clone())).expect("a member")
    });
    let newest = superblocks.max_by_key(|one| one.events).expect("members");
    let Some(out) = newest.states.iter().position(|&one| one != MemberState::Active) else {
        return world;
    };
    let mut media = world.media.clone();
    let blocks = media[out].with(|cells| cells.blocks());
    let mut fresh = Shared::new(Cells::new(blocks));
    with_disks(&media, &[out], |disks| {
        replace(disks, out, &mut MediumDisk(&mut fresh)).expect("replaces");
    });
    media[out] = fresh;
    let found = find(&media, &[], false).expect("all are there");
    assert_eq!(found.array.rebuilding(), Some((0, 24)));
    World::new(media, found.array)
}

#[test]
fn an_unreadable_block_is_computed_and_written_anew() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 4)] {
        let mut world = World::fresh(level, members, 4, 10);
        let blocks = world.node.layer.blocks();
        world.run(Io::write(1, 0, Data::stamp(blocks as u32, 0, 7))).expect("writes");
        let first = world.media[0].with(|cells| cells.blocks()) - 40;
        let unreadable = vec![Blocks { from: first, to: first + 40 }];
        world.controls[1].set(Plan { unreadable, ..Plan::default() });
        world.check(&vec![7; blocks as usize]);
        // Partial writes cope as well.
        world.run(Io::write(1, 5, Data::stamp(1, 5, 8))).expect("writes");
        let mut model = vec![7; blocks as usize];
        model[5] = 8;
        world.check(&model);
        let spoiled = world.controls[1].counts().unreadable;
        assert!(level == Level::Raid1 || spoiled > 0);
        world.controls[1].set(Plan::default());
        world.node.finish(&mut world.now);
        assert_eq!(world.scrub_finds(), 0, "{level}");
    }
}

#[test]
fn members_that_do_not_fit_are_named() {
    let media = media(Level::Raid5, 3, 2, 10);
    assert!(matches!(find(&media, &[1], false), Err(VolumeError::Degraded { missing: 1, .. })));
    assert!(matches!(find(&media, &[1, 2], true), Err(VolumeError::TooFew { missing: 2, .. })));
    let found = find(&media, &[1], true).expect("one less will do");
    assert_eq!(found.missing, [1]);
    // Since then it has missed something, and is not taken back.
    let again = find(&media, &[], false).expect("the others know");
    assert_eq!(again.missing, [1]);
    let other = self::media(Level::Raid5, 3, 1, 20);
    let mixed = vec![media[0].clone(), other[1].clone(), media[2].clone()];
    assert!(matches!(find(&mixed, &[], true), Err(VolumeError::Foreign { device: 2, .. })));
    let blank = vec![media[0].clone(), Shared::new(Cells::new(99)), media[2].clone()];
    assert!(matches!(find(&blank, &[], false), Err(VolumeError::NoMember)));
}

/// Put back from a copy made before the last mount, or within it: the others have an end or a start
/// more than it, though a crash came after.
#[test]
fn a_member_that_missed_a_mount_is_out_of_date() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        for ended in [false, true] {
            for within in [false, true].into_iter().filter(|&within| ended || !within) {
                let mut world = World::fresh(level, members, 2, 10);
                let write = |world: &mut World, version| {
                    world.run(Io::write(1, 0, Data::stamp(8, 0, version)).with_fua()).expect("ok");
                };
                write(&mut world, 1);
                world.node.finish(&mut world.now);
                let mut old = copies(&world.media);
                let array = find(&world.media, &[], false).expect("whole").array;
                let mut world = World::new(world.media, array);
                if within {
                    old = copies(&world.media);
                }
                write(&mut world, 2);
                if ended {
                    world.node.finish(&mut world.now);
                }
                for stale in 0..members {
                    let mut mixed = copies(&world.media);
                    mixed[stale] = copies(&old).swap_remove(stale);
                    let what = format!("{level}, {stale}, ended {ended}, within {within}");
                    let error = find(&mixed, &[], false).expect_err(&what);
                    assert!(matches!(error, VolumeError::Degraded { missing: 1, .. }), "{what}");
                    let found = find(&mixed, &[], true).expect("one less will do");
                    assert_eq!(found.missing, [stale], "{what}");
                    World::new(mixed, found.array).check(&[2; 8]);
                }
            }
        }
    }
}

#[test]
fn members_that_went_separate_ways_are_named() {
    let media = media(Level::Raid1, 2, 2, 10);
    for (alone, mounts) in [(0, 1), (1, 3)] {
        for mount in 0..mounts {
            let array = find(&media, &[1 - alone], true).expect("one will do").array;
            let mut world = World::new(media.clone(), array);
            world.run(Io::write(1, alone as u64, Data::stamp(1, 0, 1 + mount))).expect("writes");
            world.node.finish(&mut world.now);
        }
    }
    for degraded in [false, true] {
        let error = find(&media, &[], degraded).expect_err("no member knows which is right");
        assert!(matches!(error, VolumeError::Diverged { .. }), "{error}");
    }
    assert!(find(&media, &[0], true).is_ok());
}

/// The device that was replaced is not taken for the one in its place, and not overwritten.
#[test]
fn a_device_that_was_replaced_does_not_come_back() {
    let media = media(Level::Raid5, 3, 2, 10);
    let mut world = World::new(media.clone(), find(&media, &[], false).expect("whole").array);
    world.run(Io::write(1, 0, Data::stamp(8, 0, 1))).expect("writes");
    world.node.finish(&mut world.now);
    let old = copies(&media).swap_remove(2);
    let mut new = Shared::new(Cells::new(old.with(|cells| cells.blocks())));
    let mut new = MediumDisk(&mut new);
    with_disks(&media, &[2], |disks| replace(disks, 2, &mut new)).expect("it fits");
    let mixed = vec![media[0].clone(), media[1].clone(), old];
    let found = find(&mixed, &[], true).expect("two will do");
    assert_eq!(found.missing, [2]);
}

/// The one member that is left has its word about the other in two copies.
#[test]
fn who_is_out_stays_out_though_a_superblock_cannot_be_read() {
    for fails_later in [false, true] {
        for copy in 0..2 {
            let media = media(Level::Raid1, 2, 2, 8);
            let pulled = if fails_later { vec![] } else { vec![1] };
            let array = find(&media, &pulled, true).expect("one will do").array;
            let mut world = World::new(media, array);
            if fails_later {
                let failing_write = Some(world.controls[1].writes() + 1);
                world.controls[1].set(Plan { failing_write, ..Plan::default() });
            }
            world.run(Io::write(1, 3, Data::stamp(1, 3, 1)).with_fua()).expect("writes");
            world.media[0].with(|cells| cells.lose(copy));
            let found = find(&world.media, &[], true).expect("one will do");
            assert_eq!(found.missing, [1], "copy {copy}, fails later: {fails_later}");
        }
    }
}

#[test]
fn too_many_failures_end_writing() {
    for (level, members, spare) in
        [(Level::Raid0, 2, 0), (Level::Raid1, 3, 2), (Level::Raid5, 3, 1)]
    {
        let mut world = World::fresh(level, members, 2, 20);
        let blocks = world.node.layer.blocks() as u32;
        for victim in 0..=spare {
            assert_eq!(world.node.layer.failed(), None);
            let next = world.controls[victim].writes() + 1;
            let plan = Plan { failing_write: Some(next), ..Plan::default() };
            world.controls[victim].set(plan);
            let written = world.run(Io::write(1, 0, Data::stamp(blocks, 0, 1 + victim as u64)));
            assert_eq!(written.is_ok(), victim < spare, "{level}, failure {victim}");
        }
        assert!(world.node.layer.failed().is_some());
        assert!(world.run(Io::write(1, 0, Data::stamp(1, 0, 9))).is_err());
        assert!(world.run(Io::flush(1)).is_err());
        world.now += 60 * SECONDS;
        world.node.settle(world.now, &mut Vec::new());
        assert_eq!(world.node.next_event(), None, "a server would never sleep again");
        world.node.finish(&mut world.now);
        assert!(world.node.stopped(), "an array that takes no more writes can be ended");
    }
}

/// With a member out, a write fails on another one: what its stripes hold beside it can still be
/// computed, in the same life, read-only from what the log has, and after a recovery.
#[test]
fn a_write_that_fails_where_a_member_is_missing_spoils_nothing_else() {
    let base = media(Level::Raid5, 3, 2, 8);
    let mut whole = World::new(base.clone(), find(&base, &[], false).expect("just made").array);
    let blocks = whole.node.layer.blocks() as u32;
    for at in 0..u64::from(blocks) {
        whole.run(Io::write(1, at, Data::stamp(1, at, 1 + at))).expect("writes");
    }
    whole.node.finish(&mut whole.now);
    let holds = |node: &mut Node, now: &mut u64, written: u64, when: &str| {
        let data = node.run(now, Io::read(9, 0, blocks)).expect("reads");
        for at in (0..u64::from(blocks)).filter(|&at| at != written) {
            let found = data.slice(at as u32, 1);
            assert_eq!(found, Data::stamp(1, at, 1 + at), "{at} after {written}, {when}");
        }
        let found = data.slice(written as u32, 1);
        let or_new = [1 + written, 1000].map(|version| Data::stamp(1, written, version));
        assert!(or_new.contains(&found), "{written} {when}: {found:?}");
    };
    let mut failed = 0;
    for written in 0..u64::from(blocks) {
        for (fails, after) in [(0, 1), (0, 2), (2, 1), (2, 2)] {
            let media = copies(&base);
            let array = find(&media, &[1], true).expect("one less will do").array;
            let mut world = World::new(media, array);
            let failing_write = Some(world.controls[fails].writes() + after);
            world.controls[fails].set(Plan { failing_write, ..Plan::default() });
            let answer = world.run(Io::write(1, written, Data::stamp(1, written, 1000)));
            failed += usize::from(answer.is_err());
            holds(&mut world.node, &mut world.now, written, "at once");
            let options = AssembleOptions {
                degraded: true,
                read_only: true,
                volatile: true,
                ..AssembleOptions::default()
            };
            let read_only = with_disks(&world.media, &[1], |disks| assemble(disks, &options));
            let array = read_only.expect("one less will do").array;
            let mut later = World::new(world.media.clone(), array);
            holds(&mut later.node, &mut later.now, written, "read-only");
            let array = find(&world.media, &[1], true).expect("one less will do").array;
            let mut later = World::new(world.media.clone(), array);
            holds(&mut later.node, &mut later.now, written, "after a recovery");
        }
    }
    assert!(failed > 40, "{failed}");
}

/// Requests to the members, counted: what the formulas say.
#[test]
fn writes_cost_what_the_formulas_say() {
    let chunk = 16;
    for members in [3, 4, 6] {
        let mut world = World::fresh(Level::Raid5, members, chunk, 200);
        let blocks = world.node.layer.blocks();
        let mut rng = Rng::stream(1, "small");
        let before = counted(&world);
        for version in 1..=500 {
            let at = rng.below(blocks);
            world.run(Io::write(1, at, Data::stamp(1, at, version))).expect("writes");
        }
        let after = counted(&world);
        let [reads, data, parity, log] = [0, 1, 2, 3].map(|index| after[index] - before[index]);
        // With three members completing takes as few reads as modifying, or fewer.
        let expected = if members == 3 { 1 } else { 2 };
        assert_eq!([reads, data, parity], [500 * expected, 500, 500], "{members} members");
        assert!((500..520).contains(&log), "{log} batches of the log for 500 writes");

        let mut world = World::fresh(Level::Raid5, members, chunk, 200);
        let before = counted(&world);
        let stripe = u64::from(chunk) * (members as u64 - 1);
        for index in 0..200 {
            let io = Io::write(1, index * stripe, Data::stamp(stripe as u32, index * stripe, 1));
            world.run(io).expect("writes");
        }
        let after = counted(&world);
        let [reads, data, parity, log] = [0, 1, 2, 3].map(|index| after[index] - before[index]);
        assert_eq!([reads, data, parity, log], [0, 200 * (members as u64 - 1), 200, 0]);
        let bits = after[4] - before[4];
        let formula = members as f64 / (members as f64 - 1.0);
        let asked = (data + parity + bits) as f64 / data as f64;
        // 200 stripes are 200 regions; on large arrays a region has many stripes.
        println!(
            "{members} members: {asked:.3} writes per chunk, formula {formula:.3}, {bits} marks"
        );
        assert!(((data + parity) as f64 / data as f64 / formula - 1.0).abs() < 0.05);
    }
}

fn counted(world: &World) -> [u64; 5] {
    let stats = world.node.layer.status().stats();
    let names = [
        "array_prereads",
        "array_data_writes",
        "array_parity_writes",
        "array_log_writes",
        "array_bitmap_writes",
    ];
    names.map(|name| {
        let found = stats.iter().find(|(found, _)| *found == name).expect("a counter");
        found.1 as u64
    })
}

#[test]
fn small_writes_in_a_queue_become_full_stripes() {
    let mut world = World::fresh(Level::Raid5, 5, 4, 40);
    let mut answers = Vec::new();
    for at in 0..64 {
        world.node.submit(0, Io::write(at, at, Data::stamp(1, at, 1)));
    }
    world.node.settle(0, &mut answers);
    assert_eq!(answers.len(), 64);
    let stats = world.node.layer.status().stats();
    let value = |name: &str| stats.iter().find(|one| one.0 == name).map(|one| one.1);
    assert_eq!(value("array_full_stripes"), Some(4.0));
    assert_eq!(value("array_partial_stripes"), Some(0.0));
    assert_eq!(value("array_prereads"), Some(0.0));
}

/// Devices that take `each` nanoseconds for a request, with copies of media.
fn slow(media: &[Shared], each: u64) -> Vec<Box<dyn Device>> {
    let device = |medium: &Shared| -> Box<dyn Device> {
        let (cells, rng) = (medium.with(|cells| cells.clone()), Rng::stream(1, "slow"));
        Box::new(VolatileRam::new(cells, true, Latency::InOrder(each), rng))
    };
    media.iter().map(device).collect()
}

#[test]
fn reads_of_a_mirror_are_spread() {
    let media = media(Level::Raid1, 2, 4, 100);
    let array = find(&media, &[], false).expect("just made").array;
    let each = 100_000;
    let mut node = Node::new(Box::new(array), slow(&media, each), 1);
    for at in 0..50 {
        node.submit(0, Io::read(at, at * 7, 1));
    }
    let (mut now, mut answers) = (0, Vec::new());
    node.settle(now, &mut answers);
    while answers.len() < 50 {
        now = node.next_event().expect("reads are under way");
        node.settle(now, &mut answers);
    }
    assert_eq!(now, 25 * each, "each mirror has served half of them");
}

/// At the end of a rebuild the superblocks are written, and whole stripes wait for that.
#[test]
fn a_stripe_that_waits_for_superblocks_is_written() {
    let each = 100_000;
    for events in 0..300 {
        let mut media = media(Level::Raid5, 3, 1, 12);
        let mut fresh = Shared::new(Cells::new(media[1].with(|cells| cells.blocks())));
        with_disks(&media, &[1], |disks| {
            replace(disks, 1, &mut MediumDisk(&mut fresh)).expect("replaces");
        });
        media[1] = fresh;
        let array = find(&media, &[], false).expect("all are there").array;
        let mut node = Node::new(Box::new(array), slow(&media, each), 1);
        let (mut now, mut answers) = (0, Vec::new());
        node.settle(now, &mut answers);
        for _ in 0..events {
            let Some(due) = node.next_event() else { break };
            now = due.max(now);
            node.settle(now, &mut answers);
        }
        let asked = now;
        node.submit(now, Io::write(1, 0, Data::stamp(2, 0, 1)));
        node.settle(now, &mut answers);
        while answers.is_empty() {
            now = node.next_event().expect("the write is under way").max(now);
            node.settle(now, &mut answers);
        }
        assert!(now - asked < 100 * each, "{events} events: it waited for {} ns", now - asked);
    }
}
