use super::disk::Hub;
use super::memory::Memory;
use super::plan::{BadFault, Fault, Unflushed};
use super::store::Store;
use crate::control::{Command, parse};
use seekless_crash::fate::Fate;
use seekless_crash::faults::Blocks;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::Disk as _;
use seekless_engine::io::{Io, IoError, Outcome};
use seekless_engine::rng::Rng;
use seekless_engine::units::MILLIS;
use std::collections::BTreeSet;

fn hub(faults: &str) -> Hub {
    hub_over(Store::Memory(Memory::new(64)), faults)
}

fn hub_over(store: Store, faults: &str) -> Hub {
    let hub = Hub::new(store);
    let faults: Vec<Fault> =
        faults.split_whitespace().map(|one| one.parse().expect("it works")).collect();
    hub.arm(&faults).expect("the device has these blocks");
    hub
}

fn arm(hub: &Hub, fault: &str) {
    hub.arm(&[fault.parse().expect("a fault")]).expect("the device has these blocks");
}

/// What is armed, in the words of the command line.
fn armed(hub: &Hub) -> Vec<String> {
    hub.armed().iter().map(ToString::to_string).collect()
}

/// What a request comes to, at once.
fn one(hub: &Hub, io: Io) -> Outcome {
    try_one(hub, 0, io).expect("answered at once")
}

fn try_one(hub: &Hub, now: u64, io: Io) -> Option<Outcome> {
    let mut device = hub.device();
    let mut done = Vec::new();
    device.submit(now, io);
    device.reap(now, &mut done);
    assert!(done.len() <= 1);
    done.pop().map(|one| one.outcome)
}

fn write(hub: &Hub, at: u64, version: u64) -> Outcome {
    one(hub, Io::write(1, at, Data::stamp(1, at, version)))
}

/// The version that each of the first blocks has; 0 for zeros, 99 for a mixture.
fn versions(hub: &Hub, blocks: u64) -> Vec<u64> {
    let mut disk = hub.clone();
    let found = |at: u64| {
        let found = disk.read(at, 1).expect("it works").to_bytes();
        (0..20)
            .find(|&version| match version {
                0 => found == Data::zeros(1).to_bytes(),
                _ => found == Data::stamp(1, at, version).to_bytes(),
            })
            .unwrap_or(99)
    };
    (0..blocks).map(found).collect()
}

#[test]
fn what_was_flushed_survives_and_the_rest_is_as_told() {
    for (how, expected) in [("lose", vec![1, 1, 0]), ("keep", vec![2, 1, 2])] {
        let hub = hub(&format!("unflushed={how}"));
        write(&hub, 0, 1).expect("it works");
        write(&hub, 1, 1).expect("it works");
        one(&hub, Io::flush(2)).expect("it works");
        write(&hub, 0, 2).expect("it works");
        write(&hub, 2, 2).expect("it works");
        assert_eq!(versions(&hub, 3), [2, 1, 2], "the cache is seen");
        hub.cut("test");
        assert!(hub.notice_cut() && !hub.notice_cut());
        assert_eq!(write(&hub, 0, 3), Err(IoError::PowerOff));
        assert_eq!(one(&hub, Io::read(1, 0, 1)), Err(IoError::PowerOff));
        hub.power_on();
        assert_eq!(versions(&hub, 3), expected, "{how}");
    }
}

#[test]
fn seeds_reach_every_combination_and_repeat() {
    let after = |seed: u64| {
        let hub = hub(&format!("seed={seed} unflushed=reorder"));
        (0..3).for_each(|at| assert!(write(&hub, at, 1).is_ok()));
        hub.cut("test");
        hub.power_on();
        versions(&hub, 3)
    };
    let all: BTreeSet<Vec<u64>> = (0..200).map(after).collect();
    assert_eq!(all.len(), 8, "{all:?}");
    assert_eq!(after(7), after(7));
}

#[test]
fn cuts_in_order_keep_a_prefix_and_tears_mix_sectors() {
    let mut torn = 0;
    for seed in 0..60 {
        let disk = hub(&format!("seed={seed} unflushed=order"));
        (0..4).for_each(|at| assert!(write(&disk, at, 1).is_ok()));
        disk.cut("test");
        let kept = versions(&disk, 4);
        assert!(kept.is_sorted_by(|a, b| a >= b), "{kept:?} is not a prefix");
        let disk = hub(&format!("seed={seed}"));
        write(&disk, 0, 1).expect("it works");
        one(&disk, Io::flush(1)).expect("it works");
        write(&disk, 0, 2).expect("it works");
        disk.cut("test");
        let cut = disk.last_cut().expect("it works");
        let found = disk.clone().read(0, 1).expect("it works").to_bytes();
        let (old, new) = (Data::stamp(1, 0, 1).to_bytes(), Data::stamp(1, 0, 2).to_bytes());
        let Fate::Torn(marks) = &cut.outcomes[0].fate else { continue };
        torn += 1;
        for (sector, &mark) in marks.iter().enumerate() {
            let range = sector * 512..(sector + 1) * 512;
            let expected = if mark { &new[range.clone()] } else { &old[range.clone()] };
            assert_eq!(&found[range], expected);
        }
    }
    assert!(torn > 5, "only {torn} of 60 torn");
}

#[test]
fn forced_writes_survive_unless_the_drive_lies() {
    let disk = hub("unflushed=lose");
    write(&disk, 0, 1).expect("it works");
    one(&disk, Io::write(1, 0, Data::stamp(1, 0, 2)).with_fua()).expect("it works");
    write(&disk, 1, 1).expect("it works");
    disk.cut("test");
    assert_eq!(versions(&disk, 2), [2, 0]);
    let disk = hub("unflushed=lose lying-flush");
    one(&disk, Io::write(1, 0, Data::stamp(1, 0, 2)).with_fua()).expect("it works");
    write(&disk, 1, 1).expect("it works");
    one(&disk, Io::flush(1)).expect("it works");
    disk.cut("test");
    assert_eq!(versions(&disk, 2), [0, 0]);
    assert_eq!(disk.counts().lies, 2);
}

#[test]
fn the_power_goes_when_its_point_has_come() {
    let disk = hub("cut-at-write=3 unflushed=keep");
    write(&disk, 0, 1).expect("it works");
    write(&disk, 1, 1).expect("it works");
    assert_eq!(write(&disk, 2, 1), Err(IoError::PowerOff));
    assert_eq!(versions(&disk, 4), [1, 1, 1, 0], "it was under way");
    assert_eq!(disk.last_cut().expect("it works").cause, "cut-at-write=3");
    assert_eq!(disk.armed(), ["unflushed=keep".parse().expect("it works")]);
    disk.power_on();
    // Counted from now, and for flushes.
    arm(&disk, "cut-on-flush=2");
    one(&disk, Io::flush(1)).expect("it works");
    assert_eq!(one(&disk, Io::flush(1)), Err(IoError::PowerOff));
    disk.power_on();
    arm(&disk, "cut-at-random=5");
    let lived = (0..5).take_while(|&at| write(&disk, at, 2).is_ok()).count();
    assert!(lived < 5);
    assert_eq!(disk.counts().cuts, 3);
}

#[test]
fn a_drawn_cut_follows_the_seed_wherever_that_stands() {
    let lived = |faults: &str| {
        let disk = hub(faults);
        (0..).take_while(|at| write(&disk, at % 64, 1).is_ok()).count()
    };
    let mut points = BTreeSet::new();
    for seed in 0..20 {
        let behind = lived(&format!("cut-at-random=2000 seed={seed}"));
        assert_eq!(behind, lived(&format!("seed={seed} cut-at-random=2000")));
        points.insert(behind);
    }
    assert!(points.len() > 15, "{points:?}");
}

#[test]
fn ranges_fail_rot_and_fill_up() {
    let disk = hub("eio-read=8k+4k eio-write=12k+4k rot=16k+4k");
    for at in [0, 2, 4] {
        write(&disk, at, 1).expect("it works");
    }
    assert_eq!(write(&disk, 3, 1), Err(IoError::Media { block: 3 }));
    assert_eq!(one(&disk, Io::read(1, 0, 4)), Err(IoError::Media { block: 2 }));
    assert_eq!(versions(&disk, 2), [1, 0]);
    let rotten = one(&disk, Io::read(1, 3, 2)).expect("it works").to_bytes();
    let good = Data::stamp(1, 4, 1).to_bytes();
    let flipped: u32 = rotten[4096..].iter().zip(&good).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(flipped, 1);
    arm(&disk, "enospc=2");
    write(&disk, 0, 2).expect("it works");
    assert_eq!(write(&disk, 1, 2), Err(IoError::NoSpace));
    disk.clear();
    write(&disk, 3, 2).expect("it works");
    assert_eq!(versions(&disk, 5), [2, 0, 1, 2, 1]);
}

#[test]
fn slow_requests_come_later_and_stuck_ones_when_they_are_let_go() {
    let disk = hub("slow=5 stuck=2");
    assert_eq!(try_one(&disk, 0, Io::flush(1)), None);
    assert_eq!(disk.next_due(), Some(5 * MILLIS));
    let mut device = disk.device();
    let mut done = Vec::new();
    device.reap(5 * MILLIS, &mut done);
    assert_eq!(done.len(), 1);
    assert_eq!(try_one(&disk, 9 * MILLIS, Io::flush(2)), None);
    device.reap(1000 * MILLIS, &mut done);
    assert_eq!((done.len(), disk.next_due()), (1, None), "the second is stuck");
    disk.clear();
    device.reap(1000 * MILLIS, &mut done);
    assert_eq!((done.len(), done[1].tag), (2, 2));
    arm(&disk, "stuck");
    assert_eq!(try_one(&disk, 0, Io::flush(3)), None);
    disk.cut("test");
    device.reap(0, &mut done);
    assert_eq!(done[2].outcome, Err(IoError::PowerOff));
}

#[test]
fn what_is_slow_is_answered_when_it_is_cleared_and_nothing_waits_in_a_hurry() {
    let mut done = Vec::new();
    let disk = hub("slow=3600000");
    assert_eq!(try_one(&disk, 0, Io::flush(1)), None);
    disk.clear();
    disk.device().reap(1, &mut done);
    assert_eq!((done.len(), disk.next_due()), (1, None));
    let disk = hub("slow=3600000 stuck=2 lying-flush");
    assert_eq!(try_one(&disk, 0, Io::flush(1)), None);
    assert_eq!(try_one(&disk, 0, Io::flush(2)), None);
    disk.hurry();
    disk.device().reap(1, &mut done);
    assert_eq!(done.len(), 3);
    assert!(one(&disk, Io::flush(3)).is_ok(), "later ones do not wait, either");
    assert_eq!(armed(&disk), ["lying-flush"]);
}

#[test]
fn what_struck_or_was_replaced_is_armed_no_more() {
    let disk = hub("cut-at-write=1000 unflushed=lose eio=0+4k");
    for fault in ["cut-at-write=3", "unflushed=keep", "eio=0+4k", "eio-read=0+4k", "eio=0+4k"] {
        arm(&disk, fault);
    }
    assert_eq!(armed(&disk), ["cut-at-write=3", "unflushed=keep", "eio-read=0+4096", "eio=0+4096"]);
    arm(&disk, "cut-at-random=1");
    arm(&disk, "stuck");
    assert!(!armed(&disk).contains(&"cut-at-write=3".to_owned()));
    assert_eq!(try_one(&disk, 0, Io::flush(1)), None);
    assert!(!armed(&disk).contains(&"stuck=1".to_owned()), "it struck");
    disk.hurry();
    disk.device().reap(0, &mut Vec::new());
    // A write that fails is a write, too.
    assert_eq!(write(&disk, 0, 1), Err(IoError::PowerOff));
    assert_eq!(armed(&disk), ["unflushed=keep", "eio-read=0+4096", "eio=0+4096"]);
    assert_eq!(disk.last_cut().expect("a cut").outcomes, []);
    // What is asked without power counts for nothing.
    let disk = hub("stuck=2");
    disk.cut("test");
    assert_eq!(one(&disk, Io::flush(1)), Err(IoError::PowerOff));
    disk.power_on();
    assert!(one(&disk, Io::flush(1)).is_ok());
    assert_eq!(try_one(&disk, 0, Io::flush(2)), None);
}

#[test]
fn impossible_ranges_are_refused_and_endless_points_never_come() {
    let disk = hub("");
    for text in ["eio=100G+4k", "eio-read=256k+4k", "eio-write=252k+8k", "rot=0+1M"] {
        let faults = ["slow=1", text].map(|text| text.parse().expect("a fault"));
        let error = disk.arm(&faults).expect_err("there are 64 blocks").to_string();
        assert!(error.contains("has 262144 bytes") && error.contains("; choose"), "{error}");
        assert_eq!(armed(&disk), [""; 0], "all or nothing");
    }
    arm(&disk, "eio=252k+4k");
    for point in ["cut-at-write", "cut-on-flush", "enospc", "stuck"] {
        write(&disk, 0, 1).expect("it works");
        one(&disk, Io::flush(1)).expect("it works");
        arm(&disk, &format!("{point}={}", u64::MAX));
        write(&disk, 0, 2).expect("it works");
        one(&disk, Io::flush(1)).expect("it works");
    }
}

/// Some writes, trims and flushes; what every block has after those that no cut takes back, and
/// those that one may, in order.
fn busy(hub: &Hub, seed: u64) -> (Vec<u64>, Vec<(u64, u64, u64)>) {
    let mut rng = Rng::stream(seed, "writes");
    let (mut settled, mut open) = (vec![0; 12], Vec::new());
    for version in 1..18 {
        let (at, count) = (rng.below(10), 1 + rng.below(3));
        if rng.chance(0.1) {
            one(hub, Io::flush(1)).expect("it works");
            for (at, count, version) in open.drain(..) {
                settled[at as usize..(at + count) as usize].fill(version);
            }
        } else if rng.chance(0.2) {
            one(hub, Io::trim(1, at, count as u32)).expect("it works");
            open.push((at, count, 0));
        } else {
            let mut data = Data::none();
            (at..at + count).for_each(|at| data.append(Data::stamp(1, at, version)));
            one(hub, Io::write(1, at, data)).expect("it works");
            open.push((at, count, version));
        }
    }
    (settled, open)
}

#[test]
fn a_cut_leaves_what_was_flushed_and_what_it_says_was_kept_in_order() {
    for seed in 0..200 {
        let faults = format!("unflushed=reorder seed={seed}");
        let in_memory = hub(&faults);
        let elsewhere = hub_over(Store::Medium(Box::new(Cells::new(64))), &faults);
        for disk in [&in_memory, &elsewhere] {
            let (mut expected, open) = busy(disk, seed);
            let mut newest = expected.clone();
            open.iter().for_each(|&(at, count, version)| {
                newest[at as usize..(at + count) as usize].fill(version);
            });
            assert_eq!(versions(disk, 12), newest, "seed {seed}");
            disk.cut("test");
            let outcomes = disk.last_cut().expect("a cut").outcomes;
            assert_eq!(outcomes.len(), open.len());
            for ((at, count, version), outcome) in open.into_iter().zip(outcomes) {
                if outcome.fate == Fate::Kept {
                    expected[at as usize..(at + count) as usize].fill(version);
                }
            }
            assert_eq!(versions(disk, 12), expected, "seed {seed}");
        }
    }
}

#[test]
fn a_full_cache_writes_its_oldest_out() {
    let disk = hub("cache=8k unflushed=lose");
    (0..5).for_each(|at| assert!(write(&disk, at, 1).is_ok()));
    write(&disk, 4, 2).expect("it works");
    assert_eq!(disk.unflushed(), 2);
    assert_eq!(versions(&disk, 5), [1, 1, 1, 1, 2]);
    disk.cut("test");
    assert_eq!(versions(&disk, 5), [1, 1, 1, 1, 0]);
    // A trim can be lost, too.
    let disk = hub("unflushed=lose");
    write(&disk, 0, 1).expect("it works");
    one(&disk, Io::flush(1)).expect("it works");
    one(&disk, Io::trim(1, 0, 2)).expect("it works");
    assert_eq!(versions(&disk, 1), [0]);
    disk.cut("test");
    assert_eq!(versions(&disk, 1), [1]);
}

#[test]
fn faults_are_read_and_written_and_nonsense_is_named() {
    for text in [
        "cut-at-write=100",
        "cut-at-random=7",
        "cut-on-flush=1",
        "unflushed=reorder",
        "lying-flush",
        "eio=4096+8192",
        "eio-read=0+4096",
        "eio-write=0+4096",
        "enospc=3",
        "slow=2.5",
        "stuck=1",
        "rot=1048576+65536",
        "cache=4096",
        "seed=9",
    ] {
        let fault: Fault = text.parse().expect("it works");
        assert_eq!(fault.to_string(), text);
    }
    assert_eq!("rot=1M+64k".parse(), Ok(Fault::Rot(Blocks { from: 256, to: 272 })));
    assert_eq!("unflushed=tear".parse(), Ok(Fault::Unflushed(Unflushed::Tear)));
    for (text, why) in [
        ("cut-at-write=0", "there is no such point"),
        ("cut-at-write=x", "this is not a number"),
        ("cut-at-write", "this is not a number"),
        ("unflushed=some", "there is no such choice"),
        ("eio=1+4096", "not in whole blocks"),
        ("eio=0+0", "not in whole blocks"),
        ("eio=99999999999G+4k", "this is not a range"),
        ("slow=-1", "time does not run backwards"),
        ("slow=NaN", "this is no such number"),
        ("cache=1", "a cache holds a block at least"),
        ("lying-flush=1", "it takes no value"),
    ] {
        let error = text.parse::<Fault>().expect_err("it is refused").to_string();
        assert!(error.contains(why) && error.contains("; write "), "{error}");
    }
    let error = "melt".parse::<Fault>().expect_err("it is refused");
    assert_eq!(error, BadFault::Unknown("melt".into()));
    assert!(error.to_string().contains("known are cut-at-write=N"), "{error}");
}

#[test]
fn commands_are_read_and_nonsense_is_named() {
    assert_eq!(parse(r#"{"command":"cut"}"#), Ok(Command::Cut));
    let arm = parse(r#"{"command":"arm","faults":["slow=1"]}"#);
    assert_eq!(arm, Ok(Command::Arm(vec![Fault::Slow(MILLIS)])));
    for (line, why) in [
        ("cut", "not a command"),
        (r#"{"command":"explode"}"#, "unknown command `explode`"),
        (r#"{"command":"arm"}"#, "needs faults"),
        (r#"{"command":"cut","faults":["slow=1"]}"#, "only arm"),
        (r#"{"command":"arm","faults":["melt"]}"#, "unknown fault"),
        (r#"{"command":"cut","when":1}"#, "unknown field"),
    ] {
        let error = parse(line).expect_err("it is refused");
        assert!(error.contains(why), "{error}");
    }
}
