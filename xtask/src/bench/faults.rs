//! Overhead of a disk that can crash, without a crash: the same server in memory with `--faults`
//! and without, in turns.

use super::fio::{Job, Server, clients_installed, fio};
use super::{Scratch, Setup, median};
use anyhow::Result;
use std::ffi::OsStr;

const VOLUME_MIB: u64 = 64;
const LAYOUTS: [&str; 2] = ["inplace", "vlog"];
/// Armed faults that never trigger.
const IDLE: &str = "seed=1";
/// Pairs of runs. The median of their ratios counts, because single ratios vary by more than the
/// effect. Runs are many and short, because a shared machine is slow for seconds at a time.
const PAIRS: usize = 15;

/// Prints requests per second without faults, with them, and the overhead.
///
/// # Errors
/// If a server or fio fails.
pub fn faults(setup: &Setup) -> Result<()> {
    if !clients_installed() {
        return Ok(());
    }
    println!("4 KiB requests per second; what `--faults` costs while none fires (at most 10 %).\n");
    println!("{:<34}{:>12}{:>12}{:>9}", "", "without", "with", "cost");
    for layout in LAYOUTS {
        for rw in ["randwrite", "randread"] {
            for depth in [1, 16, 32] {
                let job = Job { rw, bs: "4k", depth, fsync: 0, size_mib: VOLUME_MIB, seconds: 1 };
                row(setup, layout, &job)?;
            }
        }
    }
    Ok(())
}

fn row(setup: &Setup, layout: &str, job: &Job) -> Result<()> {
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..setup.pick(PAIRS, 1) {
        // Each is first as often as the other: the second run finds a warmer machine.
        let first = measure(setup, layout, pair % 2 == 1, job)?;
        let second = measure(setup, layout, pair % 2 == 0, job)?;
        let (plain, faulty) = if pair % 2 == 0 { (first, second) } else { (second, first) };
        ratios.push(faulty / plain);
        without.push(plain);
        with.push(faulty);
    }
    let cost = 100.0 * (1.0 - median(&mut ratios));
    println!(
        "  {:<32}{:>12.0}{:>12.0}{cost:>8.1}%",
        format!("{layout}, {}, depth {}", job.rw, job.depth),
        median(&mut without),
        median(&mut with),
    );
    Ok(())
}

fn measure(setup: &Setup, layout: &str, faults: bool, job: &Job) -> Result<f64> {
    let scratch = Scratch::new("faults")?;
    let dir = scratch.0.as_path();
    let socket = dir.join("seekless.sock");
    let size = format!("{VOLUME_MIB}M");
    let mut args: Vec<&OsStr> =
        ["--memory", &size, "--layout", layout, "--socket"].map(OsStr::new).to_vec();
    args.push(socket.as_os_str());
    if faults {
        args.extend(["--faults", IDLE].map(OsStr::new));
    }
    let server = Server::seekless(&setup.program, &args)?;
    // Reads of unwritten blocks would measure nothing.
    let fill = Job { rw: "write", bs: "256k", depth: 4, fsync: 0, seconds: 0, ..*job };
    fio(&server, dir, &fill)?;
    fio(&server, dir, job)
}
