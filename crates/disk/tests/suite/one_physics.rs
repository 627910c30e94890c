//! A disk that layouts plan on is computed from its own tables. They agree with the model of all
//! other disks: naming a size or a scheduler changes nothing else.

use seekless_disk::{Disk, ReadAhead, Spec, specs};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::io::{Breakdown, Io};
use seekless_engine::rng::Rng;
use seekless_engine::units::Time;

fn disk(spec: &Spec) -> Disk {
    Disk::new(spec, Box::new(Cells::new(spec.capacity_blocks()))).expect("the disk is sound")
}

/// Requests with sequential runs, repeated reads, and pauses.
fn requests(seed: u64, blocks: u64, count: u64) -> Vec<(Time, Io)> {
    let mut rng = Rng::stream(seed, "requests");
    let (mut now, mut at) = (0, 0);
    let request = |tag| {
        let length = [1, 1, 1, 2, 5, 16, 40][rng.below(7) as usize];
        at = match rng.below(4) {
            0 => rng.below(blocks),
            1 => at.saturating_sub(rng.below(12)),
            _ => at,
        };
        if at + u64::from(length) > blocks {
            at = 0;
        }
        now += [0, 0, 100_000, 3_000_000, 40_000_000][rng.below(5) as usize];
        let io = match rng.below(12) {
            0 => Io::write(tag, at, Data::stamp(length, at, tag)),
            1 => Io::trim(tag, at, length),
            2 => Io::flush(tag),
            _ => Io::read(tag, at, length),
        };
        at += u64::from(length);
        (now, io)
    };
    (0..count).map(request).collect()
}

/// When each request is complete, and where its time went.
fn course(mut disk: Disk, requests: Vec<(Time, Io)>) -> Vec<(u64, Time, Breakdown)> {
    let (mut found, mut done) = (Vec::new(), Vec::new());
    let mut reap = |disk: &mut Disk, until: Time, done: &mut Vec<_>| {
        while let Some(next) = disk.next_event().filter(|&next| next <= until) {
            disk.reap(next, done);
            found.extend(done.drain(..).map(|one: seekless_engine::io::Done| {
                one.outcome.expect("nothing fails");
                (one.tag, next, one.spent)
            }));
        }
    };
    for (now, io) in requests {
        reap(&mut disk, now, &mut done);
        disk.submit(now, io);
    }
    reap(&mut disk, Time::MAX, &mut done);
    found
}

#[test]
fn tables_and_model_agree_to_the_nanosecond() {
    let mut variants = Vec::new();
    for name in ["hp97560", "st19101", "desktop7200-bare"] {
        let spec = specs::find(name).expect("it is built in");
        for policy in [ReadAhead::None, ReadAhead::Forward, ReadAhead::WholeTrack] {
            for fence in [40, spec.buffer.fence_sectors] {
                let mut spec = spec.clone();
                spec.buffer.read_ahead = policy;
                spec.buffer.fence_sectors = fence;
                spec.buffer.bus_mb_per_s = 7.3;
                variants.push(spec.clone());
                // Switching heads takes longer than a short move of the arm.
                spec.head_switch_ms = 4.1;
                variants.push(spec);
            }
        }
    }
    for (seed, plain) in (0..).zip(variants) {
        assert!(plain.is_plain());
        let model = Spec { capacity_sectors: Some(plain.capacity_sectors()), ..plain.clone() };
        assert!(!model.is_plain());
        let requests = requests(seed, plain.capacity_blocks(), 2000);
        let expected = course(disk(&plain), requests.clone());
        let found = course(disk(&model), requests.clone());
        assert_eq!(found.len(), requests.len());
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let (spec, io) = (&plain.buffer, &requests[index]);
            assert_eq!(found, expected, "seed {seed}, {}, {spec:?}, {io:?}", plain.name);
        }
    }
}
