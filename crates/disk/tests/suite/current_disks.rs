//! Performance of current disks, with one request and with many.
#![allow(clippy::unwrap_used, missing_docs)]

use seekless_disk::drive::{Drive, Request};
use seekless_disk::specs;
use seekless_engine::io::Op;
use seekless_engine::rng::Rng;
use seekless_engine::units::SECONDS;

/// Random 4 KiB reads per second with `depth` of them in flight.
fn reads_per_second(name: &str, depth: u64, requests: u64) -> f64 {
    let mut drive = Drive::new(&specs::find(name).unwrap()).unwrap();
    let mut rng = Rng::stream(1, "reads");
    let blocks = drive.sectors() / 8;
    let (mut now, mut done) = (0, Vec::new());
    let (mut sent, mut served) = (0, 0);
    while served < requests {
        while sent < requests && sent - served < depth {
            let lbn = rng.below(blocks) * 8;
            let request = Request { tag: sent, op: Op::Read, lbn, sectors: 8, fua: false };
            drive.submit(now, request).unwrap();
            sent += 1;
        }
        now = drive.next_event().unwrap();
        drive.advance(now, &mut done);
        served += done.len() as u64;
        done.clear();
    }
    requests as f64 * SECONDS as f64 / now as f64
}

/// Data sheets of the class and measurements of others give 79 to 85 reads a second, one at a time,
/// and about 2.6 times as many with 32 in the disk's queue.
#[test]
fn a_current_disk_reads_what_its_class_does() {
    let one = reads_per_second("cmr-20tb", 1, 20_000);
    let many = reads_per_second("cmr-20tb", 32, 20_000);
    println!("cmr-20tb: {one:.1} reads/s at depth 1, {:.2} times that at 32", many / one);
    assert!((79.0..=85.0).contains(&one), "{one} reads/s");
    assert!((2.45..=2.75).contains(&(many / one)), "{} times", many / one);
}

/// Measurements of others give 87 to 96 synced random writes a second, 90 reads one at a time and
/// about 230 with 32 in the disk's queue.
#[test]
fn a_desktop_drive_does_what_its_class_does() {
    let one = reads_per_second("desktop7200", 1, 10_000);
    let many = reads_per_second("desktop7200", 32, 10_000);
    println!("desktop7200: {one:.1} reads/s at depth 1, {many:.1} at 32");
    assert!((87.0..=96.0).contains(&one), "{one} reads/s");
    assert!((210.0..=240.0).contains(&many), "{many} reads/s");
    let cache = specs::find("desktop7200").unwrap().cache.unwrap();
    assert_eq!(cache.segments * cache.segment_sectors, 64 << 11, "64 MiB");
}

/// The same arm and platter under another rule for writes.
#[test]
fn a_shingled_disk_reads_like_a_conventional_one() {
    let one = reads_per_second("hm-smr-15tb", 1, 5000);
    assert!((70.0..=90.0).contains(&one), "{one} reads/s");
}
