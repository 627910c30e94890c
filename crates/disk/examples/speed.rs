//! How many requests a second the timing of a disk simulates: `speed SPEC.toml [REQUESTS]`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures itself")]

use seekless_disk::drive::{Drive, Request};
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
    report("random, half writes, open", count, &spec, |drive| open(drive, count));
    report("sequential reads", count, &spec, |drive| sequential(drive, count, Op::Read));
    report("sequential writes", count, &spec, |drive| sequential(drive, count, Op::Write));
    report("random, 32 outstanding, SPTF", count, &sptf, |drive| closed(drive, count, 32));
    report("random, 1 outstanding", count, &spec, |drive| closed(drive, count, 1));
}

fn report(name: &str, count: u64, spec: &Spec, run: impl FnOnce(&mut Drive) -> u64) {
    let mut drive = Drive::new(spec).expect("the specification was checked");
    let started = Instant::now();
    let simulated = run(&mut drive);
    let seconds = started.elapsed().as_secs_f64();
    let rate = count as f64 / seconds / 1e6;
    let mean = simulated as f64 / count as f64 / 1e6;
    println!("{name:<30} {rate:7.2} M requests/s, {mean:.3} ms each");
}

fn draw(rng: &mut Rng, drive: &Drive, tag: u64) -> Request {
    let lbn = rng.below(drive.sectors() / 8) * 8;
    let op = if rng.below(2) == 0 { Op::Read } else { Op::Write };
    Request { tag, op, lbn, sectors: 8, fua: false }
}

/// Arrivals every 12 ms on average, whatever is outstanding.
fn open(drive: &mut Drive, count: u64) -> u64 {
    let mut rng = Rng::stream(1, "open");
    let (mut now, mut done) = (0, Vec::new());
    for tag in 0..count {
        now += rng.below(24_000_000);
        drive.advance(now, &mut done);
        done.clear();
        let request = draw(&mut rng, drive, tag);
        drive.submit(now, request).expect("requests lie on the disk");
    }
    drive.advance(u64::MAX / 2, &mut done);
    now
}

fn sequential(drive: &mut Drive, count: u64, op: Op) -> u64 {
    let (mut now, mut lbn, mut done) = (0, 0, Vec::new());
    for tag in 0..count {
        if lbn + 8 > drive.sectors() {
            lbn = 0;
        }
        let request = Request { tag, op, lbn, sectors: 8, fua: false };
        drive.submit(now, request).expect("requests lie on the disk");
        now = drive.next_event().expect("a request is outstanding");
        drive.advance(now, &mut done);
        done.clear();
        lbn += 8;
    }
    now
}

fn closed(drive: &mut Drive, count: u64, depth: u64) -> u64 {
    let mut rng = Rng::stream(2, "closed");
    let (mut now, mut done) = (0, Vec::new());
    for tag in 0..depth {
        let request = draw(&mut rng, drive, tag);
        drive.submit(now, request).expect("requests lie on the disk");
    }
    let mut served = 0;
    while served < count {
        now = drive.next_event().expect("requests are outstanding");
        drive.advance(now, &mut done);
        served += done.len() as u64;
        for completion in done.drain(..) {
            let request = draw(&mut rng, drive, completion.tag);
            drive.submit(now, request).expect("requests lie on the disk");
        }
    }
    now
}
