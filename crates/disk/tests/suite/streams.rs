//! Sequential requests, several of them in the disk at a time.
#![allow(clippy::unwrap_used, missing_docs)]

use seekless_disk::drive::{Drive, Request};
use seekless_disk::{Spec, specs};
use seekless_engine::io::Op;
use seekless_engine::units::{SECONDS, Time};

/// MB/s of requests of 64 KiB in sequence from the outer rim on, `depth` of them in the disk.
fn rate(spec: &Spec, op: Op, fua: bool, depth: u64, count: u64) -> f64 {
    let mut drive = Drive::new(spec).unwrap();
    let request = |tag: u64| Request { tag, op, lbn: tag * 128, sectors: 128, fua };
    let (mut now, mut sent, mut done): (Time, _, _) = (0, depth, Vec::new());
    for tag in 0..depth {
        drive.submit(0, request(tag)).unwrap();
    }
    let mut served = 0;
    while served < count {
        now = drive.next_event().unwrap();
        drive.advance(now, &mut done);
        for _ in done.drain(..) {
            served += 1;
            drive.submit(now, request(sent)).unwrap();
            sent += 1;
        }
    }
    count as f64 * 65_536.0 * SECONDS as f64 / now as f64 / 1e6
}

/// MB/s at which sectors of the outermost track pass the head.
fn platter(spec: &Spec) -> f64 {
    f64::from(spec.zones[0].sectors) * 512.0 * spec.rpm / 60.0 / 1e6
}

/// Contiguous writes that wait in the disk lose no turn, reported early or not.
#[test]
fn queued_writes_stream_like_reads() {
    for (name, least) in [("cheetah9lp", 13.0), ("cmr-20tb", 240.0), ("desktop7200", 200.0)] {
        let spec = specs::find(name).unwrap();
        let reads = rate(&spec, Op::Read, false, 8, 4000);
        let limit = platter(&spec);
        for forced in [false, true] {
            let writes = rate(&spec, Op::Write, forced, 8, 4000);
            println!(
                "{name}: reads {reads:.1}, writes {writes:.1} (forced {forced}) of {limit:.1}"
            );
            assert!(writes >= 0.95 * reads, "{name}: {writes} of {reads} MB/s, forced: {forced}");
            assert!(writes <= limit, "{name}: {writes} MB/s, the platter passes {limit}");
        }
        assert!(reads <= limit, "{name}: {reads} MB/s, the platter passes {limit}");
        assert!(reads >= least, "{name}: {reads} MB/s");
    }
}

/// One at a time, a write that is not reported early misses the sector behind it.
#[test]
fn a_forced_write_alone_loses_its_turn() {
    let spec = specs::find("cheetah9lp").unwrap();
    let alone = rate(&spec, Op::Write, true, 1, 500);
    let turn = 60.0 / spec.rpm;
    assert!(alone < 65_536.0 / turn / 1e6, "{alone} MB/s");
}

/// Writes that are reported early and joined fill a segment, then the host waits.
#[test]
fn early_reports_are_bounded_by_a_segment() {
    let spec = specs::find("cheetah9lp").unwrap();
    assert!(spec.cache.unwrap().combine_writes);
    let few = rate(&spec, Op::Write, false, 1, 4);
    let many = rate(&spec, Op::Write, false, 1, 4000);
    let limit = platter(&spec);
    assert!(few > limit, "{few} MB/s into the segment");
    assert!(many <= limit && many > 0.8 * limit, "{many} MB/s of {limit}");
}
