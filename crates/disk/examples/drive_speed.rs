//! How many requests a second the timing of a disk simulates: `drive_speed SPEC.toml [REQUESTS]`.
//! One line a workload: its name, a tab, requests a second. `cargo xtask bench disk` compares.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures itself")]

use seekless_disk::drive::{Completion, Drive, Request};
use seekless_disk::spec::{Discipline, Spec};
use seekless_engine::io::Op;
use seekless_engine::rng::Rng;
use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("the path of a specification");
    let count = args.next().map_or(1_000_000, |text| text.parse().expect("a number"));
    let text = std::fs::read_to_string(&path).expect("a readable specification");
    let spec = Spec::parse(&text).expect("a sound specification");
    let mut sptf = spec.clone();
    sptf.queue.discipline = Discipline::Sptf;
    sptf.queue.depth = 0;
    report("random, half writes, open", count, &spec, |drive| open(drive, count));
    report("sequential reads", count, &spec, |drive| sequential(drive, count, Op::Read));
    report("sequential writes", count, &spec, |drive| sequential(drive, count, Op::Write));
    report("random, 32 outstanding, SPTF", count, &sptf, |drive| closed(drive, count, 32));
}

/// Every request must complete: a simulator that drops requests is fast, too.
fn report(name: &str, count: u64, spec: &Spec, run: impl FnOnce(&mut Drive) -> u64) {
    let mut drive = Drive::new(spec).expect("the specification was checked");
    let started = Instant::now();
    let served = run(&mut drive);
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(served, count, "{name}");
    println!("{name}\t{:.0}", count as f64 / seconds);
}

fn draw(rng: &mut Rng, drive: &Drive, tag: u64) -> Request {
    let lbn = rng.below(drive.sectors() / 8) * 8;
    let op = if rng.below(2) == 0 { Op::Read } else { Op::Write };
    Request { tag, op, lbn, sectors: 8, fua: false }
}

/// Takes the completions and returns their number.
fn taken(done: &mut Vec<Completion>) -> u64 {
    let count = done.len() as u64;
    done.clear();
    count
}

/// Arrivals every 12 ms on average, regardless of outstanding requests.
fn open(drive: &mut Drive, count: u64) -> u64 {
    let mut rng = Rng::stream(1, "open");
    let (mut now, mut done, mut served) = (0, Vec::new(), 0);
    for tag in 0..count {
        now += rng.below(24_000_000);
        drive.advance(now, &mut done);
        served += taken(&mut done);
        let request = draw(&mut rng, drive, tag);
        drive.submit(now, request).expect("requests lie on the disk");
    }
    while let Some(next) = drive.next_event() {
        drive.advance(next, &mut done);
        served += taken(&mut done);
    }
    served
}

fn sequential(drive: &mut Drive, count: u64, op: Op) -> u64 {
    let (mut now, mut lbn, mut done, mut served) = (0, 0, Vec::new(), 0);
    for tag in 0..count {
        if lbn + 8 > drive.sectors() {
            lbn = 0;
        }
        let request = Request { tag, op, lbn, sectors: 8, fua: false };
        drive.submit(now, request).expect("requests lie on the disk");
        now = drive.next_event().expect("a request is outstanding");
        drive.advance(now, &mut done);
        served += taken(&mut done);
        lbn += 8;
    }
    served
}

fn closed(drive: &mut Drive, count: u64, depth: u64) -> u64 {
    let mut rng = Rng::stream(2, "closed");
    let (mut now, mut sent, mut served) = (0, 0, 0);
    let mut done = Vec::new();
    loop {
        while sent < count && sent - served < depth {
            let request = draw(&mut rng, drive, sent);
            drive.submit(now, request).expect("requests lie on the disk");
            sent += 1;
        }
        let Some(next) = drive.next_event() else { return served };
        now = next;
        drive.advance(now, &mut done);
        served += taken(&mut done);
    }
}
