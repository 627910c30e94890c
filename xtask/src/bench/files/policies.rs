//! The policies of FFS against each other, and against ext4 on a loop device over our served disk.

use super::peers::{self, Peer};
use super::{OneProcessor, Scratch, Setup, median, rate};
use anyhow::Result;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Those that are compared, and how a table names them.
const ALL: [(&str, Peer); 4] = [
    ("async", Peer::Ours("async")),
    ("sync", Peer::Ours("sync")),
    ("soft", Peer::Ours("soft")),
    ("ext4", Peer::Served),
];
/// Bytes of a file that is made durable.
const DURABLE: usize = 4096;

/// Prints rates: durable files on an image in a file, and names on one in memory.
///
/// # Errors
/// If a file system cannot be made or mounted.
pub(super) fn policies(setup: &Setup) -> Result<()> {
    let (durable, names) = (setup.pick(500, 100), setup.pick(8000, 1000));
    println!("\nPolicies, and ext4 on a loop device on nbdfuse on `seekless serve`; per second.");
    println!("Durable: {durable} files of 4 KiB with fsync, the image in the temporary directory.");
    println!("Others: {names} empty files, in memory, program and server on one processor.\n");
    let mut rates: [[Vec<f64>; ALL.len()]; 3] = Default::default();
    for _ in 0..setup.repeats() {
        for (number, (_, peer)) in ALL.iter().enumerate() {
            rates[0][number].push(durable_run(setup, *peer, durable)?);
        }
        let _one = OneProcessor::new();
        for (number, (_, peer)) in ALL.iter().enumerate() {
            let [create, unlink] = names_run(setup, *peer, names)?;
            rates[1][number].push(create);
            rates[2][number].push(unlink);
        }
    }
    let head: String = ALL.iter().map(|(name, _)| format!("{name:>10}")).collect();
    println!("{:<22}{head}{:>14}", "step", "soft/async");
    let steps = ["create+write+fsync", "create+close", "unlink"];
    for (step, rates) in steps.iter().zip(&mut rates) {
        let medians = rates.each_mut().map(|rates| median(rates));
        let row: String = medians.iter().map(|rate| format!("{rate:>10.0}")).collect();
        println!("{step:<22}{row}{:>13.2}x", medians[2] / medians[0]);
    }
    Ok(())
}

fn paths(below: &Path, count: usize) -> Vec<PathBuf> {
    (0..count).map(|n| below.join(format!("f{n}"))).collect()
}

/// Files a second that are made, written and made durable.
fn durable_run(setup: &Setup, peer: Peer, count: usize) -> Result<f64> {
    let scratch = Scratch::new("policies")?;
    peer.make(setup, &scratch.0, "256M")?;
    let mounted = peer.mount(setup, &scratch.0)?;
    let content = [7; DURABLE];
    let made = rate(&paths(mounted.point(), count), |path| {
        let mut file = File::create(path)?;
        file.write_all(&content)?;
        file.sync_all()
    })?;
    mounted.unmount()?;
    Ok(made)
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
