//! Continuous integration, in stages that also run alone.

use crate::docs::docs;
use crate::fuzz;
use crate::run::{capture, cargo, root, run, seekless};
use crate::sweep::{self, commit_seed};
use crate::tidy::tidy;
use anyhow::{Context as _, Result, ensure};
use std::process::Command;

/// Seconds for each fuzz target: in the fuzz stage alone, and in the whole of CI.
const FUZZ_SECONDS: &str = "60";
const FUZZ_SECONDS_BRIEF: &str = "20";

/// Crates with property tests.
const PROPERTY_TESTED: [&str; 8] = [
    "seekless-engine",
    "seekless-layouts",
    "seekless-arrays",
    "seekless-disk",
    "seekless-lab",
    "seekless-serve",
    "seekless-crashtest",
    "seekless-fs",
];

/// Every stage.
///
/// # Errors
/// The first stage that fails.
pub fn all() -> Result<()> {
    smoke()?;
    sweep()?;
    sweep::soak_finds()?;
    targets(Some(FUZZ_SECONDS_BRIEF))?;
    docs(&["--check"])?;
    test()
}

/// Format, lints, house rules, unit tests of the engine and the layouts.
///
/// # Errors
/// The first step that fails.
pub fn smoke() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    let lints = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run(cargo().args(lints))?;
    tidy()?;
    let packages = ["--package", "seekless-engine", "--package", "seekless-layouts"];
    run(cargo().args(["test", "--quiet", "--lib"]).args(packages))
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

/// Power-cut sweeps of every layout, seeded with the commit, so that each commit tries other states
/// and each failure can be repeated. Tests plant the bugs that such a sweep must find.
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
/// as a kernel, damage in each sector, ten times the usual sweep, all of the fuzzing, a soak, and
/// the reproduced claims.
///
/// # Errors
/// The first stage that fails.
pub fn nightly() -> Result<()> {
    let bugs = ["--test", "suite", "--", "planted_bugs::", "planted_files::"];
    let mut test = cargo();
    test.args(["test", "--package", "seekless-prove"]).args(bugs).env("SEEKLESS_SEEDS", "3");
    run(&mut test)?;
    let long = ["keeps_a_tree_of_files", "trees_of_files_survive_tar", "damage_in_any_sector"];
    for name in long {
        let e2e = ["test", "--package", "seekless", "--test", "e2e", name];
        run(cargo().args(e2e).env("SEEKLESS_FULL", "1"))?;
    }
    sweep::bounded(10 * sweep::BOUNDED_STATES, commit_seed()?)?;
    sweep::soak_finds()?;
    fuzz()?;
    figures()
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
    let long = ["test", "--quiet", "--package", "seekless-fs", "many_scripts_agree"];
    run(cargo().args(long).args(["--", "--ignored"]))?;
    // Promises of `fsync` over many more crashes.
    let promises = ["test", "--quiet", "--package", "seekless-fs", "--test", "suite", "durable::"];
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
