//! The parameters and simple consequences that the virtual log paper states (claims V1 to V3, V17)
//! and those that the simulation of update in place must show (V39).
#![allow(clippy::unwrap_used, missing_docs)]

use seekless_disk::{Disk, ReadAhead, specs};
use seekless_engine::arm::Arm;
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::Mechanical as _;
use seekless_engine::device::medium::Cells;
use seekless_engine::io::{Breakdown, Done, Io, Op};
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, MILLIS, Time};

fn disk(name: &str) -> Disk {
    let spec = specs::find(name).unwrap();
    Disk::new(&spec, Box::new(Cells::new(spec.capacity_blocks()))).unwrap()
}

fn run(disk: &mut Disk, now: Time, io: Io) -> (Time, Done) {
    disk.submit(now, io);
    let end = disk.next_event().unwrap();
    let mut done = Vec::new();
    disk.reap(end, &mut done);
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].spent.total_ns(), end - now, "the parts add up");
    (end, done.remove(0))
}

/// Mean service of random 4 KiB requests over `blocks`, one outstanding, with a pause of up to two
/// milliseconds between them.
fn mean_ns(disk: &mut Disk, op: Op, blocks: u64, requests: u64) -> (f64, Breakdown) {
    let mut rng = Rng::stream(5, "claims");
    let (mut now, mut sum, mut parts) = (0, 0, Breakdown::default());
    for tag in 0..requests {
        let at = rng.below(blocks);
        let io = match op {
            Op::Read => Io::read(tag, at, 1),
            _ => Io::write(tag, at, Data::stamp(1, at, tag)),
        };
        let (end, done) = run(disk, now, io);
        sum += end - now;
        parts.add(&done.spent);
        now = end + rng.below(2 * MILLIS);
    }
    (sum as f64 / requests as f64, parts)
}

#[test]
fn all_built_in_specifications_are_sound() {
    for builtin in specs::builtin() {
        let spec = specs::find(builtin.name).unwrap();
        assert_eq!(spec.name, builtin.name);
        assert!(spec.capacity_blocks() > 0);
    }
}

#[test]
fn the_paper_s_parameters() {
    let hp = disk("hp97560");
    assert_eq!(hp.mechanics().rev_ns(), 14_992_504);
    let sector = hp.mechanics().rev_ns() as f64 / 72.0 / MILLIS as f64;
    assert!((sector - 0.20823).abs() < 1e-5);
    assert_eq!(hp.blocks() * BLOCK_BYTES as u64, 36 * 19 * 72 * 512);
    assert_eq!(hp.mechanics().overhead_ns(), 2_300_000);
    assert_eq!(hp.mechanics().moves(0, 1), (0, 2_500_000));
    assert_eq!(hp.mechanics().moves(0, 19), (3_640_000, 0));
    let st = disk("st19101");
    assert_eq!(st.mechanics().rev_ns(), 6_000_000);
    assert_eq!(st.blocks() * BLOCK_BYTES as u64, 22 << 20);
    assert_eq!(st.mechanics().moves(0, 16), (500_000, 0));
    assert_eq!(st.mechanics().moves(0, 15), (0, 500_000));
}

#[test]
fn update_in_place_costs_what_the_claims_compute() {
    // V39: 3.77 to 3.81 ms and 15.3 to 15.9 ms between 30 % and 95 % utilisation.
    for (name, low, high) in [("st19101", 3.77, 3.81), ("hp97560", 15.3, 15.9)] {
        for share in [30, 95] {
            let mut disk = disk(name);
            let blocks = disk.blocks() * share / 100;
            let (mean, _) = mean_ns(&mut disk, Op::Write, blocks, 20_000);
            let ms = mean / MILLIS as f64;
            assert!(ms > low * 0.97 && ms < high * 1.03, "{name} at {share} %: {ms} ms");
        }
    }
}

#[test]
fn the_wait_is_half_a_turn() {
    // V17.
    let mut st = disk("st19101");
    let blocks = st.blocks();
    let (_, parts) = mean_ns(&mut st, Op::Write, blocks, 20_000);
    let wait = parts.rotation_ns as f64 / 20_000.0;
    assert!((wait / 3_000_000.0 - 1.0).abs() < 0.02, "{wait}");
}

#[test]
fn the_arm_predicts_what_the_disk_does() {
    let plain = |name: &str| specs::find(name).unwrap().is_plain();
    for builtin in specs::builtin().iter().filter(|builtin| plain(builtin.name)) {
        let mut disk = disk(builtin.name);
        let mut rng = Rng::stream(9, "predict");
        let mut now = 0;
        for tag in 0..5000 {
            now += rng.below(20 * MILLIS);
            let head = disk.head(now).unwrap();
            let arm = disk.mechanics().clone();
            let track = rng.below(u64::from(arm.tracks())) as u32;
            let travel = arm.travel_ns(head.track, track);
            let arrival = head.free_at + arm.overhead_ns() + travel;
            let angle = arm.angle_ns(arrival);
            let slot = match rng.below(2) {
                0 => arm.next_slot(track, angle),
                _ => rng.below(u64::from(arm.track_blocks(track).1)) as u32,
            };
            let wait = |slot: u32| arm.wait_ns(track, arm.position(track, slot), angle);
            let start = arrival + wait(slot);
            assert!(start < arrival + arm.rev_ns());
            assert_eq!(arm.slot_at(track, arm.position(track, slot)), slot);
            // No slot begins between the arrival and the one said to be next.
            assert!(wait(slot) >= wait(arm.next_slot(track, angle)));
            let at = arm.track_blocks(track).0 + u64::from(slot);
            let count = 1 + rng.below(3).min(disk.blocks() - at - 1) as u32;
            let (end, _) = run(&mut disk, now, Io::write(tag, at, Data::stamp(count, at, tag)));
            if slot + count <= arm.track_blocks(track).1 {
                let predicted = start + arm.transfer_ns(track, count);
                assert!(predicted.abs_diff(end) <= 1, "{} {at}+{count}", builtin.name);
            }
            now = end;
        }
    }
}

#[test]
fn reading_ahead_makes_sequential_reads_stream() {
    let spec = specs::find("st19101").unwrap();
    let mean = |policy: ReadAhead| {
        let mut disk = disk("st19101").with_read_ahead(policy, spec.buffer.fence_sectors);
        let mut now = 0;
        for at in 0..512 {
            let (end, done) = run(&mut disk, now, Io::read(at, at, 1));
            assert_eq!(done.outcome.unwrap().blocks(), 1);
            now = end + 50_000;
        }
        now / 512
    };
    let turn = 6_000_000;
    assert!(mean(ReadAhead::None) > turn, "each read misses its rotation");
    assert!(mean(ReadAhead::Forward) < turn / 10);
    assert!(mean(ReadAhead::WholeTrack) < turn / 10);
}

#[test]
fn the_whole_track_rule_serves_any_order() {
    // V36: blocks of one track in descending order.
    let spec = specs::find("st19101").unwrap();
    let total = |policy: ReadAhead| {
        let mut disk = disk("st19101").with_read_ahead(policy, spec.buffer.fence_sectors);
        (0..32).rev().fold(0, |now, at| run(&mut disk, now, Io::read(at, at, 1)).0)
    };
    assert!(total(ReadAhead::WholeTrack) * 5 < total(ReadAhead::Forward));
}

#[test]
fn a_power_cut_tears_the_write_in_progress_at_a_sector() {
    let mut whole = 0;
    let mut none = 0;
    let mut torn = 0;
    for cut in 0..200 {
        let mut disk = disk("st19101");
        let old = Data::stamp(2, 0, 1);
        let (now, _) = run(&mut disk, 0, Io::write(0, 7, old.clone()));
        let new = Data::stamp(2, 0, 2);
        disk.submit(now, Io::write(1, 7, new.clone()));
        let mut medium = disk.power_cut(now + 5_600_000 + cut * 5000);
        let found = medium.read(7, 2).unwrap().to_bytes();
        let (old, new) = (old.to_bytes(), new.to_bytes());
        let same = |at: usize| found[at..at + 512] == new[at..at + 512];
        let passed = (0..16).take_while(|sector| same(sector * 512)).count();
        assert!((0..16).skip(passed).all(|s| found[s * 512..][..512] == old[s * 512..][..512]));
        match passed {
            0 => none += 1,
            16 => whole += 1,
            _ => torn += 1,
        }
    }
    assert!(whole > 0 && none > 0 && torn > 0, "{none} none, {torn} torn, {whole} whole");
}
