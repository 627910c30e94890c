//! A store that appends to a log, with its crash test.
//!
//! `cargo run --example log_store` shows the report of the store as it should be, and the story of
//! the same store without its sync.

use seekless_crashfs::{CheckError, Disk, Model, Report, fs};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Keys and values of one byte each, in a file of records: key, value, sum of both.
struct Store {
    log: fs::File,
    values: BTreeMap<u8, u8>,
    /// The planted bug: the product forgets its sync.
    forgets_sync: bool,
}

impl Store {
    fn open(forgets_sync: bool) -> io::Result<Store> {
        let mut log = fs::File::options().read(true).append(true).create(true).open("log")?;
        // The name of a new log must be durable before anything in it is promised.
        fs::File::open("/")?.sync_all()?;
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut log, &mut bytes)?;
        let whole = bytes.chunks_exact(3).take_while(|record| record[2] == sum(record));
        let records: Vec<&[u8]> = whole.collect();
        // A record that a crash has cut off must not stay before the next one.
        log.set_len(3 * records.len() as u64)?;
        let values = records.iter().map(|record| (record[0], record[1])).collect();
        Ok(Store { log, values, forgets_sync })
    }

    fn put(&mut self, key: u8, value: u8) -> io::Result<()> {
        let mut record = [key, value, 0];
        record[2] = sum(&record);
        self.log.write_all(&record)?;
        if !self.forgets_sync {
            self.log.sync_data()?;
        }
        self.values.insert(key, value);
        Ok(())
    }
}

/// Never 0, so that zeros are no record.
fn sum(record: &[u8]) -> u8 {
    record[0].wrapping_add(record[1]) | 0x80
}

fn crash_test(forgets_sync: bool) -> Result<Report, CheckError> {
    let disk = Disk::new();
    let run = disk.run(|acks| {
        let mut store = Store::open(forgets_sync)?;
        (1..=5).try_for_each(|key| {
            store.put(key, 10 * key)?;
            acks.push(key);
            io::Result::Ok(())
        })
    });
    run.expect("the disk in memory has room");
    disk.crashes(Model::USUAL).check(|acked| {
        let store = Store::open(false)?;
        for key in acked {
            let found = store.values.get(key);
            if found != Some(&(10 * key)) {
                return Err(format!("key {key} has {found:?}").into());
            }
        }
        Ok(())
    })
}

fn main() {
    for (name, forgets_sync) in [("as it should be", false), ("without its sync", true)] {
        println!("the store {name}\n");
        match crash_test(forgets_sync) {
            Ok(report) => println!("{report}"),
            Err(error) => println!("{error}"),
        }
    }
}

#[test]
fn the_store_is_good_and_without_its_sync_it_is_not() {
    let report = crash_test(false).expect("the store syncs");
    assert!(report.models.iter().all(|one| one.states > 5), "{report}");
    let text = crash_test(true).expect_err("a sync is missing").to_string();
    assert!(text.contains("sync_all of \"/log\" before that is missing"), "{text}");
}
