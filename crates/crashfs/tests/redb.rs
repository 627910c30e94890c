//! A published database in crash states: redb 4.6, a copy-on-write B-tree, through its own trait
//! for storage.

use redb::{Database, ReadableDatabase, StorageBackend, TableDefinition};
use seekless_crashfs::{CheckError, Disk, Model, Report, fs};
use std::error::Error;
use std::io;

const TABLE: TableDefinition<u64, u64> = TableDefinition::new("squares");

/// What redb does with `std::fs::File`, on the disk of the test.
#[derive(Debug)]
struct File {
    file: fs::File,
    syncs: bool,
}

impl StorageBackend for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.syncs { self.file.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}

fn open(syncs: bool) -> Result<Database, Box<dyn Error>> {
    let file = fs::File::options().read(true).write(true).create(true).open("squares.redb")?;
    Ok(Database::builder().set_cache_size(1 << 20).create_with_backend(File { file, syncs })?)
}

fn commit(database: &Database, key: u64) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(TABLE)?.insert(key, key * key)?;
    transaction.commit()?;
    Ok(())
}

fn look(database: &Database, keys: &[u64]) -> Result<(), Box<dyn Error>> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TABLE) {
        Err(redb::TableError::TableDoesNotExist(_)) if keys.is_empty() => return Ok(()),
        table => table?,
    };
    for key in keys {
        let found = table.get(key)?.map(|value| value.value());
        if found != Some(key * key) {
            return Err(format!("key {key} has {found:?}").into());
        }
    }
    Ok(())
}

/// The database is there before the run if it is `made`.
fn crash_test(made: bool, syncs: bool) -> Result<Report, CheckError> {
    let disk = Disk::new();
    if made {
        let _entered = disk.enter();
        drop(open(true).expect("the disk in memory has room"));
    }
    let run = disk.run(|acks| {
        let database = open(syncs)?;
        for key in 1..=4 {
            commit(&database, key)?;
            acks.push(key);
        }
        Ok::<(), Box<dyn Error>>(())
    });
    run.expect("the disk in memory has room");
    disk.crashes(Model::USUAL).check(|acked| look(&open(true)?, acked))
}

#[test]
fn redb_keeps_what_it_commits_on_ext4_and_xfs() {
    let report = crash_test(true, true).expect("redb syncs");
    println!("{report}");
    assert!(report.models.iter().filter(|one| one.bad.is_none()).all(|one| one.states > 50));
}

#[test]
fn redb_on_storage_that_does_not_sync_loses_commits() {
    let result = crash_test(true, false);
    assert!(matches!(result, Err(CheckError::Red(_))), "{result:?}");
}

/// redb writes its magic number last when it makes a file, and opens none without it unless the
/// file is empty. So a crash in `Database::create` leaves a file that must be removed by hand.
#[test]
fn redb_does_not_open_a_file_whose_creation_was_cut_off() {
    let text = crash_test(false, true).expect_err("the magic number comes last").to_string();
    assert!(text.contains("Not a redb database: magic number mismatch"), "{text}");
    assert!(text.contains("the power goes before sync 1 is answered; nothing was ack"), "{text}");
}
