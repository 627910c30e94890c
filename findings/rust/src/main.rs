//! Workloads and checks of embedded databases in Rust, for `seekless crash-test`.
//!
//! usage: seekless-findings ENGINE setup|run|check DIRECTORY

mod engines;
mod rows;

use anyhow::{Context as _, Result, bail};
use engines::Engine;
use rows::Verdict;
use std::path::Path;
use std::process::exit;

/// Exit code of a check that misses acknowledged rows.
const LOST: i32 = 1;
/// Exit code of a check whose database does not open or holds what was never committed.
const DAMAGED: i32 = 3;

fn main() {
    if let Err(error) = dispatch() {
        eprintln!("seekless-findings: {error:#}");
        exit(2);
    }
}

fn dispatch() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [engine, action, directory] = words.as_slice() else {
        bail!("usage: seekless-findings ENGINE setup|run|check DIRECTORY");
    };
    let directory = Path::new(directory);
    match engine.as_str() {
        "fjall" => act::<engines::fjall::Fjall>(action, directory),
        "jammdb" => act::<engines::jammdb::Jammdb>(action, directory),
        "persy" => act::<engines::persy::PersyFile>(action, directory),
        "redb" => act::<engines::redb::Redb>(action, directory),
        "sled" => act::<engines::sled::Sled>(action, directory),
        "tantivy" => act::<engines::tantivy::Tantivy>(action, directory),
        other => bail!("no engine is called {other}"),
    }
}

fn act<E: Engine>(action: &str, directory: &Path) -> Result<()> {
    match action {
        "setup" => E::create(directory).map(drop),
        "run" => run::<E>(directory),
        "check" => check::<E>(directory),
        other => bail!("{other} is neither setup nor run nor check"),
    }
}

fn run<E: Engine>(directory: &Path) -> Result<()> {
    let mut database = E::open(directory)?;
    for number in 1..=rows::count(E::ROWS) {
        database.commit(number, &rows::content(number))?;
        rows::acknowledge(number)?;
    }
    Ok(())
}

fn check<E: Engine>(directory: &Path) -> Result<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let read = || E::open(directory).context("does not open").and_then(|mut all| all.rows());
    let verdict = match std::panic::catch_unwind(read) {
        Ok(Ok(found)) => rows::judge(found)?,
        Ok(Err(error)) => Verdict::Damaged(format!("{error:#}")),
        Err(panic) => Verdict::Damaged(format!("panic: {}", panic_message(panic.as_ref()))),
    };
    let code = match verdict {
        Verdict::Good(count) => {
            println!("good: {count} rows");
            0
        }
        Verdict::Lost(acknowledged, last) => {
            println!("lost: row {acknowledged} is acknowledged, row {last} is the last one there");
            LOST
        }
        Verdict::Damaged(why) => {
            println!("damaged: {}", why.replace('\n', " "));
            DAMAGED
        }
    };
    // Without destructors, which may block on damaged files.
    exit(code)
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
