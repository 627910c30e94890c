//! A key-value store on a write-ahead log: each change is a record, and a snapshot replaces the
//! records in front of it.
//!
//! `cargo run -p seekless-formats --example write_ahead_log`

use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_formats::log::{Error, Log, LogOptions, Lsn};
use std::collections::BTreeMap;

/// The store. What it holds follows from the records of its log.
struct Store<D> {
    log: Log<D>,
    values: BTreeMap<String, String>,
}

impl<D: Disk> Store<D> {
    fn open(disk: D) -> Result<Store<D>, Error> {
        let mut log = Log::open(disk)?;
        let mut values = BTreeMap::new();
        for record in log.records(Lsn(0)) {
            let (_, record) = record?;
            apply(&mut values, &String::from_utf8_lossy(&record));
        }
        Ok(Store { log, values })
    }

    /// Sets some values. All of them survive a crash, or none: they are one record.
    fn set(&mut self, changes: &[(&str, &str)]) -> Result<(), Error> {
        let lines: Vec<String> =
            changes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let record = lines.join("\n");
        // A snapshot needs space, too.
        if 2 * self.log.stat().used > self.log.stat().size {
            self.snapshot()?;
        }
        self.log.append(record.as_bytes())?;
        self.log.sync()?;
        apply(&mut self.values, &record);
        Ok(())
    }

    /// A record with all values makes those in front of it useless. It is durable before they go.
    fn snapshot(&mut self) -> Result<(), Error> {
        let all = self.values.iter().map(|(key, value)| format!("{key}={value}"));
        let all: Vec<String> = all.collect();
        let at = self.log.append(all.join("\n").as_bytes())?;
        self.log.trim(at)
    }
}

fn apply(values: &mut BTreeMap<String, String>, record: &str) {
    for (key, value) in record.lines().filter_map(|line| line.split_once('=')) {
        values.insert(key.to_owned(), value.to_owned());
    }
}

/// Runs the store on a volume of 128 KiB in memory, which a process uses again and again.
pub fn main() -> Result<(), Error> {
    let mut volume = Cells::new(32);
    Log::create(MediumDisk(&mut volume), &LogOptions { id: 7, unit: None })?;
    for round in 0..200 {
        let mut store = Store::open(MediumDisk(&mut volume))?;
        let text = format!("{round:900}");
        store.set(&[("round", &text), (&format!("key {}", round % 10), &text)])?;
        // The process ends here without a word.
    }
    let store = Store::open(MediumDisk(&mut volume))?;
    assert_eq!(store.values.len(), 11, "ten keys and the round");
    assert_eq!(store.values["round"].trim(), "199");
    println!("{} values in {} bytes of log", store.values.len(), store.log.stat().used);
    Ok(())
}
