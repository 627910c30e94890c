//! A mechanical disk in real time: durable random writes per second as an application sees them.

use super::fio::{Job, Server, fio};
use super::{Scratch, Setup};
use crate::run::installed;
use anyhow::Result;
use std::ffi::OsStr;

const RANGE_MIB: u64 = 64;

/// Prints durable writes per second for each layout and the ratio.
///
/// # Errors
/// If a server or fio fails.
pub fn emulated(setup: &Setup) -> Result<()> {
    if !installed("fio") {
        println!("skipped: fio is not installed (`make setup`)");
        return Ok(());
    }
    let seconds = setup.pick(30, 8);
    println!("desktop7200 in real time: 4 KiB random overwrites of {RANGE_MIB} MiB, a flush after");
    println!("each, one in flight, {seconds} s.\n");
    println!("{:<10}{:>16}{:>16}{:>10}", "layout", "writes/s", "ms each", "factor");
    let mut baseline = None;
    for layout in ["inplace", "vlog"] {
        let scratch = Scratch::new("emulated")?;
        let dir = scratch.0.as_path();
        let socket = dir.join("disk.sock");
        let words = ["--memory", "1G", "--layout", layout, "--disk", "desktop7200", "--socket"];
        let mut args = words.map(OsStr::new).to_vec();
        args.push(socket.as_os_str());
        let server = Server::seekless(&setup.program, &args)?;
        let size_mib = RANGE_MIB;
        let fill = Job { rw: "write", bs: "256k", depth: 1, fsync: 0, size_mib, seconds: 0 };
        fio(&server, dir, &fill)?;
        let job = Job { rw: "randwrite", bs: "4k", depth: 1, fsync: 1, size_mib, seconds };
        let iops = fio(&server, dir, &job)?;
        let baseline = *baseline.get_or_insert(iops);
        let factor = iops / baseline;
        println!("{layout:<10}{iops:>16.1}{:>16.3}{factor:>9.2}x", 1e3 / iops);
        server.stop()?;
    }
    println!("\nHow well the time is kept: random 4 KiB reads of the whole disk, {seconds} s.\n");
    for depth in [1, 32] {
        println!("depth {depth}: {}", lateness(setup, depth, seconds)?);
    }
    Ok(())
}

/// What the server says of its own lateness after random reads at a queue depth.
fn lateness(setup: &Setup, depth: u32, seconds: u64) -> Result<String> {
    let scratch = Scratch::new("lateness")?;
    let socket = scratch.0.join("disk.sock");
    let words = ["--memory", "1G", "--layout", "inplace", "--disk", "desktop7200", "--socket"];
    let mut args = words.map(OsStr::new).to_vec();
    args.push(socket.as_os_str());
    let server = Server::seekless(&setup.program, &args)?;
    let job = Job { rw: "randread", bs: "4k", depth, fsync: 0, size_mib: 1024, seconds };
    fio(&server, &scratch.0, &job)?;
    let said = server.stop()?;
    let line = said.lines().find(|line| line.contains("late by")).unwrap_or("nothing said");
    Ok(line.trim_start_matches("seekless: ").to_owned())
}
