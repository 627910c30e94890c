//! Continuous integration, in stages that also run alone.

use crate::docs;
use crate::fuzz;
use crate::run::{asserting, capture, cargo, root, run, seekless};
use crate::stages::{AfterFailure, Stages};
use crate::sweep::{self, commit_seed};
use crate::test_run::Tests;
use crate::tidy::tidy;
use anyhow::{Context as _, Result, ensure};
use std::process::Command;

/// Seconds for each fuzz target.
const FUZZ_SECONDS: &str = "60";

/// Sweeps of the usual size that a nightly sweep comes to.
const NIGHTLY_SWEEPS: u64 = 14;

/// Crates with property tests.
const PROPERTY_TESTED: [&str; 10] = [
    "seekless-engine",
    "seekless-layouts",
    "seekless-arrays",
    "seekless-disk",
    "seekless-lab",
    "seekless-serve",
    "seekless-crashtest",
    "seekless-fs",
    "seekless-formats",
    "seekless-fs-model",
];

/// Every stage, the tests last. The slowest stages and test programs are printed above the closing
/// line, which counts the tests.
///
/// # Errors
/// The first stage that fails.
pub fn all() -> Result<()> {
    let mut stages = Stages::new(AfterFailure::Stop);
    let mut tests = Tests::default();
    let outcome = gate(&mut stages, &mut tests);
    println!("\n{}", stages.table());
    if tests.were_run() {
        println!("{}\n{}", tests.table(), tests.closing_line());
    }
    outcome
}

fn gate(stages: &mut Stages, tests: &mut Tests) -> Result<()> {
    stages.run("checks", checks)?;
    stages.run("build", || asserting().map(drop))?;
    stages.run("sweep", sweep)?;
    stages.run("soak", sweep::soak_finds)?;
    stages.run("pages", || docs::docs(&["--check"]))?;
    stages.run("tests", || tests.run())
}

/// The checks that run no program of the product, then the unit tests of the engine and the layouts.
///
/// # Errors
/// The first step that fails.
pub fn smoke() -> Result<()> {
    checks()?;
    let packages = ["--package", "seekless-engine", "--package", "seekless-layouts"];
    run(cargo().args(["test", "--quiet", "--lib"]).args(packages))
}

/// Format, lints, house rules, generated pages. Clippy shares its metadata with no build, and the
/// other checks need no build: they cost the later stages nothing.
fn checks() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    let lints = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run(cargo().args(lints))?;
    tidy()?;
    docs::check_pages()
}

/// Every test, those with real clients included.
///
/// # Errors
/// If a test fails.
pub fn test() -> Result<()> {
    run(cargo().args(["test", "--workspace"]))
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

/// Power-cut sweeps of every layout. The seed is fixed: the outcome is a function of the tree.
/// Tests plant the bugs that such a sweep must find.
///
/// # Errors
/// If a layout breaks its contract.
pub fn sweep() -> Result<()> {
    sweep::ci()
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

/// What takes too long for each commit: each planted bug from three seeds, trees of files as large
/// as a kernel, damage in each sector, many times the usual sweep, all of the fuzzing, a soak,
/// and the reproduced claims. A stage that fails does not stop the others.
///
/// # Errors
/// All stages that failed.
pub fn nightly() -> Result<()> {
    let mut stages = Stages::new(AfterFailure::GoOn);
    stages.run("pages", || docs::docs(&["--check"]))?;
    stages.run("planted bugs", || {
        let bugs = ["--test", "suite", "--", "planted_bugs::", "planted_files::"];
        let mut test = cargo();
        test.args(["test", "--package", "seekless-prove"]).args(bugs);
        run(test.env("SEEKLESS_SEEDS", "3"))
    })?;
    for name in ["keeps_a_tree_of_files", "trees_of_files_survive_tar", "damage_in_any_sector"] {
        let e2e = ["test", "--package", "seekless", "--test", "e2e", name];
        stages.run(name, || run(cargo().args(e2e).env("SEEKLESS_FULL", "1")))?;
    }
    // Other states each night. The first line of the sweep prints the seed, which repeats it.
    let states = NIGHTLY_SWEEPS * sweep::BOUNDED_STATES;
    stages.run("sweep", || sweep::bounded(states, commit_seed()?))?;
    stages.run("soak", sweep::soak_finds)?;
    stages.run("fuzz", fuzz)?;
    stages.run("figures", figures)?;
    println!("\n{}", stages.table());
    stages.finish()
}

/// Bounded fuzzing: the property tests with many more cases than usual and the fuzz targets, both
/// seeded with the commit, and the test that usual runs ignore.
///
/// # Errors
/// If a case fails.
pub fn fuzz() -> Result<()> {
    let seed = commit_seed()?;
    for package in PROPERTY_TESTED {
        let mut tests = cargo();
        tests.env("PROPTEST_CASES", "2000").env("PROPTEST_RNG_SEED", seed.to_string());
        run(tests.args(["test", "--quiet", "--package", package]))?;
    }
    // The long comparison of file systems with the model, which a usual run of tests leaves out.
    let long = ["test", "--quiet", "--package", "seekless-formats", "many_scripts_agree"];
    run(cargo().args(long).args(["--", "--ignored"]))?;
    // Promises of `fsync` over many more crashes.
    let promises =
        ["test", "--quiet", "--package", "seekless-formats", "--test", "suite", "durable::"];
    run(cargo().env("SEEKLESS_SCRIPTS", "10").args(promises))?;
    targets(None)
}

/// The fuzz targets alone, each for so many seconds.
///
/// # Errors
/// If a target finds a failure, or the argument is not a number.
pub fn targets(seconds: Option<&str>) -> Result<()> {
    let seconds = seconds.unwrap_or(FUZZ_SECONDS);
    let why = || format!("`{seconds}` is not a number of seconds");
    fuzz::fuzz(seconds.parse().with_context(why)?, commit_seed()?)
}
