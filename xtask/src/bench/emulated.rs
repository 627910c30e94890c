//! A mechanical disk in real time: durable random writes per second as an application sees them.

use super::fio::{Job, Server, fio};
use super::{Scratch, Setup};
use crate::run::{capture, cargo, installed};
use anyhow::{Context as _, Result};
use std::ffi::OsStr;
use std::process::Command;

const RANGE_MIB: u64 = 64;

/// The disks that a client measures: one without a cache, one with a cache, and a current one.
const PUNCTUAL: [&str; 3] = ["desktop7200-bare", "atlas10k", "cmr-20tb"];

/// Prints the accuracy of emulated times, durable writes per second for each layout and the ratio.
///
/// # Errors
/// If a server or fio fails.
pub fn emulated(setup: &Setup) -> Result<()> {
    punctual(setup)?;
    if !installed("fio") {
        println!("skipped: fio is not installed (`make setup`)");
        return Ok(());
    }
    let seconds = setup.pick(30, 8);
    println!(
        "desktop7200-bare in real time: 4 KiB random overwrites of {RANGE_MIB} MiB, a flush after"
    );
    println!("each, {seconds} s. The factor is against inplace, with as many in flight.\n");
    println!("{:<26}{:>10}{:>10}{:>10}{:>10}", "writes/s, in flight:", 1, "factor", 16, "factor");
    let mut baseline = None;
    for disk in Served::ALL {
        let rates = [disk.rate(setup, 1, seconds)?, disk.rate(setup, 16, seconds)?];
        let [one, many] = *baseline.get_or_insert(rates);
        let factors = [rates[0] / one, rates[1] / many];
        let name = disk.name();
        println!(
            "{name:<26}{:>10.1}{:>9.2}x{:>10.1}{:>9.2}x",
            rates[0], factors[0], rates[1], factors[1]
        );
    }
    println!("\nThe same as the server sees it: random 4 KiB reads of 1 GiB, {seconds} s.\n");
    for depth in [1, 32] {
        println!("depth {depth}: {}", lateness(setup, depth, seconds)?);
    }
    Ok(())
}

/// A disk with the emulated speed of `desktop7200-bare`.
#[derive(Clone, Copy)]
enum Served {
    /// A layout in memory.
    Layout(&'static str),
    /// A disk caching disk with its log on a second disk like the first.
    LogOnEqual,
    /// The same with a log in memory.
    LogInMemory,
}

impl Served {
    const ALL: [Served; 5] = [
        Served::Layout("inplace"),
        Served::Layout("vlog"),
        Served::Layout("loge"),
        Served::LogOnEqual,
        Served::LogInMemory,
    ];

    fn name(self) -> &'static str {
        match self {
            Served::Layout(layout) => layout,
            Served::LogOnEqual => "dcd, log on an equal disk",
            Served::LogInMemory => "dcd, log in a file",
        }
    }

    /// Writes per second with `depth` in flight, once the range has been written.
    fn rate(self, setup: &Setup, depth: u32, seconds: u64) -> Result<f64> {
        let scratch = Scratch::new("emulated")?;
        let dir = scratch.0.as_path();
        let [socket, image, log] = ["disk.sock", "disk.img", "log.img"].map(|name| dir.join(name));
        let mut args: Vec<&OsStr> = Vec::new();
        if let Served::Layout(layout) = self {
            args.extend(["--memory", "1G", "--layout", layout].map(OsStr::new));
        } else {
            std::fs::File::create(&image)?.set_len(1 << 30)?;
            let create = ["create", "--layout", "dcd", "--log-size", "256M", "--log"];
            capture(Command::new(&setup.program).args(create).arg(&log).arg(&image))?;
            args.extend([image.as_os_str(), OsStr::new("--log"), log.as_os_str()]);
        }
        if let Served::LogOnEqual = self {
            args.extend(["--log-disk", "desktop7200-bare"].map(OsStr::new));
        }
        args.extend(["--disk", "desktop7200-bare", "--socket"].map(OsStr::new));
        args.push(socket.as_os_str());
        let server = Server::seekless(&setup.program, &args)?;
        let size_mib = RANGE_MIB;
        let fill = Job { rw: "write", bs: "256k", depth: 1, fsync: 0, size_mib, seconds: 0 };
        fio(&server, dir, &fill)?;
        let job = Job { rw: "randwrite", bs: "4k", depth, fsync: 1, size_mib, seconds };
        let rate = fio(&server, dir, &job)?;
        server.stop()?;
        Ok(rate)
    }
}

/// Latency measured by a client minus that of the model, request by request.
fn punctual(setup: &Setup) -> Result<()> {
    let build = ["build", "--quiet", "--profile", "dist", "--package", "seekless-serve"];
    crate::run::run(cargo().args(build).args(["--example", "punctual"]))?;
    let program = setup.program.with_file_name("examples").join("punctual");
    let seconds = setup.pick("30", "8");
    println!("How well the time is kept: random 4 KiB reads of the whole disk, {seconds} s each.");
    println!(
        "By how much a client's own clock and the model differ about the same request, either"
    );
    println!("way, in microseconds; {}.\n", load());
    let head = ["depth", "requests", "median", "99 %", "most"];
    println!(
        "{:<14}{:>6}{:>10}{:>10}{:>12}{:>12}",
        "disk", head[0], head[1], head[2], head[3], head[4]
    );
    for disk in PUNCTUAL {
        for row in rows(&capture(Command::new(&program).args([disk, seconds]))?)? {
            let [depth, requests, median, p99, most] = row;
            let name = if depth == 0.0 { "(an echo)" } else { disk };
            println!("{name:<14}{depth:>6}{requests:>10}{median:>10.1}{p99:>12.1}{most:>12.1}");
        }
    }
    println!("\nAn echo is the machine's own delay, there and back between two threads that");
    println!(
        "sleep: answers are sent that much earlier. The target on an idle machine: less than 100"
    );
    println!("at the median, 1000 at 99 %.\n");
    Ok(())
}

/// Load of the machine by other processes: on a busy one these figures mean little.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    match text.split_whitespace().next() {
        Some(load) => format!("the load of the machine was {load} before"),
        None => "the load of the machine is not known".to_owned(),
    }
}

/// Depth, requests, median, 99th percentile and maximum, line by line.
fn rows(text: &str) -> Result<Vec<[f64; 5]>> {
    text.lines()
        .map(|line| {
            let parse = |field: &str| field.parse::<f64>().with_context(|| format!("`{field}`"));
            let fields = line.split('\t').map(parse).collect::<Result<Vec<f64>>>()?;
            fields.try_into().ok().with_context(|| format!("`{line}` has not five fields"))
        })
        .collect()
}

/// The lateness that the server reports after random reads at a queue depth.
fn lateness(setup: &Setup, depth: u32, seconds: u64) -> Result<String> {
    let scratch = Scratch::new("lateness")?;
    let socket = scratch.0.join("disk.sock");
    let words = ["--memory", "1G", "--layout", "inplace", "--disk", "desktop7200-bare", "--socket"];
    let mut args = words.map(OsStr::new).to_vec();
    args.push(socket.as_os_str());
    let server = Server::seekless(&setup.program, &args)?;
    let job = Job { rw: "randread", bs: "4k", depth, fsync: 0, size_mib: 1024, seconds };
    fio(&server, &scratch.0, &job)?;
    let said = server.stop()?;
    let line = said.lines().find(|line| line.contains("late by")).unwrap_or("nothing said");
    Ok(line.trim_start_matches("seekless: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let found = rows("1\t20\t30.5\t40\t50\n").expect("a row");
        assert_eq!(found, [[1.0, 20.0, 30.5, 40.0, 50.0]]);
        assert!(rows("1\t2\t3\t4\n").is_err() && rows("1\t2\tx\t4\t5\n").is_err());
    }
}
