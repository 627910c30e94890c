//! The log as a service against a plain file: each record durable before the next one comes, and
//! many records at once.
//!
//! A file that grows is what most programs use for a log: each sync of it commits its new size. One
//! whose blocks are written beforehand is the limit: a sync writes the bytes and flushes. Neither
//! tells a torn record from a whole one.

use super::{Scratch, Setup, median};
use anyhow::{Context as _, Result, ensure};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Bytes of a record with its line feed.
const RECORD: usize = 100;
/// Bytes of the log and of a file written beforehand.
const SIZE: u64 = 256 << 20;

/// Who keeps the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    /// `seekless fs log append`.
    Ours,
    /// A file that grows.
    Growing,
    /// A file whose blocks are written.
    Written,
}

const KEEPERS: [(Keeper, &str); 3] = [
    (Keeper::Ours, "log of seekless"),
    (Keeper::Growing, "file that grows"),
    (Keeper::Written, "file written before"),
];

/// Prints records per second, and the ratio of ours to each file.
///
/// # Errors
/// If the log cannot be made, or a record does not become durable.
pub fn log(setup: &Setup) -> Result<()> {
    let (single, bulk) = setup.pick((2000, 1_000_000), (200, 50_000));
    println!(
        "Records of {RECORD} bytes on the file system of the temporary directory; records per"
    );
    println!("second. Durable one by one: a record is sent when the one before it is durable.\n");
    println!("{:<24}{:>14}{:>10}{:>14}{:>10}", "", "one by one", "ours", "all at once", "ours");
    let mut rates = KEEPERS.map(|_| [Vec::new(), Vec::new()]);
    for _ in 0..setup.repeats() {
        for ((keeper, _), rates) in KEEPERS.iter().zip(&mut rates) {
            rates[0].push(one_by_one(setup, *keeper, single)?);
            rates[1].push(at_once(setup, *keeper, bulk)?);
        }
    }
    let rates = rates.map(|mut both| both.each_mut().map(|rates| median(rates)));
    let [ours, _, _] = rates;
    for ((_, name), [single, bulk]) in KEEPERS.iter().zip(rates) {
        println!(
            "{name:<24}{single:>14.0}{:>9.2}x{bulk:>14.0}{:>9.2}x",
            ours[0] / single,
            ours[1] / bulk
        );
    }
    println!();
    Ok(())
}

fn record() -> [u8; RECORD] {
    let mut record = [b'r'; RECORD];
    record[RECORD - 1] = b'\n';
    record
}

/// Records per second that are each durable before the next one.
fn one_by_one(setup: &Setup, keeper: Keeper, count: usize) -> Result<f64> {
    let scratch = Scratch::new("log")?;
    let record = record();
    let seconds = match keeper {
        Keeper::Ours => {
            let (mut child, path) = (appender(setup, &scratch.0, false)?, &scratch.0);
            let mut input = child.stdin.take().context("its input is a pipe")?;
            let mut printed = BufReader::new(child.stdout.take().context("its output is a pipe")?);
            let mut position = String::new();
            let mut first = |input: &mut std::process::ChildStdin| -> Result<()> {
                input.write_all(&record)?;
                position.clear();
                ensure!(printed.read_line(&mut position)? > 0, "no position in {}", path.display());
                Ok(())
            };
            // The log is open when the first record is durable.
            first(&mut input)?;
            let begun = Instant::now();
            for _ in 0..count {
                first(&mut input)?;
            }
            let seconds = begun.elapsed().as_secs_f64();
            drop(input);
            end(child)?;
            seconds
        }
        Keeper::Growing | Keeper::Written => {
            let mut file = file(&scratch.0, keeper)?;
            append(&mut file, 0, &record)?;
            let begun = Instant::now();
            for number in 1..=count {
                append(&mut file, number, &record)?;
            }
            begun.elapsed().as_secs_f64()
        }
    };
    Ok(count as f64 / seconds)
}

/// Records per second, all of them sent at once and durable at the end.
fn at_once(setup: &Setup, keeper: Keeper, count: usize) -> Result<f64> {
    let scratch = Scratch::new("log")?;
    let all = record().repeat(count);
    let begun = match keeper {
        Keeper::Ours => {
            let mut child = appender(setup, &scratch.0, true)?;
            let mut input = child.stdin.take().context("its input is a pipe")?;
            let begun = Instant::now();
            input.write_all(&all)?;
            drop(input);
            end(child)?;
            begun
        }
        Keeper::Growing | Keeper::Written => {
            let file = file(&scratch.0, keeper)?;
            let begun = Instant::now();
            file.write_all_at(&all, 0)?;
            file.sync_data()?;
            begun
        }
    };
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

/// Makes a log, and begins to append what comes.
fn appender(setup: &Setup, dir: &Path, quiet: bool) -> Result<Child> {
    let image = dir.join("wal.img");
    let mut create = Command::new(&setup.program);
    let size = format!("{}M", SIZE >> 20);
    create.args(["fs", "log"]).arg(&image).args(["create", "--size", &size]);
    crate::run::capture(&mut create)?;
    written(&OpenOptions::new().read(true).write(true).open(&image)?)?;
    let mut append = Command::new(&setup.program);
    append.args(["fs", "log"]).arg(&image).arg("append").args(quiet.then_some("--quiet"));
    append.stdin(Stdio::piped()).stdout(Stdio::piped());
    append.spawn().with_context(|| format!("cannot run {}", setup.program.display()))
}

fn end(mut child: Child) -> Result<()> {
    let mut rest = Vec::new();
    if let Some(out) = &mut child.stdout {
        out.read_to_end(&mut rest)?;
    }
    ensure!(child.wait()?.success(), "`seekless fs log append` failed");
    Ok(())
}

fn file(dir: &Path, keeper: Keeper) -> Result<File> {
    let file = File::create_new(dir.join("plain"))?;
    if keeper == Keeper::Written {
        file.set_len(SIZE)?;
        written(&file)?;
    }
    Ok(file)
}

/// Gives all holes of a file blocks, and keeps what it holds.
fn written(file: &File) -> Result<()> {
    const STEP: usize = 1 << 20;
    let mut bytes = vec![0; STEP];
    for at in (0..file.metadata()?.len()).step_by(STEP) {
        let count = file.read_at(&mut bytes, at)?;
        file.write_all_at(&bytes[..count], at)?;
    }
    file.sync_all()?;
    Ok(())
}

fn append(file: &mut File, number: usize, record: &[u8]) -> Result<()> {
    file.write_all_at(record, (number * RECORD) as u64)?;
    file.sync_data()?;
    Ok(())
}
