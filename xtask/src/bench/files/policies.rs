//! The policies of FFS against each other, and against ext4 on a loop device over our served disk.

use super::peers::{self, Peer};
use super::{OneProcessor, Scratch, Setup, median, rate};
use anyhow::Result;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Those that are compared, and how a table names them.
const ALL: [(&str, Peer); 6] = [
    ("async", Peer::Ours("async")),
    ("sync", Peer::Ours("sync")),
    ("soft", Peer::Ours("soft")),
    ("wafs-1async", Peer::Ours("wafs-1async")),
    ("wafs-1sync", Peer::Ours("wafs-1sync")),
    ("ext4", Peer::Served),
];
// The places of those whose ratios are shown.
const ASYNC: usize = 0;
const SOFT: usize = 2;
const LOGGED: usize = 3;
/// Bytes of a file that is made durable.
const DURABLE: usize = 4096;
/// Threads that make files durable at once.
const THREADS: usize = 16;

/// Prints rates: durable files on an image in a file, and names on one in memory.
///
/// # Errors
/// If a file system cannot be made or mounted.
pub(super) fn policies(setup: &Setup) -> Result<()> {
    let (durable, names) = (setup.pick(500, 100), setup.pick(8000, 1000));
    println!("\nPolicies, and ext4 on a loop device on nbdfuse on `seekless serve`; per second.");
    println!("Durable: {durable} files of 4 KiB with fsync, the image in the temporary directory.");
    println!("The same by {THREADS} threads, each with a directory of its own: group commit.");
    println!("Others: {names} empty files, in memory, program and server on one processor.\n");
    let mut rates: [[Vec<f64>; ALL.len()]; 4] = Default::default();
    for _ in 0..setup.repeats() {
        for (number, (_, peer)) in ALL.iter().enumerate() {
            rates[0][number].push(durable_run(setup, *peer, durable, 1)?);
            rates[1][number].push(durable_run(setup, *peer, durable, THREADS)?);
        }
        let _one = OneProcessor::new();
        for (number, (_, peer)) in ALL.iter().enumerate() {
            let [create, unlink] = names_run(setup, *peer, names)?;
            rates[2][number].push(create);
            rates[3][number].push(unlink);
        }
    }
    let head: String = ALL.iter().map(|(name, _)| format!("{name:>12}")).collect();
    println!("{:<24}{head}{:>12}{:>12}", "step", "soft/async", "log/async");
    println!("{:<24}{:>width$}{:>12}{:>12}", "", "", "", "log/soft", width = 12 * ALL.len());
    let steps = ["create+write+fsync", "the same, 16 threads", "create+close", "unlink"];
    for (number, (step, rates)) in steps.iter().zip(&mut rates).enumerate() {
        let medians = rates.each_mut().map(|rates| median(rates));
        let row: String = medians.iter().map(|rate| format!("{rate:>12.0}")).collect();
        let soft = medians[SOFT] / medians[ASYNC];
        // Durable files are compared with soft updates, the others with no order at all.
        let log = medians[LOGGED] / medians[if number < 2 { SOFT } else { ASYNC }];
        println!("{step:<24}{row}{soft:>11.2}x{log:>11.2}x");
    }
    Ok(())
}

fn paths(below: &Path, count: usize) -> Vec<PathBuf> {
    (0..count).map(|n| below.join(format!("f{n}"))).collect()
}

/// Files a second that threads make, write and make durable, each in a directory of its own.
fn durable_run(setup: &Setup, peer: Peer, count: usize, threads: usize) -> Result<f64> {
    let scratch = Scratch::new("policies")?;
    peer.make(setup, &scratch.0, "256M")?;
    let mounted = peer.mount(setup, &scratch.0)?;
    let dirs: Vec<PathBuf> = (0..threads).map(|n| mounted.point().join(format!("d{n}"))).collect();
    dirs.iter().try_for_each(fs::create_dir)?;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let spawn = dirs.iter().map(|dir| scope.spawn(move || make_durable(dir, count)));
        let threads: Vec<_> = spawn.collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        ended.collect::<Result<Vec<f64>>>()
    })?;
    let rate = (count * threads) as f64 / begin.elapsed().as_secs_f64();
    mounted.unmount()?;
    Ok(rate)
}

fn make_durable(dir: &Path, count: usize) -> Result<f64> {
    let content = [7; DURABLE];
    rate(&paths(dir, count), |path| {
        let mut file = File::create(path)?;
        file.write_all(&content)?;
        file.sync_all()
    })
}

/// Empty files a second that are made, and that are removed.
fn names_run(setup: &Setup, peer: Peer, count: usize) -> Result<[f64; 2]> {
    let scratch = peers::scratch("policies")?;
    peer.make(setup, &scratch.0, "256M")?;
    let mounted = peer.mount(setup, &scratch.0)?;
    let paths = paths(mounted.point(), count);
    let create = rate(&paths, |path| File::create(path).map(drop))?;
    let unlink = rate(&paths, |path| fs::remove_file(path))?;
    mounted.unmount()?;
    Ok([create, unlink])
}
