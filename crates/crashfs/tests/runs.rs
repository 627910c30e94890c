//! Several runs, long runs, threads of the product, and the bounds of a check.

use seekless_crashfs::{CheckError, Disk, Model, Report, fs, thread};
use std::io::{self, Write};
use std::time::Instant;

/// Appends one byte a value to a log, with a sync after each, or with none.
fn append(values: std::ops::Range<u8>, syncs: bool, mut ack: impl FnMut(u8)) -> io::Result<()> {
    let mut log = fs::File::options().append(true).create(true).open("log")?;
    if syncs {
        fs::File::open("/")?.sync_all()?;
    }
    for value in values {
        log.write_all(&[value])?;
        if syncs {
            log.sync_data()?;
            ack(value);
        }
    }
    Ok(())
}

fn starts_with(wanted: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let log = fs::read("log").unwrap_or_default();
    if log.starts_with(wanted) { Ok(()) } else { Err(format!("{log:?}").into()) }
}

#[test]
fn a_second_run_goes_on_where_the_first_one_ended() {
    let disk = Disk::new();
    for values in [0..3, 3..6] {
        disk.run(|acks| append(values, true, |value| acks.push(value)))
            .expect("the disk in memory has room");
    }
    let mut most = 0;
    let report = disk.crashes(Model::USUAL).check(|acked| {
        most = most.max(acked.len());
        starts_with(acked)
    });
    let report = report.expect("each value is synced");
    assert_eq!(most, 6, "{report}");
}

#[test]
fn a_long_run_is_checked_in_seconds() {
    let disk = Disk::new();
    let values = || (0..250).cycle().take(1000);
    disk.run(|acks| {
        let mut log = fs::File::create("log")?;
        fs::File::open("/")?.sync_all()?;
        for value in values() {
            log.write_all(&[value])?;
            log.sync_data()?;
            acks.push(value);
        }
        io::Result::Ok(())
    })
    .expect("the disk in memory has room");
    let (start, mut checks) = (Instant::now(), 0);
    let report = disk.crashes(Model::USUAL).check(|acked| {
        checks += 1;
        starts_with(acked)
    });
    let report = report.expect("each value is synced");
    println!("{report}{checks} checks in {:?}", start.elapsed());
    assert!(report.models.iter().all(|one| one.cuts > 1000), "{report}");
    // Each state that a program can tell apart is checked once for all models.
    let states: usize = report.models.iter().map(|one| one.states).sum();
    assert!(checks > 1000 && checks < states, "{checks} of {states}");
}

/// 40 bytes that no sync covers, of which the check wants a prefix in which no byte is missing.
fn unsynced(bounds: impl Fn(Disk<u8>) -> Result<Report, CheckError>) -> Report {
    let disk = Disk::new();
    disk.run(|_| append(1..41, false, |_| ())).expect("the disk in memory has room");
    match bounds(disk) {
        Err(CheckError::Red(report)) => report,
        other => panic!("{other:?}"),
    }
}

fn has_holes() -> Result<(), Box<dyn std::error::Error>> {
    match fs::read("log").unwrap_or_default().contains(&0) {
        true => Err("a hole".into()),
        false => Ok(()),
    }
}

#[test]
fn the_story_of_many_changes_is_short_and_names_few() {
    let report = unsynced(|disk| disk.crashes([Model::POSIX]).check(|_| has_holes()));
    let story = report.models[0].bad.clone().unwrap_or_default();
    assert!(story.lines().count() < 20, "{story}");
    assert!(story.contains(" more, most of them "), "{story}");
    assert!(story.contains("check: a hole"), "{story}");
}

#[test]
fn bounds_are_kept_and_a_seed_decides_samples() {
    let count = |exhaustive: u32, samples: u32| {
        let disk = Disk::<u8>::new();
        disk.run(|_| append(1..41, false, |_| ())).expect("the disk in memory has room");
        let crashes = disk.crashes([Model::POSIX]).exhaustive(exhaustive).samples(samples);
        let report = crashes.check(|_| Ok(())).expect("the check accepts all");
        report.models[0].states
    };
    assert!(count(4, 8) <= 8, "{}", count(4, 8));
    assert!(count(4, 60) > count(4, 8));
    let seen = |seed: u64| {
        let disk = Disk::<u8>::new();
        disk.run(|_| append(1..41, false, |_| ())).expect("the disk in memory has room");
        let mut seen = Vec::new();
        let check = |_: &[u8]| {
            seen.push(fs::read("log").unwrap_or_default());
            Ok(())
        };
        disk.crashes([Model::POSIX]).seed(seed).check(check).expect("the check accepts all");
        seen
    };
    assert_eq!(seen(1), seen(1));
    assert_ne!(seen(1), seen(2));
}

#[test]
fn threads_that_the_product_starts_are_on_its_disk() {
    /// A product that writes in a thread of its own.
    fn write(name: &'static str) -> io::Result<()> {
        let writer = thread::spawn(move || -> io::Result<()> {
            let mut file = fs::File::create(name)?;
            file.write_all(name.as_bytes())?;
            file.sync_all()?;
            fs::File::open("/")?.sync_all()
        });
        writer.join().expect("the writer does not panic")
    }
    let disk = Disk::new();
    disk.run(|acks| {
        for name in ["a", "b"] {
            write(name)?;
            acks.push(name);
        }
        io::Result::Ok(())
    })
    .expect("the disk in memory has room");
    let report = disk.crashes(Model::USUAL).check(|acked| {
        assert!(!fs::exists("checked")?, "a state has what the check of another one wrote");
        write("checked")?;
        assert_eq!(fs::read("checked")?, b"checked");
        for name in acked {
            assert_eq!(fs::read_to_string(name)?, *name);
        }
        Ok(())
    });
    report.expect("each file is synced");
}
