//! A queue must not break up a stream that reading ahead serves.

use super::*;
use crate::spec::ReadAhead;

/// Time of a request of 128 sectors in sequence with `depth` outstanding.
fn stream(spec: &Spec, depth: u64, count: u64) -> f64 {
    let mut drive = Drive::new(spec).unwrap();
    let (mut now, mut sent, mut done) = (0, depth, Vec::new());
    for tag in 0..depth {
        drive.submit(0, read(tag, tag * 128, 128)).unwrap();
    }
    while sent < count {
        now = drive.next_event().unwrap();
        drive.advance(now, &mut done);
        for completion in done.drain(..) {
            drive.submit(now, read(completion.tag, sent * 128, 128)).unwrap();
            sent += 1;
        }
    }
    now as f64 / (count - depth) as f64
}

#[test]
fn a_stream_is_as_fast_with_many_requests_as_with_one() {
    let mut buffered = spec();
    buffered.buffer.read_ahead = ReadAhead::Forward;
    buffered.buffer.fence_sectors = 400;
    for (name, spec) in [("cache", cached()), ("track buffer", buffered)] {
        for discipline in [Discipline::Sptf, Discipline::AgedSptf, Discipline::CLook] {
            let queue = Queue { depth: 32, discipline, age_weight: 0.1 };
            let spec = Spec { queue, ..spec.clone() };
            let alone = stream(&spec, 1, 500);
            for depth in [2, 3, 8, 32] {
                let queued = stream(&spec, depth, 500);
                let said = format!("{name}, {discipline:?}, {depth}: {queued} ns, {alone} alone");
                assert!(queued < 1.05 * alone, "{said}");
            }
        }
    }
}
