//! Any text as the specification of a disk: read, written, read again, and simulated.

use seekless_disk::drive::{Drive, Request};
use seekless_disk::{Disk, Spec};
use seekless_engine::device::medium::Cells;
use seekless_engine::io::Op;
use seekless_engine::rng::Rng;

/// Tables of larger disks only take time.
const MOST_CYLINDERS: u32 = 1 << 14;
const REQUESTS: u64 = 64;

/// The fuzz target.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(spec) = Spec::parse(text) else { return };
    let written = spec.to_toml().expect("what was read can be written");
    assert_eq!(Spec::parse(&written).as_ref(), Ok(&spec), "{written}");
    if spec.cylinders > MOST_CYLINDERS {
        return;
    }
    let _ = Disk::new(&spec, Box::new(Cells::new(spec.capacity_blocks().min(64))));
    let Ok(mut drive) = Drive::new(&spec) else { return };
    assert_eq!(drive.sectors(), spec.capacity_sectors());
    use_drive(&mut drive);
}

/// Requests in bursts: each is answered once, in order of time, and its parts add up.
fn use_drive(drive: &mut Drive) {
    let mut rng = Rng::stream(1, "requests");
    let sectors = drive.sectors();
    let mut submitted = Vec::new();
    let mut done = Vec::new();
    let mut now = 0;
    for tag in 0..REQUESTS {
        let op = [Op::Read, Op::Write, Op::Write, Op::Flush][rng.below(4) as usize];
        let count = 1 + rng.below(64.min(sectors));
        let lbn = rng.below(sectors - count + 1);
        let request = Request { tag, op, lbn, sectors: count as u32, fua: rng.below(8) == 0 };
        drive.submit(now, request).expect("the request lies on the disk");
        submitted.push(now);
        if rng.below(4) == 0 {
            now += rng.below(50_000_000);
            drive.advance(now, &mut done);
        }
    }
    while let Some(next) = drive.next_event() {
        now = now.max(next);
        drive.advance(now, &mut done);
    }
    assert_eq!((drive.outstanding(), done.len() as u64), (0, REQUESTS));
    let mut answered = [false; REQUESTS as usize];
    for pair in done.windows(2) {
        assert!(pair[0].at <= pair[1].at, "{pair:?}");
    }
    for completion in &done {
        let tag = completion.tag as usize;
        assert!(!std::mem::replace(&mut answered[tag], true), "{completion:?} comes twice");
        let took = completion.at.checked_sub(submitted[tag]).expect("time does not run back");
        assert_eq!(completion.spent.total_ns(), took, "{completion:?}");
    }
}
