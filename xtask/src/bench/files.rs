//! Mounted file systems: in memory, small files against `fuse2fs`, large ones against ext4 on a
//! loop device over our own served disk; and the policies against each other and that ext4.
//!
//! Each run makes a file system, mounts it and takes it away again. Rates are what a program sees
//! through the kernel and its caches.

mod peers;
mod policies;

use super::{Scratch, Setup, median};
use crate::run::{capture, installed};
use anyhow::{Context as _, Result};
use peers::{Mounted, Peer};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Bytes of a small file.
const SMALL: usize = 1024;
/// Directories of small files.
const DIRS: usize = 16;
/// Bytes of one read or write of a large file.
const LARGE: usize = 1 << 20;

/// What a mount is without an option.
const OURS: Peer = Peer::Ours("async");

/// A program's work on small files; each is measured for all files in turn.
const STEPS: [&str; 6] =
    ["create+write+close", "stat", "open+read", "open+read, cold", "stat, cold", "unlink"];

/// Prints rates and ratios.
///
/// # Errors
/// If a file system cannot be made or mounted.
pub fn files(setup: &Setup) -> Result<()> {
    if let Some(lacking) = peers::lacking() {
        println!("skipped: mounting needs {lacking}");
        return Ok(());
    }
    match ["fuse2fs", "mkfs.ext4"].iter().find(|program| !installed(program)) {
        Some(program) => println!("small files: skipped, {program} is not installed"),
        None => small(setup)?,
    }
    match ["nbdfuse", "losetup", "mkfs.ext4"].iter().find(|program| !installed(program)) {
        Some(program) => println!("large files, policies: skipped, {program} is not installed"),
        None => {
            large(setup)?;
            policies::policies(setup)?;
        }
    }
    Ok(())
}

fn small(setup: &Setup) -> Result<()> {
    let count = setup.pick(8000, 1000);
    let one = OneProcessor::new();
    println!("{count} files of 1 KiB in {DIRS} directories, in memory; operations per second.");
    println!("{}", if one.is_some() { WITH_ONE } else { WITHOUT_ONE });
    println!("Cold: after an unmount and a mount.\n");
    let mut ours: [Vec<f64>; STEPS.len()] = Default::default();
    let mut theirs = ours.clone();
    for _ in 0..setup.repeats() {
        for (peer, rates) in [(OURS, &mut ours), (Peer::Fuse2fs, &mut theirs)] {
            let run = small_run(setup, peer, count)?;
            rates.iter_mut().zip(run).for_each(|(rates, rate)| rates.push(rate));
        }
    }
    println!("{:<20}{:>10}{:>10}{:>9}", "step", "ours", "fuse2fs", "ratio");
    for ((step, ours), theirs) in STEPS.iter().zip(&mut ours).zip(&mut theirs) {
        let (ours, theirs) = (median(ours), median(theirs));
        println!("{step:<20}{ours:>10.0}{theirs:>10.0}{:>8.2}x", ours / theirs);
    }
    println!();
    Ok(())
}

const WITH_ONE: &str =
    "Program and server have one processor, so neither waits for another to wake.";
const WITHOUT_ONE: &str = "taskset is missing: the kernel places program and server as it likes.";

/// Keeps this process, and those that it starts, on one processor until dropped. Where the kernel
/// places two processes that wait for each other changes rates fourfold, from run to run.
struct OneProcessor {
    all: String,
}

impl OneProcessor {
    fn new() -> Option<OneProcessor> {
        let pid = std::process::id().to_string();
        let shown = capture(Command::new("taskset").args(["--cpu-list", "--pid", &pid])).ok()?;
        let all = shown.rsplit(':').next()?.trim().to_owned();
        let last = all.rsplit([',', '-']).next()?.to_owned();
        keep_to(&last).ok().map(|()| OneProcessor { all })
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        let _ = keep_to(&self.all);
    }
}

fn keep_to(processors: &str) -> Result<()> {
    let pid = std::process::id().to_string();
    capture(Command::new("taskset").args(["--cpu-list", "--pid", processors, &pid]))?;
    Ok(())
}

/// Rates of the steps of one run.
fn small_run(setup: &Setup, peer: Peer, count: usize) -> Result<[f64; STEPS.len()]> {
    let scratch = peers::scratch("files")?;
    peer.make(setup, &scratch.0, "512M")?;
    let mounted = peer.mount(setup, &scratch.0)?;
    for dir in 0..DIRS {
        fs::create_dir(mounted.point().join(format!("d{dir}")))?;
    }
    let at = |n: usize| mounted.point().join(format!("d{}/f{n}", n % DIRS));
    let paths: Vec<PathBuf> = (0..count).map(at).collect();
    let content = [7; SMALL];
    let create = rate(&paths, |path| File::create(path)?.write_all(&content))?;
    let stat = rate(&paths, |path| fs::metadata(path).map(drop))?;
    let read = rate(&paths, read_small)?;
    mounted.unmount()?;
    let mounted = peer.mount(setup, &scratch.0)?;
    let cold_read = rate(&paths, read_small)?;
    mounted.unmount()?;
    let mounted = peer.mount(setup, &scratch.0)?;
    let cold_stat = rate(&paths, |path| fs::metadata(path).map(drop))?;
    let unlink = rate(&paths, |path| fs::remove_file(path))?;
    mounted.unmount()?;
    Ok([create, stat, read, cold_read, cold_stat, unlink])
}

fn read_small(path: &Path) -> std::io::Result<()> {
    let mut buffer = [0; 2 * SMALL];
    let found = File::open(path)?.read(&mut buffer)?;
    assert_eq!(found, SMALL, "{} is whole", path.display());
    Ok(())
}

/// How many paths a second an operation does.
fn rate(paths: &[PathBuf], mut one: impl FnMut(&Path) -> std::io::Result<()>) -> Result<f64> {
    let begin = Instant::now();
    for path in paths {
        one(path).with_context(|| path.display().to_string())?;
    }
    Ok(paths.len() as f64 / begin.elapsed().as_secs_f64())
}

fn large(setup: &Setup) -> Result<()> {
    let mib = setup.pick(512, 128);
    println!("One file of {mib} MiB in pieces of 1 MiB, in memory; MiB per second.");
    println!("Writes end with fsync; reads come after an unmount and a mount.");
    println!("The peer is ext4 on a loop device on nbdfuse on `seekless serve`.\n");
    let mut rates: [Vec<f64>; 4] = Default::default();
    for _ in 0..setup.repeats() {
        let ours = large_run(setup, OURS, mib)?;
        let theirs = large_run(setup, Peer::Served, mib)?;
        let run = ours.into_iter().chain(theirs);
        rates.iter_mut().zip(run).for_each(|(rates, rate)| rates.push(rate));
    }
    let [write, read, peer_write, peer_read] = rates.each_mut().map(|rates| median(rates));
    println!("{:<20}{:>10}{:>10}{:>9}", "step", "ours", "ext4", "ratio");
    for (step, ours, theirs) in [("write", write, peer_write), ("read", read, peer_read)] {
        println!("{step:<20}{ours:>10.0}{theirs:>10.0}{:>8.2}x", ours / theirs);
    }
    Ok(())
}

/// MiB a second of writes and of reads.
fn large_run(setup: &Setup, peer: Peer, mib: u64) -> Result<[f64; 2]> {
    let scratch = peers::scratch("files")?;
    peer.make(setup, &scratch.0, "1G")?;
    let mounted = peer.mount(setup, &scratch.0)?;
    let path = mounted.point().join("large");
    let mut buffer = vec![7; LARGE];
    let begin = Instant::now();
    let file = File::create(&path)?;
    for n in 0..mib {
        buffer[0] = n as u8;
        file.write_all_at(&buffer, n << 20)?;
    }
    file.sync_all()?;
    let write = mib as f64 / begin.elapsed().as_secs_f64();
    drop(file);
    mounted.unmount()?;
    let mounted: Mounted = peer.mount(setup, &scratch.0)?;
    let begin = Instant::now();
    let file = File::open(&path)?;
    for n in 0..mib {
        file.read_exact_at(&mut buffer, n << 20)?;
        assert_eq!(buffer[0], n as u8, "piece {n}");
    }
    let read = mib as f64 / begin.elapsed().as_secs_f64();
    drop(file);
    mounted.unmount()?;
    Ok([write, read])
}
