//! A crash test of a crate that knows nothing of this one: a counter in a file.

use seekless_crashfs::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The product: it uses `fs` as it would use `std::fs`.
struct Counter {
    path: PathBuf,
    value: u64,
    syncs: bool,
}

impl Counter {
    fn open(path: impl AsRef<Path>, syncs: bool) -> io::Result<Counter> {
        let path = path.as_ref().to_path_buf();
        let value = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            text => text?.parse().map_err(io::Error::other)?,
        };
        Ok(Counter { path, value, syncs })
    }

    fn increment(&mut self) -> io::Result<u64> {
        let new = self.path.with_extension("new");
        let mut file = fs::File::create(&new)?;
        write!(file, "{}", self.value + 1)?;
        if self.syncs {
            file.sync_all()?;
        }
        fs::rename(&new, &self.path)?;
        fs::File::open("/")?.sync_all()?;
        self.value += 1;
        Ok(self.value)
    }
}

// The twenty lines.
use seekless_crashfs::{CheckError, Disk, Model, Report};

fn crash_test(syncs: bool) -> Result<Report, CheckError> {
    let disk = Disk::new();
    let run = disk.run(|acks| {
        let mut counter = Counter::open("counter", syncs)?;
        for _ in 0..3 {
            acks.push(counter.increment()?);
        }
        io::Result::Ok(())
    });
    run.expect("the disk in memory has room");
    disk.crashes(Model::USUAL).check(|acked| {
        let value = Counter::open("counter", syncs)?.value;
        let promised = acked.last().copied().unwrap_or(0);
        if value >= promised { Ok(()) } else { Err(format!("{value} after {promised}").into()) }
    })
}

#[test]
fn a_counter_that_syncs_survives_every_crash() -> Result<(), CheckError> {
    crash_test(true).map(drop)
}

#[test]
fn the_story_in_the_readme_is_the_one_of_a_counter_that_does_not() {
    let text = crash_test(false).expect_err("a sync is missing").to_string();
    let readme = include_str!("../README.md");
    assert!(readme.contains(text.trim_end()), "{text}");
}
