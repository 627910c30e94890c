//! A drive-managed shingled disk: fast until its persistent cache is full, then it stalls.
#![allow(clippy::unwrap_used, missing_docs)]

use seekless_disk::drive::{Drive, Request};
use seekless_disk::{Disk, Spec, specs};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::io::{Io, Op};
use seekless_engine::rng::Rng;
use seekless_engine::units::{MILLIS, SECONDS, Time};

/// The drive, its clock and the writes sent so far.
struct Bench {
    drive: Drive,
    now: Time,
    rng: Rng,
}

impl Bench {
    fn new(spec: &Spec) -> Bench {
        Bench { drive: Drive::new(spec).unwrap(), now: 0, rng: Rng::stream(1, "shingled") }
    }

    /// Serves one request and returns its response time.
    fn ask(&mut self, op: Op, lbn: u64, sectors: u32) -> Time {
        let request = Request { tag: 0, op, lbn, sectors, fua: false };
        let done = self.drive.serve_alone(self.now, request).unwrap();
        done - std::mem::replace(&mut self.now, done)
    }

    /// Random writes of 4 KiB, one at a time: their response times.
    fn scatter(&mut self, count: u64) -> Vec<Time> {
        let blocks = self.drive.sectors() / 8;
        (0..count)
            .map(|_| {
                let lbn = self.rng.below(blocks) * 8;
                self.ask(Op::Write, lbn, 8)
            })
            .collect()
    }
}

fn most(times: &[Time]) -> f64 {
    *times.iter().max().unwrap() as f64 / MILLIS as f64
}

fn mean(times: &[Time]) -> f64 {
    times.iter().sum::<Time>() as f64 / times.len() as f64 / MILLIS as f64
}

#[test]
fn random_writes_stall_once_the_persistent_cache_is_full_and_not_before() {
    let spec = specs::find("dm-smr-8tb").unwrap();
    let fits = u64::from(spec.shingled.unwrap().cache_writes) - 100;
    let mut bench = Bench::new(&spec);
    let before = bench.scatter(fits);
    let after = bench.scatter(1000);
    println!(
        "{fits} writes: mean {:.1} ms, most {:.1} ms; 1000 more: mean {:.0} ms, most {:.0} ms",
        mean(&before),
        most(&before),
        mean(&after[200..]),
        most(&after)
    );
    assert!(most(&before) < 50.0, "{} ms within the cache", most(&before));
    assert!(most(&after) > 200.0, "{} ms with a full cache", most(&after));
    assert!(mean(&after[200..]) > 100.0, "{} ms on average", mean(&after[200..]));
}

/// An idle disk cleans one band after the other. A command waits for the band that was begun, and
/// a disk that was idle for long enough takes writes as a new one does.
#[test]
fn an_idle_disk_cleans_and_a_command_waits_for_the_band() {
    let spec = specs::find("dm-smr-8tb").unwrap();
    let mut bench = Bench::new(&spec);
    let fresh = bench.scatter(2000);
    bench.now += 10 * SECONDS;
    let blocks = bench.drive.sectors() / 8;
    let waits: Vec<Time> = (0..50)
        .map(|number| {
            bench.now += SECONDS + number * 7 * MILLIS;
            let lbn = bench.rng.below(blocks) * 8;
            bench.ask(Op::Read, lbn, 8)
        })
        .collect();
    assert!(most(&waits) > 100.0, "{} ms for a read while bands are cleaned", most(&waits));
    assert!(most(&waits) < 2000.0, "{} ms: one band", most(&waits));
    bench.now += 4 * 3600 * SECONDS;
    bench.ask(Op::Read, 0, 8);
    let again = bench.scatter(2000);
    assert!((mean(&again) - mean(&fresh)).abs() < 1.0, "{} ms, {}", mean(&again), mean(&fresh));
    // What is clean stays clean: the disk is not busy after an hour.
    bench.now += 4 * 3600 * SECONDS;
    let wait = bench.ask(Op::Read, 1 << 20, 8);
    assert!(wait < 50 * MILLIS, "{wait} ns");
}

/// Writes in sequence go to their bands, at the speed of the platter and without cleaning.
#[test]
fn a_long_sequence_passes_the_persistent_cache() {
    let spec = specs::find("dm-smr-8tb").unwrap();
    let mut bench = Bench::new(&spec);
    // Twice the size of the cache would not fit into it.
    let sectors = 2 * spec.shingled.unwrap().cache_sectors;
    let (mut lbn, mut longest) = (0, 0);
    while lbn < sectors {
        longest = longest.max(bench.ask(Op::Write, lbn, 8192));
        lbn += 8192;
    }
    let rate = sectors as f64 * 512.0 * SECONDS as f64 / bench.now as f64 / 1e6;
    let limit = f64::from(spec.zones[0].sectors) * 512.0 * spec.rpm / 60.0 / 1e6;
    println!("{rate:.0} MB/s in sequence, the platter passes {limit:.0}");
    assert!(rate < limit && rate > 0.5 * limit, "{rate} of {limit} MB/s");
    assert!(longest < 100 * MILLIS, "{longest} ns");
}

/// A read of sectors that lie in the log and in their band needs more than one access.
#[test]
fn a_range_in_pieces_is_read_in_pieces() {
    let spec = specs::find("dm-smr-8tb").unwrap();
    let read = |scattered: bool| {
        let mut bench = Bench::new(&spec);
        for part in (0..8).filter(|_| scattered) {
            bench.ask(Op::Write, (1 << 30) + part * 64, 8);
        }
        bench.ask(Op::Read, 1 << 20, 8);
        bench.ask(Op::Read, 1 << 30, 512)
    };
    assert!(read(true) > 3 * read(false), "{} {}", read(true), read(false));
}

/// Bands of 4 MiB and a cache of 8 MiB.
fn small() -> Spec {
    let text = "name='t'\nsummary=''\nrpm=6000\nheads=2\ncylinders=400\nhead_switch_ms=1\n\
                overhead_ms=0.1\nseek={constant={ms=2}}\ncapacity_sectors=65536\n\
                zones=[{sectors=400,track_skew=50,cylinder_skew=50}]\n\
                sector_size={logical=512,physical=4096}\n\
                [shingled]\nband_sectors=8192\ncache_sectors=16384\ncache_writes=64\n\
                idle_ms=100\nstream_sectors=1024";
    Spec::parse(text).unwrap()
}

/// The log wraps, pieces are overwritten and cut, bands are cleaned, and data stays what it was.
#[test]
fn data_survives_the_log_and_its_cleaning() {
    let spec = small();
    let blocks = spec.capacity_blocks();
    let mut disk = Disk::new(&spec, Box::new(Cells::new(blocks))).unwrap();
    let mut rng = Rng::stream(7, "small");
    let (mut now, mut versions) = (0, vec![0u64; blocks as usize]);
    for version in 1..3000 {
        let count = 1 + rng.below(40);
        let at = rng.below(blocks - count);
        disk.submit(now, Io::write(1, at, Data::stamp(count as u32, at, version)));
        versions[at as usize..(at + count) as usize].fill(version);
        let mut done = Vec::new();
        while let Some(next) = disk.next_event() {
            now = next;
            disk.reap(now, &mut done);
        }
        assert!(done.pop().unwrap().outcome.is_ok());
        now += rng.below(300) * MILLIS;
    }
    let mut medium = disk.power_cut(now);
    for (at, &version) in versions.iter().enumerate() {
        let found = medium.read(at as u64, 1).unwrap();
        let wanted = match version {
            0 => Data::zeros(1),
            _ => Data::stamp(1, at as u64, version),
        };
        assert_eq!(found.to_bytes(), wanted.to_bytes(), "block {at}");
    }
}

/// The map names a write to the log once it is complete: a cut leaves all or nothing of it.
#[test]
fn a_power_cut_tears_no_write_to_the_log() {
    let spec = small();
    for step in 0..200 {
        let mut disk = Disk::new(&spec, Box::new(Cells::new(spec.capacity_blocks()))).unwrap();
        disk.submit(0, Io::write(1, 77, Data::stamp(16, 77, 1)));
        let end = disk.next_event().unwrap();
        let mut medium = disk.power_cut(end * step / 200);
        let found = medium.read(77, 16).unwrap().to_bytes();
        assert!(found.iter().all(|&byte| byte == 0), "step {step}");
    }
}

#[test]
fn a_cache_that_the_zones_have_no_room_for_is_refused_by_name() {
    let text = small().to_toml().unwrap().replace("65536", "320000");
    let error = Spec::parse(&text).unwrap_err().to_string();
    assert!(error.contains("capacity_sectors = 303616 or less"), "{error}");
}
