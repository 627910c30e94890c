//! Coverage-guided fuzzing with the stable compiler and a C++ compiler.
//!
//! The targets in `fuzz/` contain libFuzzer, which needs counters and comparisons from the code
//! under test. LLVM's pass for these is in every rustc; cargo-fuzz adds sanitizers on top, which
//! need a nightly compiler and find little in code without `unsafe`.

use crate::run::{capture, cargo, installed, output, root, run};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names of the targets, as in `fuzz/Cargo.toml`.
const TARGETS: [&str; 9] =
    ["nbd", "mount", "disksim", "recording", "spec", "tape", "ffs", "log", "minix"];
/// Longest input in bytes: one more than the longest message of NBD that is exercised, and enough
/// for an image of 16 blocks.
const INPUT_BYTES: u64 = (64 << 10) + 64;
/// An input that takes this long hangs: most take less than a millisecond.
const HANG_SECONDS: u64 = 30;
const MEMORY_MIB: u64 = 1024;
/// The same as cargo-fuzz sets, without sanitizers.
const COVERAGE: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg",
    "fuzzing",
];

/// Builds the fuzz targets and runs each for so many seconds, guided by coverage. The corpus stays
/// in `fuzz/corpus`, so that the next run continues from there. If a required tool is missing,
/// prints that and does nothing.
///
/// # Errors
/// If a target does not build, or finds something: the input is kept in `fuzz/artifacts`.
pub fn fuzz(seconds: u64, seed: u64) -> Result<()> {
    let host = host()?;
    if let Some(reason) = missing(&host) {
        println!("fuzz targets skipped: {reason}");
        return Ok(());
    }
    let programs = build(&host)?;
    let next = AtomicUsize::new(0);
    let worker = || -> Result<()> {
        while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
            fuzz_one(&programs, target, seconds, seed)?;
        }
        Ok(())
    };
    // A fuzzer keeps one processor busy.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(worker)).collect();
        let panicked = |_| bail!("a fuzzer's thread panicked");
        workers.into_iter().try_for_each(|one| one.join().unwrap_or_else(panicked))
    })
}

/// The tool that this machine lacks, if any.
fn missing(host: &str) -> Option<String> {
    if !host.contains("-linux-gnu") && !host.contains("-apple-") {
        return Some(format!("libFuzzer is not known to work on {host}"));
    }
    // The same choice as libfuzzer-sys makes when it builds libFuzzer.
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let program = compiler.split(' ').next().unwrap_or_default();
    if !installed(program) && !Path::new(program).is_file() {
        return Some(format!("no C++ compiler `{program}` (Debian: apt-get install g++)"));
    }
    let mut fetch = cargo();
    fetch.args(["fetch", "--quiet", "--target", host, "--manifest-path"]).arg(manifest());
    capture(&mut fetch).err().map(|error| format!("libfuzzer-sys cannot be had: {error:#}"))
}

/// Builds all targets and returns their directory.
fn build(host: &str) -> Result<PathBuf> {
    let target_dir = root().join("fuzz").join("target");
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--manifest-path"]).arg(manifest());
    // With a named target the flags reach neither build scripts nor macros, which have no
    // libFuzzer to call.
    build.args(["--target", host, "--target-dir"]).arg(&target_dir);
    run(build.env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\x1f")))?;
    Ok(target_dir.join(host).join("release"))
}

fn fuzz_one(programs: &Path, target: &str, seconds: u64, seed: u64) -> Result<()> {
    let fuzz = root().join("fuzz");
    let [corpus, artifacts] = ["corpus", "artifacts"].map(|dir| fuzz.join(dir).join(target));
    for dir in [&corpus, &artifacts] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let program = programs.join(target);
    let mut fuzzer = Command::new(&program);
    // Zero would make libFuzzer choose, and it takes 32 bits.
    fuzzer.arg(format!("-seed={}", seed as u32 | 1));
    fuzzer.arg(format!("-max_total_time={seconds}"));
    fuzzer.arg(format!("-max_len={INPUT_BYTES}"));
    fuzzer.arg(format!("-timeout={HANG_SECONDS}"));
    fuzzer.arg(format!("-rss_limit_mb={MEMORY_MIB}"));
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display()));
    fuzzer.args(["-print_final_stats=1", "-verbosity=1"]);
    let words = fuzz.join("dictionaries").join(target);
    if words.is_file() {
        fuzzer.arg(format!("-dict={}", words.display()));
    }
    fuzzer.arg(&corpus).arg(fuzz.join("seeds").join(target));
    eprintln!("fuzzing `{target}` for {seconds} s");
    let Output { status, stderr, .. } = output(&mut fuzzer)?;
    let log = String::from_utf8_lossy(&stderr);
    if !status.success() {
        let input = written(&log).unwrap_or("(libFuzzer wrote none)");
        eprintln!("{}", tail(&log));
        bail!("fuzz target `{target}` found something; again: {} {input}", program.display());
    }
    println!("fuzz target `{target}`: {}, nothing found", summary(&log)?);
    Ok(())
}

/// Summary of a run without a finding, from libFuzzer's log.
fn summary(log: &str) -> Result<String> {
    let stat = |name: &str| {
        let value = log.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
        value.map(str::trim).with_context(|| format!("libFuzzer printed no `{name}`"))
    };
    let executions: u64 = stat("number_of_executed_units:")?.parse()?;
    if executions == 0 {
        bail!("libFuzzer executed nothing");
    }
    let per_second = stat("average_exec_per_sec:")?;
    let after =
        |word: &str, line: &str| Some(line.split_once(word)?.1.split(' ').next()?.to_owned());
    let covered = log.lines().rev().find_map(|line| after(" cov: ", line));
    let edges = log.lines().find_map(|line| after(" modules   (", line));
    let (Some(covered), Some(edges)) = (covered, edges) else {
        bail!("libFuzzer saw no coverage: was the target built without its counters?");
    };
    Ok(format!("{executions} executions, {per_second}/s, {covered} of {edges} edges covered"))
}

/// The input that broke the target.
fn written(log: &str) -> Option<&str> {
    log.lines().find_map(|line| Some(line.split_once("Test unit written to ")?.1.trim()))
}

/// The end of a log, without the noise of new inputs.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with('#')).collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn manifest() -> PathBuf {
    root().join("fuzz").join("Cargo.toml")
}

/// The triple of this machine.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = capture(Command::new(rustc).current_dir(root()).arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it runs on")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: &str = "INFO: Loaded 1 modules   (1506 inline 8-bit counters): 1506 [0x1, 0x2),\n\
        #2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 28Mb\n\
        #9\tDONE   cov: 740 ft: 2000 corp: 300/9b exec/s: 4 rss: 28Mb\n\
        stat::number_of_executed_units: 485877\nstat::average_exec_per_sec:     44170\n";

    #[test]
    fn logs_are_summed_up() {
        let summary = summary(QUIET).expect("a whole log");
        assert_eq!(summary, "485877 executions, 44170/s, 740 of 1506 edges covered");
    }

    #[test]
    fn runs_that_prove_nothing_fail() {
        assert!(summary("").is_err());
        assert!(summary(&QUIET.replace("485877", "0")).is_err());
        assert!(summary(&QUIET.replace(" cov: ", " ")).is_err());
    }

    #[test]
    fn the_input_that_broke_it_is_found() {
        let log =
            "#7\tNEW cov: 3\npanicked\nartifact_prefix='a/'; Test unit written to a/crash-1\n";
        assert_eq!(written(log), Some("a/crash-1"));
        assert!(tail(log).starts_with("panicked"));
    }

    #[test]
    fn every_target_is_known() {
        let text = fs::read_to_string(manifest()).expect("the crate is there");
        assert_eq!(text.matches("[[bin]]").count(), TARGETS.len());
        assert!(TARGETS.iter().all(|name| text.contains(&format!("name = \"{name}\""))));
        assert!(TARGETS.iter().all(|name| root().join("fuzz/seeds").join(name).is_dir()));
    }
}
