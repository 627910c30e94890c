//! Arrays of mechanical disks in virtual time: the cost of a rebuild and of small writes.
#![allow(missing_docs)]

use seekless_arrays::{AssembleOptions, CreateArray, Level};
use seekless_disk::{Disk as Mechanical, Spec, specs};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::Io;
use seekless_engine::node::Node;
use seekless_engine::units::{BLOCK_SECTORS, MILLIS, SECONDS};
use seekless_lab::sim::{SimOptions, SimReport, Target, simulate};
use seekless_lab::workload::{Pattern, Workload};
use seekless_layouts::Kind;

/// The outer blocks of a built-in disk.
fn disk(name: &str, blocks: u64) -> Spec {
    let mut spec = specs::find(name).expect("a built-in disk");
    spec.capacity_sectors = Some(blocks * BLOCK_SECTORS);
    spec
}

fn mechanical(spec: &Spec, cells: Cells) -> Box<dyn Device> {
    Box::new(Mechanical::new(spec, Box::new(cells)).expect("a specification that works"))
}

/// Nanoseconds that writing a disk from one end to the other takes, four requests of 1 MiB at a
/// time.
fn bandwidth(spec: &Spec, blocks: u64) -> u64 {
    let mut device = mechanical(spec, Cells::new(blocks));
    let (mut now, mut next, mut left) = (0, 0, blocks / 256);
    let mut done = Vec::new();
    let mut in_flight = 0;
    while left > 0 {
        while in_flight < 4 && next < blocks / 256 {
            device.submit(now, Io::write(next, next * 256, Data::stamp(256, next * 256, 1)));
            (next, in_flight) = (next + 1, in_flight + 1);
        }
        now = device.next_event().expect("requests are in flight").max(now);
        device.reap(now, &mut done);
        (left, in_flight) = (left - done.len() as u64, in_flight - done.len());
        done.clear();
    }
    now
}

#[test]
fn an_idle_rebuild_runs_at_the_speed_of_the_disks() {
    let blocks = 64 * 256;
    let spec = disk("cheetah9lp", blocks);
    for (level, members) in [(Level::Raid5, 4), (Level::Raid1, 2)] {
        let mut cells = vec![Cells::new(blocks); members];
        let mut fresh = Cells::new(blocks);
        let mut plain: Vec<_> = cells.iter_mut().map(|cells| MediumDisk(cells)).collect();
        let mut disks: Vec<_> = plain.iter_mut().map(|disk| disk as &mut dyn Disk).collect();
        let array = CreateArray { level, chunk: 16, id: 1, blank: true };
        let superblock = seekless_arrays::create(&mut disks, &array).expect("fits");
        let mut disks: Vec<_> = disks.into_iter().map(Some).collect();
        seekless_arrays::replace(&mut disks, 1, &mut MediumDisk(&mut fresh)).expect("replaces");
        let mut new = MediumDisk(&mut fresh);
        disks[1] = Some(&mut new);
        let found =
            seekless_arrays::assemble(&mut disks, &AssembleOptions::default()).expect("all there");
        cells[1] = fresh;
        let devices = cells.into_iter().map(|cells| mechanical(&spec, cells)).collect();
        let mut node = Node::new(Box::new(found.array), devices, 1);
        let mut now = 0;
        let stripes = superblock.geometry.stripes as f64;
        let done = |node: &Node| {
            let stats = node.stats();
            let find = |name: &str| stats.iter().find(|one| one.0 == name).expect("a counter").1;
            find("array_rebuilt_stripes") >= stripes && find("array_members_out") == 0.0
        };
        while !done(&node) {
            node.idle(&mut now, 10 * MILLIS);
            assert!(now < 1000 * SECONDS, "the rebuild comes to an end");
        }
        let chunks = superblock.geometry.stripes * 16;
        let ideal = bandwidth(&spec, blocks) as f64 * chunks as f64 / blocks as f64;
        let share = ideal / now as f64;
        let rate = |ns: f64| chunks as f64 * 4096.0 * 1e3 / ns;
        println!(
            "{level} of {members}: rebuilt at {:.1} MB/s, {:.1} % of the disk's {:.1} MB/s",
            rate(now as f64),
            share * 100.0,
            rate(ideal)
        );
        // About a turn is lost with each step of 1 MiB, since the others read no faster than this
        // one writes. It is 0.89 on a disk that is eight times as large.
        assert!(share >= 0.85, "{level}: {share}");
    }
}

#[test]
fn small_writes_cost_four_requests_and_large_ones_the_parity() {
    let rate = |level, request_blocks, pattern| {
        let target = Target::disk(&disk("st19101", 5120), None).expect("works");
        let target = target.array(level, 5, 16).expect("five members make an array");
        let workload =
            Workload { pattern, request_blocks, depth: 16, requests: 600, ..Workload::default() };
        let options = SimOptions {
            utilisation: Some(0.5),
            age: 0.0,
            workload,
            ..SimOptions::new(Kind::INPLACE)
        };
        let report = simulate(&target, &options, || 0).expect("simulates");
        600.0 / (report.virtual_seconds)
    };
    let small = rate(Level::Raid5, 1, Pattern::Random) / rate(Level::Raid0, 1, Pattern::Random);
    let large =
        rate(Level::Raid5, 256, Pattern::Sequential) / rate(Level::Raid0, 256, Pattern::Sequential);
    println!("RAID-5 against RAID-0, five disks: small writes {small:.2}, large ones {large:.2}");
    // Four requests and a record of the log in place of one request; the log is sequential.
    assert!((0.1..0.4).contains(&small), "{small}");
    assert!((0.5..1.05).contains(&large), "{large}");
}

/// Five members with chunks of 64 KiB, empty to begin with.
fn five(level: Level, disk: &str, workload: Workload) -> SimReport {
    five_of(&specs::find(disk).expect("a built-in disk"), level, workload)
}

fn five_of(spec: &Spec, level: Level, workload: Workload) -> SimReport {
    let target = Target::disk(spec, None).expect("works");
    let target = target.array(level, 5, 16).expect("five members make an array");
    let options = SimOptions {
        utilisation: Some(0.5),
        fill: false,
        age: 0.0,
        workload,
        ..SimOptions::new(Kind::INPLACE)
    };
    simulate(&target, &options, || 0).expect("simulates")
}

/// A small write reads the old data and the old parity, writes both, and has its share of a record
/// in the log. So five disks that do `r` random requests a second, half of them reads, do `r / (4 +
/// records per write)` of them.
#[test]
fn small_writes_cost_what_is_counted() {
    for (disk, depth) in [("desktop7200", 16), ("desktop7200", 32), ("cheetah9lp", 32)] {
        let workload = Workload { depth, requests: 4000, ..Workload::default() };
        let array = five(Level::Raid5, disk, workload.clone());
        let per_write = |name: &str| array.layout_stats[name] / array.requests as f64;
        let (reads, logs) = (per_write("array_prereads"), per_write("array_log_writes"));
        let writes = per_write("array_data_writes") + per_write("array_parity_writes");
        // Some requests share a stripe, and the first blocks of the volume are written once more.
        assert!((1.98..2.02).contains(&reads), "{disk}: {reads} reads");
        assert!((1.98..2.02).contains(&writes), "{disk}: {writes} writes");
        assert!(logs <= 1.0, "{disk}: {logs} records");
        let mixed = Workload { read_share: 0.5, requests: 16_000, ..workload };
        let plain = five(Level::Raid0, disk, mixed).throughput.requests_per_second;
        let counted = plain / (reads + writes + logs);
        let share = array.throughput.requests_per_second / counted;
        println!("{disk}, {depth} writes at a time: {:.1} % of what is counted", share * 100.0);
        assert!((0.95..1.05).contains(&share), "{disk}, depth {depth}: {share}");
    }
}

/// Whole stripes need no reads, and four of five written chunks are the client's.
#[test]
fn whole_stripes_cost_their_parity() {
    for (disk, request_blocks, pattern, most) in [
        ("cheetah9lp", 256, Pattern::Sequential, 1.1),
        // Without a queue both lose some turns.
        ("desktop7200-bare", 256, Pattern::Sequential, 1.1),
        ("desktop7200-bare", 64, Pattern::Random, 1.05),
        ("desktop7200", 64, Pattern::Random, 1.05),
        ("cheetah9lp", 64, Pattern::Random, 1.05),
    ] {
        let workload =
            Workload { pattern, request_blocks, depth: 16, requests: 800, ..Workload::default() };
        let array = five(Level::Raid5, disk, workload.clone());
        let plain = five(Level::Raid0, disk, workload);
        let stripes = f64::from(request_blocks) / 64.0;
        let per_request = |name: &str| array.layout_stats[name] / array.requests as f64;
        assert!(per_request("array_prereads") < 0.02, "{disk}: {:?}", array.layout_stats);
        assert!((per_request("array_full_stripes") / stripes - 1.0).abs() < 0.01);
        assert!((per_request("array_parity_writes") / stripes - 1.0).abs() < 0.01);
        let counted = plain.throughput.requests_per_second * 4.0 / 5.0;
        let share = array.throughput.requests_per_second / counted;
        println!("{disk}, {request_blocks} blocks, {pattern:?}: {:.1} % of it", share * 100.0);
        assert!((0.95..most).contains(&share), "{disk}, {request_blocks} blocks: {share}");
    }
}

/// A stream marks its way in the bitmap. A mark moves all arms there and back, and covers nine
/// thousandths of the members. Where these are small and stream fast, it is dear.
#[test]
fn the_marks_of_a_stream_cost_less_on_larger_members() {
    let workload = Workload {
        pattern: Pattern::Sequential,
        request_blocks: 256,
        depth: 16,
        requests: 1600,
        ..Workload::default()
    };
    let share = |times: u32| {
        let mut spec = specs::find("desktop7200").expect("a built-in disk");
        spec.cylinders *= times;
        let plain = five_of(&spec, Level::Raid0, workload.clone());
        let array = five_of(&spec, Level::Raid5, workload.clone());
        let marks = array.layout_stats["array_bitmap_writes"];
        let counted = plain.throughput.requests_per_second * 4.0 / 5.0;
        let share = array.throughput.requests_per_second / counted;
        println!("members of {} GiB: {:.1} % of it, {marks} marks", 2 * times, share * 100.0);
        (share, marks)
    };
    let (small, large) = (share(1), share(8));
    assert!((0.75..0.9).contains(&small.0), "2 GiB: {small:?}");
    assert!((0.95..1.05).contains(&large.0), "16 GiB: {large:?}");
    assert!(small.1 > 4.0 * large.1, "{small:?} {large:?}");
}
