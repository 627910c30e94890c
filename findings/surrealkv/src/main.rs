//! Workloads and checks of surrealkv and okaywal, for `seekless crash-test`.
//!
//! usage: seekless-findings-logs 0.21.2|1.2.0|okaywal setup|run|check DIRECTORY

#[path = "../../rust/src/rows.rs"]
mod rows;

use anyhow::{Result, bail};
use rows::{Row, Verdict};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::exit;
use std::sync::{Arc, Mutex};

/// Rows that a workload commits without ROWS in the environment.
const ROWS: u64 = 8;
/// Bytes of a table in memory: small, so that rows are written to tables while the workload runs.
const TABLE: usize = 4096;
/// Exit codes of a check, as in `rust/src/main.rs`.
const LOST: i32 = 1;
const DAMAGED: i32 = 3;

/// One version of surrealkv. Both have the same interface.
macro_rules! surrealkv {
    ($name:ident, $version:ident) => {
        mod $name {
            use super::*;
            use $version::{Durability, Tree, TreeBuilder};

            fn open(directory: &Path) -> Result<Tree> {
                let builder = TreeBuilder::new().with_path(directory.join("d"));
                Ok(builder.with_max_memtable_size(TABLE).build()?)
            }

            pub async fn run(directory: &Path) -> Result<()> {
                let tree = open(directory)?;
                for number in 1..=rows::count(ROWS) {
                    let mut transaction = tree.begin()?;
                    transaction.set_durability(Durability::Immediate);
                    let key = number.to_be_bytes();
                    transaction.set(key.to_vec(), rows::content(number).into_bytes())?;
                    transaction.commit().await?;
                    rows::acknowledge(number)?;
                }
                Ok(tree.close().await?)
            }

            pub async fn read(directory: &Path) -> Result<Vec<Row>> {
                let tree = open(directory)?;
                let transaction = tree.begin()?;
                let mut found = Vec::new();
                for number in 1..=rows::count(ROWS) {
                    if let Some(value) = transaction.get(number.to_be_bytes().to_vec())? {
                        found.push((number, String::from_utf8_lossy(&value).into_owned()));
                    }
                }
                Ok(found)
            }
        }
    };
}

surrealkv!(old, surrealkv_0);
surrealkv!(new, surrealkv);

/// Entries of a log of okaywal.
#[derive(Clone, Debug, Default)]
struct Entries(Arc<Mutex<BTreeMap<u64, String>>>);

impl okaywal::LogManager for Entries {
    fn recover(&mut self, entry: &mut okaywal::Entry<'_>) -> io::Result<()> {
        let Some(chunks) = entry.read_all_chunks()? else { return Ok(()) };
        let bytes = chunks.concat();
        let (number, content) = bytes.split_at(size_of::<u64>());
        let number = u64::from_be_bytes(number.try_into().map_err(io::Error::other)?);
        let content = String::from_utf8_lossy(content).into_owned();
        self.0.lock().map_err(|_| io::Error::other("poisoned"))?.insert(number, content);
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: okaywal::EntryId,
        _: &mut okaywal::SegmentReader,
        _: &okaywal::WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

fn log(directory: &Path) -> Result<(okaywal::WriteAheadLog, Entries)> {
    let entries = Entries::default();
    let log = okaywal::WriteAheadLog::recover(directory.join("d"), entries.clone())?;
    Ok((log, entries))
}

fn run_log(directory: &Path) -> Result<()> {
    let (log, _) = log(directory)?;
    for number in 1..=rows::count(ROWS) {
        let mut entry = log.begin_entry()?;
        let content = rows::content(number);
        entry.write_chunk(&[&number.to_be_bytes()[..], content.as_bytes()].concat())?;
        entry.commit()?;
        rows::acknowledge(number)?;
    }
    // Without the shutdown, which is no part of the promise of a commit.
    exit(0)
}

fn read_log(directory: &Path) -> Result<Vec<Row>> {
    let (_, entries) = log(directory)?;
    let entries = entries.0.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
    Ok(entries.clone().into_iter().collect())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [engine, action, directory] = words.as_slice() else {
        bail!("usage: seekless-findings-logs 0.21.2|1.2.0|okaywal setup|run|check DIRECTORY");
    };
    let directory = Path::new(directory);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    match (engine.as_str(), action.as_str()) {
        (_, "setup") => Ok(()),
        ("0.21.2", "run") => runtime.block_on(old::run(directory)),
        ("1.2.0", "run") => runtime.block_on(new::run(directory)),
        ("okaywal", "run") => run_log(directory),
        ("0.21.2", "check") => judge(runtime.block_on(old::read(directory))),
        ("1.2.0", "check") => judge(runtime.block_on(new::read(directory))),
        ("okaywal", "check") => judge(read_log(directory)),
        (engine, action) => bail!("{engine} {action}: no such engine or action"),
    }
}

/// Ends the check with what it says of these rows.
fn judge(found: Result<Vec<Row>>) -> ! {
    let verdict = found.and_then(rows::judge);
    let (code, said) = match verdict {
        Ok(Verdict::Good(count)) => (0, format!("good: {count} rows")),
        Ok(Verdict::Lost(acked, last)) => {
            (LOST, format!("lost: row {acked} is acknowledged, row {last} is the last one there"))
        }
        Ok(Verdict::Damaged(why)) => (DAMAGED, format!("damaged: {why}")),
        Err(error) => (DAMAGED, format!("damaged: {error:#}")),
    };
    println!("{said}");
    exit(code)
}
