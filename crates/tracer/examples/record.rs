//! Records a command and checks the record: `record [--skip] [--calls FILE] DIRECTORY COMMAND...`.
//!
//! Prints how long the run took, what is on record, and what a recording costs in memory. With
//! `--calls`, the record becomes a file for `seekless crash-test --calls`.

use seekless_tracer::{Options, Recorder, Syncs, preflight, selfcheck};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Bytes of the disk that a replay of the calls has: those of `crash-test` by default.
const DISK_BYTES: u64 = 256 << 20;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let skips = args.first().is_some_and(|arg| arg == "--skip");
    if skips {
        args.remove(0);
    }
    let mut calls = None;
    if args.len() > 1 && args[0] == "--calls" {
        calls = Some(args.remove(1));
        args.remove(0);
    }
    let [directory, program, rest @ ..] = &args[..] else {
        return Err("usage: record [--skip] [--calls FILE] DIRECTORY COMMAND...".into());
    };
    preflight()?;
    let mut options = Options::new(directory);
    options.syncs = if skips { Syncs::Skip } else { Syncs::Real };
    let mut command = Command::new(program);
    command.args(rest);
    let begun = Instant::now();
    let recording = Recorder::new(options).run(command, &AtomicBool::new(false))?;
    let took = begun.elapsed();
    let calls_stopped = recording.stops / 2;
    println!(
        "{:?}; {} entries, {} stops, {:.2} s, {:.1} us a pair of stops, {} MB at most",
        recording.exit,
        recording.entries.len(),
        recording.stops,
        took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / calls_stopped.max(1) as f64,
        peak_memory() >> 20,
    );
    for (what, items) in [
        ("refused", &recording.refused),
        ("outlived", &recording.outlived),
        ("trouble", &recording.troubles),
    ] {
        items.iter().for_each(|item| println!("{what}: {item}"));
    }
    if let Some(path) = calls {
        let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
        seekless_calls::file::write_to(&mut file, DISK_BYTES, &recording.entries)?;
    }
    let begun = Instant::now();
    let result = selfcheck::compare(&recording.entries, directory.as_ref());
    println!("self-check: {:.2} s", begun.elapsed().as_secs_f64());
    Ok(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(difference) => {
            println!("{difference}");
            if let selfcheck::What::Entry(index) = difference.what {
                println!("entry {index}: {:?}", recording.entries[index]);
            }
            ExitCode::from(6)
        }
    })
}

/// The most memory that this process had, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}
