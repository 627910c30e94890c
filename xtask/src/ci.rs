//! Continuous integration, in stages that also run alone.
//!
//! What gates a submission is a function of the tree: seeds and numbers of states are fixed, and
//! every violation that was ever found is replayed. What needs fresh seeds or hours is nightly.

use crate::dist;
use crate::docs;
use crate::explore::{self, fresh_seed};
use crate::fuzz;
use crate::models;
use crate::mutants;
use crate::run::{PROPERTY_SEED, Said, asserting, capture, cargo, root, run, seekless, target};
use crate::stages::{AfterFailure, Stages};
use crate::sweep::{self, Seeds};
use crate::test_run::Tests;
use crate::tidy::tidy;
use anyhow::{Context as _, Result, ensure};
use std::process::Command;

/// Seconds for each fuzz target.
const FUZZ_SECONDS: &str = "60";
/// How many times as many states as a usual sweep a nightly one has.
const NIGHTLY_SWEEPS: u64 = 10;
/// Minutes of a nightly search for violations.
const NIGHTLY_MINUTES: &str = "60";
/// The program of the integration tests of a crate.
const SUITE: [&str; 2] = ["--test", "suite"];

/// Crates with property tests.
const PROPERTY_TESTED: [&str; 13] = [
    "seekless-engine",
    "seekless-layouts",
    "seekless-arrays",
    "seekless-disk",
    "seekless-lab",
    "seekless-serve",
    "seekless-crashtest",
    "seekless-calls",
    "seekless-crash",
    "seekless-crashfs",
    "seekless-fs",
    "seekless-formats",
    "seekless-fs-model",
];

/// Every stage that gates a submission. Tests come last: their counts are the closing line.
///
/// # Errors
/// The first stage that fails.
pub fn all() -> Result<()> {
    let mut stages = Stages::new(AfterFailure::Stop);
    checks(&mut stages)?;
    stages.run("build", || asserting().map(drop))?;
    stages.run("docs", || docs::docs(&["--check"]))?;
    stages.run("replay", explore::replay)?;
    stages.run("edges", mutants::tested)?;
    stages.run("explore finds", explore::finds)?;
    stages.run("sweep", || sweep::bounded(sweep::STATES, Seeds::Fixed))?;
    test_in(&mut stages)
}

/// The checks that run no program of the product, then the unit tests of the engine and the
/// layouts.
///
/// # Errors
/// The first step that fails.
pub fn smoke() -> Result<()> {
    checks(&mut Stages::new(AfterFailure::Stop))?;
    let packages = ["--package", "seekless-engine", "--package", "seekless-layouts"];
    run(cargo().args(["test", "--quiet", "--lib"]).args(packages))
}

/// Format, lints, house rules, generated pages. Clippy shares its metadata with no build, and the
/// other checks need no build: they cost the later stages nothing.
fn checks(stages: &mut Stages) -> Result<()> {
    stages.run("format", || {
        run(cargo().args(["fmt", "--all", "--check"]))?;
        run(cargo().args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))
    })?;
    stages.run("clippy", || {
        let lints = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
        run(cargo().args(lints))
    })?;
    stages.run("tidy", tidy)?;
    stages.run("pages", docs::check_pages)
}

/// Every test, those with real clients included.
///
/// # Errors
/// If a test fails.
pub fn test() -> Result<()> {
    test_in(&mut Stages::new(AfterFailure::Stop))
}

/// Runs the tests as the last stage. What took longest and errors come before the counts, so that
/// the counts are the last line of the output.
fn test_in(stages: &mut Stages) -> Result<()> {
    let mut tests = Tests::default();
    let outcome = stages.run("test", || tests.run());
    println!("\n{}\n{}", stages.table(), tests.table());
    if let Err(error) = &outcome {
        println!("xtask: {error:#}");
    }
    println!("{}", tests.closing_line());
    outcome.map_err(|_| Said.into())
}

/// Manual pages and shell completions.
///
/// # Errors
/// If they cannot be written.
pub fn man(dir: Option<&str>) -> Result<()> {
    let dir = dir.map_or_else(|| root().join("target").join("man"), Into::into);
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let program = seekless()?;
    run(Command::new(&program).arg("man").arg(&dir))?;
    for (shell, name) in
        [("bash", "seekless.bash"), ("zsh", "_seekless"), ("fish", "seekless.fish")]
    {
        let script = capture(Command::new(&program).args(["completions", shell]))?;
        std::fs::write(dir.join(name), script)?;
    }
    println!("manual pages and completions are in {}", dir.display());
    Ok(())
}

/// Disk, and the range of the factor: time of an update in place over that of a write to the
/// virtual log right after idle time. The factors of claims V41 and V43, from below 3 to almost 10,
/// include time of the host; these are of the disk alone.
const FACTORS: [(&str, std::ops::RangeInclusive<f64>); 2] =
    [("hp97560", 1.5..=2.5), ("st19101", 3.5..=6.4)];

/// The reproduced claims about the virtual log, measured again: random 4 KiB updates at 80 %.
///
/// # Errors
/// If a simulation fails, or a factor is out of its range.
pub fn figures() -> Result<()> {
    let program = seekless()?;
    println!("V41, V43: random 4 KiB updates at 80 % utilisation, in place over virtual log");
    for (disk, range) in FACTORS {
        let mean = |layout: &str| -> Result<f64> {
            let mut sim = Command::new(&program);
            sim.args(["sim", "--layout", layout, "--disk", disk, "--json"]);
            let text = capture(sim.args(["--rest", "200s", "--requests", "500"]))?;
            let report: serde_json::Value = serde_json::from_str(&text)?;
            report["latency_ms"]["mean"].as_f64().context("the report has no mean")
        };
        let (inplace, vlog) = (mean("inplace")?, mean("vlog")?);
        let factor = inplace / vlog;
        println!("{disk:<10}{inplace:>8.2} ms over {vlog:>6.2} ms: {factor:.2}");
        ensure!(range.contains(&factor), "{disk}: {factor:.2} is not within {range:?}");
    }
    Ok(())
}

/// Everything, and what takes too long for each commit or needs fresh seeds: all tests at their
/// full size (trees of files as large as a kernel, damage in each sector), each planted bug from
/// three seeds, ten times the usual sweep, fuzzing, the reproduced claims, a search for violations.
/// A stage that fails does not keep the others from running. A second run of the same tree leaves
/// out what has passed.
///
/// # Errors
/// All stages that failed.
pub fn nightly() -> Result<()> {
    let mut stages = match tree()? {
        Some(tree) => Stages::resumed(target().join("nightly"), &tree),
        None => Stages::new(AfterFailure::GoOn),
    };
    let seed = fresh_seed()?;
    println!("nightly: seed {seed} of property tests and fuzz targets");
    checks(&mut stages)?;
    stages.run("build", || asserting().map(drop))?;
    stages.run("docs", || docs::docs(&["--check"]))?;
    stages.run("replay", explore::replay)?;
    stages.run("edges", mutants::tested)?;
    stages.run("explore finds", explore::finds)?;
    stages.run("test", || {
        let mut test = cargo();
        test.args(["test", "--workspace", "--no-fail-fast"]);
        run(test.env("SEEKLESS_FULL", "1").env("SEEKLESS_SCRIPTS", "3"))
    })?;
    stages.run("planted bugs", planted_bugs)?;
    stages.run("mutants", || mutants::mutants(&[]))?;
    stages.run("sweep", || sweep::bounded(NIGHTLY_SWEEPS * sweep::STATES, Seeds::Fixed))?;
    fuzz_in(&mut stages, seed)?;
    stages.run("figures", figures)?;
    stages.run("models", || models::models(None))?;
    stages.run("dist", || dist::dist(&[]))?;
    stages.run("explore", || explore::explore(&["--minutes", NIGHTLY_MINUTES]))?;
    println!("\n{}", stages.table());
    stages.finish()
}

/// The name of the tree, if everything in it is committed.
fn tree() -> Result<Option<String>> {
    let git = |args: &[&str]| capture(Command::new("git").current_dir(root()).args(args));
    let changes = git(&["status", "--porcelain"])?;
    let tree = git(&["rev-parse", "HEAD^{tree}"])?;
    Ok(changes.is_empty().then(|| tree.trim().to_owned()))
}

/// Finds each planted bug from three seeds, and looks for rules that one of them shows unnoticed.
fn planted_bugs() -> Result<()> {
    let bugs = [
        "--",
        "planted_bugs::",
        "planted_files::",
        "rules::",
        "files::every_short",
        "--include-ignored",
    ];
    let mut test = cargo();
    test.args(["test", "--package", "seekless-prove"]).args(SUITE).args(bugs);
    test.env("SEEKLESS_SEEDS", "3");
    Tests::select(test)
}

/// Bounded fuzzing: the property tests with many more cases than usual, the tests that usual runs
/// ignore, and the fuzz targets, with a seed from the clock.
///
/// # Errors
/// The stages that failed.
pub fn fuzz() -> Result<()> {
    let mut stages = Stages::new(AfterFailure::GoOn);
    let seed = fresh_seed()?;
    println!("fuzz: seed {seed}");
    fuzz_in(&mut stages, seed)?;
    stages.finish()
}

fn fuzz_in(stages: &mut Stages, seed: u64) -> Result<()> {
    for package in PROPERTY_TESTED {
        stages.run(&format!("properties of {package}"), || {
            let mut tests = cargo();
            tests.env("PROPTEST_CASES", "2000").env(PROPERTY_SEED, seed.to_string());
            run(tests.args(["test", "--quiet", "--package", package]))
        })?;
    }
    // The long comparison of file systems with the model, and the large log, which a usual run of
    // tests leaves out.
    stages.run("scripts of file systems", || {
        let mut long = cargo();
        long.args(["test", "--package", "seekless-formats", "--", "--ignored"]);
        long.args(["many_scripts_agree", "recovery_of_a_tebibyte"]);
        Tests::select(long)
    })?;
    // Promises of `fsync` over many more crashes.
    stages.run("promises of fsync", || {
        let mut durable = cargo();
        durable.args(["test", "--package", "seekless-formats"]).args(SUITE).arg("durable::");
        durable.env("SEEKLESS_SCRIPTS", "10");
        Tests::select(durable)
    })?;
    stages.run("fuzz targets", || targets(None, seed))
}

/// The fuzz targets alone, each for so many seconds.
///
/// # Errors
/// If a target finds a failure, or the argument is not a number.
pub fn targets(seconds: Option<&str>, seed: u64) -> Result<()> {
    let seconds = seconds.unwrap_or(FUZZ_SECONDS);
    let why = || format!("`{seconds}` is not a number of seconds");
    fuzz::fuzz(seconds.parse().with_context(why)?, seed)
}
