mod rules;
mod streams;

use super::*;
use crate::spec::{Cache, ExtraDisconnect, FastWrite, Mapping, Prefetch, Queue, Seek, Simple};
use proptest::prelude::*;
use seekless_engine::rng::Rng;
use seekless_engine::units::MILLIS;

/// 10 ms a turn, three zones of 100, 80 and 60 sectors, four heads.
fn spec() -> Spec {
    let text = "name='t'\nsummary=''\nrpm=6000\nheads=4\ncylinders=300\nhead_switch_ms=1\n\
                overhead_ms=0.5\nseek={stroke={constant_ms=1,root_ms=9}}\n\
                bus={read_sector_ms=0.01,write_sector_ms=0.01}\n\
                zones=[{sectors=100,track_skew=10,cylinder_skew=25,last_cylinder=99},\
                {sectors=80,track_skew=8,cylinder_skew=20,last_cylinder=199},\
                {sectors=60,track_skew=6,cylinder_skew=15}]";
    Spec::parse(text).unwrap()
}

fn cached() -> Spec {
    let mut spec = spec();
    spec.cache = Some(Cache {
        segments: 4,
        segment_sectors: 200,
        read_ahead: Prefetch::Segment,
        read_ahead_over_requested: true,
        read_ahead_on_idle_hit: true,
        read_hits_on_writes: true,
        zero_latency_reads: true,
        reads_free_sectors: true,
        fast_write: FastWrite::Any,
        ..Cache::default()
    });
    spec
}

fn read(tag: u64, lbn: u64, sectors: u32) -> Request {
    Request { tag, op: Op::Read, lbn, sectors, fua: false }
}

fn write(tag: u64, lbn: u64, sectors: u32) -> Request {
    Request { tag, op: Op::Write, ..read(tag, lbn, sectors) }
}

/// Serves one request and returns its completion.
fn one(drive: &mut Drive, now: Time, request: Request) -> Completion {
    drive.submit(now, request).unwrap();
    let mut done = Vec::new();
    let at = drive.next_event().unwrap();
    drive.advance(at, &mut done);
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].spent.total_ns(), done[0].at - now, "the parts add up");
    done[0]
}

#[test]
fn the_parts_of_a_read_are_those_of_the_specification() {
    let mut drive = Drive::new(&spec()).unwrap();
    // Sector 50 of the first track: half a turn after the index mark, overhead 0.5 ms before.
    let first = one(&mut drive, 0, read(0, 50, 1));
    assert_eq!(first.spent.overhead_ns, MILLIS / 2);
    assert_eq!(first.spent.rotation_ns, 5 * MILLIS - MILLIS / 2);
    assert_eq!(first.at, 5 * MILLIS + 100_000 + 10_000);
    // The same sector of the next cylinder: its track begins 3·10 + 25 sectors later.
    let next = one(&mut drive, first.at, read(1, 450, 1));
    assert_eq!(
        next.spent.seek_ns,
        drive.motion().travel(Place::default(), &drive.motion().geometry().run(450), false,).0
    );
    assert_eq!((next.at - 110_000) % (10 * MILLIS), 500_000);
}

#[test]
fn only_writes_that_do_not_continue_a_write_leave_the_bus_once_more() {
    let mut spec = cached();
    if let Some(cache) = &mut spec.cache {
        cache.fast_write = FastWrite::None;
    }
    let extra = ExtraDisconnect { command_ms: 2.0, seek_delta_ms: 0.25, ..Default::default() };
    spec.overheads.extra_disconnect = Some(extra);
    let mut drive = Drive::new(&spec).unwrap();
    let requests = [write(0, 5000, 8), write(1, 7000, 8), write(2, 7008, 8), read(3, 9000, 8)];
    let mut overheads = Vec::new();
    let mut now = 0;
    for request in requests.into_iter().chain([write(4, 5000, 8)]) {
        let done = one(&mut drive, now, request);
        overheads.push(done.spent.overhead_ns as f64 / MILLIS as f64);
        now = done.at;
    }
    assert_eq!(overheads, [0.5, 2.75, 0.5, 0.5, 0.5]);
}

#[test]
fn a_write_is_not_begun_before_the_least_time_for_a_seek() {
    let mut spec = spec();
    let at = |spec: &Spec| {
        let mut drive = Drive::new(spec).unwrap();
        // Over the sector where the head is when the controller is done, and data has come.
        one(&mut drive, 0, write(0, 10, 1)).at
    };
    let soon = at(&spec);
    spec.overheads.minimum_seek_delay_ms = 0.25;
    assert_eq!(at(&spec), soon, "0.5 ms of overhead and 0.25 are over before the sector comes");
    spec.overheads.minimum_seek_delay_ms = 0.75;
    assert_eq!(at(&spec), soon + 10 * MILLIS, "it has passed");
}

#[test]
fn sequential_reads_have_the_bandwidth_of_their_zone() {
    for (zone, sectors, skew, cylinder_skew) in [(0, 100, 10, 25), (1, 80, 8, 20), (2, 60, 6, 15)] {
        let drive = Drive::new(&spec()).unwrap();
        let motion = drive.motion();
        let first = [0, 40_000, 72_000][zone];
        // Nine whole cylinders: as many turns as tracks, and the skews.
        let access = motion.access(first, 36 * sectors, false, Place::default(), 0);
        let turns = 36.0 + f64::from(27 * skew + 8 * cylinder_skew) / f64::from(sectors);
        let expected = turns * 10e6;
        let took = (access.end - access.start) as f64;
        assert!((took - expected).abs() < 100.0, "zone {zone}: {took} {expected}");
    }
}

#[test]
fn zero_latency_reads_a_track_in_one_turn() {
    let drive = Drive::new(&spec()).unwrap();
    let place = Place::default();
    for at in [0, 1_234_567, 5_000_000, 9_999_999] {
        let plain = drive.motion().access_from(0, 100, false, place, at, 0, false);
        let zero = drive.motion().access_from(0, 100, false, place, at, 0, true);
        assert!(zero.end <= plain.end);
        assert!(zero.end - at <= 10_100_001, "{at}: {zero:?}");
    }
}

#[test]
fn reading_ahead_streams_and_hits_cost_no_rotation() {
    let mut drive = Drive::new(&cached()).unwrap();
    let mut now = one(&mut drive, 0, read(0, 0, 8)).at;
    for tag in 1..40 {
        now += 3 * MILLIS;
        let done = one(&mut drive, now, read(tag, tag * 8, 8));
        assert!(done.at - now <= 600_000, "{tag}: {done:?}");
        now = done.at;
    }
}

#[test]
fn writes_are_reported_early_and_a_flush_waits_for_them() {
    let mut drive = Drive::new(&cached()).unwrap();
    let done = one(&mut drive, 0, write(0, 50_000, 8));
    assert_eq!(done.at, 580_000);
    assert!(done.media_end > done.at + MILLIS);
    let flush = Request { tag: 1, op: Op::Flush, lbn: 0, sectors: 0, fua: false };
    assert_eq!(one(&mut drive, done.at, flush).at, done.media_end);
    let forced = one(&mut drive, done.media_end, Request { fua: true, ..write(2, 9_000, 8) });
    assert_eq!(forced.at, forced.media_end);
}

#[test]
fn the_formula_stands_behind_the_same_interface() {
    let mut spec = spec();
    spec.simple = Some(Simple { positioning_ms: 8.0, mb_per_s: 51.2 });
    let mut drive = Drive::new(&spec).unwrap();
    assert_eq!(one(&mut drive, 0, read(0, 7_777, 100)).at, 500_000 + 8 * MILLIS + MILLIS);
}

#[test]
fn out_of_range_is_refused() {
    let mut drive = Drive::new(&spec()).unwrap();
    let capacity = drive.sectors();
    assert!(drive.submit(0, read(0, capacity - 1, 2)).is_err());
    assert!(drive.submit(0, read(0, u64::MAX, 2)).is_err());
    assert_eq!(drive.next_event(), None);
}

/// Mean time of a request with `depth` outstanding.
fn mean(spec: &Spec, depth: u64, count: u64) -> f64 {
    let mut drive = Drive::new(spec).unwrap();
    let mut rng = Rng::stream(7, "mean");
    let (mut now, mut served, mut done) = (0, 0, Vec::new());
    for tag in 0..depth {
        drive.submit(0, read(tag, rng.below(drive.sectors() - 8), 8)).unwrap();
    }
    while served < count {
        now = drive.next_event().unwrap();
        drive.advance(now, &mut done);
        served += done.len() as u64;
        for completion in done.drain(..) {
            let lbn = rng.below(drive.sectors() - 8);
            drive.submit(now, read(completion.tag, lbn, 8)).unwrap();
        }
    }
    now as f64 / count as f64
}

#[test]
fn disciplines_rank_as_they_should() {
    let mut spec = spec();
    let mut with = |discipline| {
        spec.queue = Queue { depth: 32, discipline, age_weight: 0.1 };
        mean(&spec, 32, 5_000)
    };
    let fcfs = with(Discipline::Fcfs);
    let sstf = with(Discipline::Sstf);
    let sptf = with(Discipline::Sptf);
    let aged = with(Discipline::AgedSptf);
    assert!(sptf < sstf && sstf < fcfs, "{sptf} {sstf} {fcfs}");
    assert!(aged < fcfs && with(Discipline::Look) < fcfs && with(Discipline::CLook) < fcfs);
    // The physical bound is the overhead and the pass over eight sectors.
    assert!(sptf > 500_000.0 + 8.0 * 1e7 / 100.0);
}

fn any_spec() -> impl Strategy<Value = Spec> {
    (any::<bool>(), 0..6_usize, 1..40_u32, any::<bool>()).prop_map(
        |(cache, discipline, depth, serpentine)| {
            let mut spec = if cache { cached() } else { spec() };
            let all = [
                Discipline::Fcfs,
                Discipline::Look,
                Discipline::CLook,
                Discipline::Sstf,
                Discipline::Sptf,
                Discipline::AgedSptf,
            ];
            spec.queue = Queue { depth, discipline: all[discipline], age_weight: 0.5 };
            if serpentine {
                spec.mapping = Mapping::Serpentine { band: 7 };
                spec.seek = Seek::Points(vec![(1, 1.0), (300, 9.0)]);
            }
            spec
        },
    )
}

proptest! {
    #[test]
    fn everything_is_answered_once_and_time_never_runs_back(
        spec in any_spec(),
        seed in any::<u64>(),
    ) {
        let run = || {
            let mut drive = Drive::new(&spec).unwrap();
            let mut rng = Rng::stream(seed, "requests");
            let (mut now, mut done) = (0, Vec::new());
            let mut sent = Vec::new();
            for tag in 0..200 {
                now += rng.below(8 * MILLIS);
                let sectors = 1 + rng.below(250) as u32;
                let lbn = match rng.below(3) {
                    0 => sent.last().map_or(0, |&(_, end)| end),
                    _ => rng.below(drive.sectors()),
                };
                let lbn = lbn.min(drive.sectors() - u64::from(sectors));
                let request = match rng.below(8) {
                    0 => Request { op: Op::Flush, lbn: 0, sectors: 0, ..read(tag, 0, 0) },
                    1..=3 => write(tag, lbn, sectors),
                    _ => read(tag, lbn, sectors),
                };
                drive.advance(now, &mut done);
                drive.submit(now, request).unwrap();
                sent.push((now, lbn + u64::from(sectors)));
            }
            while let Some(at) = drive.next_event() {
                drive.advance(at, &mut done);
            }
            (sent, done)
        };
        let (sent, done) = run();
        prop_assert_eq!(done.len(), sent.len());
        prop_assert!(done.windows(2).all(|pair| pair[0].at <= pair[1].at));
        for completion in &done {
            let arrived = sent[completion.tag as usize].0;
            prop_assert_eq!(arrived + completion.spent.total_ns(), completion.at);
        }
        prop_assert_eq!(run().1, done, "the same seed gives the same run");
    }
}
