//! Running other programs, with errors that name them.

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A failure that is printed already.
#[derive(Debug)]
pub struct Said;

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a stage failed")
    }
}

impl std::error::Error for Said {}

/// The root of the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the checkout")
}

/// The cargo that runs this task.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // What a check finds is a function of the tree. Fuzzing and people give seeds of their own.
    if std::env::var_os(PROPERTY_SEED).is_none() {
        command.env(PROPERTY_SEED, "1");
    }
    command
}

/// The variable with the seed of property tests.
pub const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// Runs a program with its output on ours.
///
/// # Errors
/// If it cannot be started or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Runs a program and returns its output.
///
/// # Errors
/// If it cannot be started or fails; its standard error is part of the message.
pub fn capture(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = output(command)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed: {}\n{}", output.status, said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed no text"))
}

/// Runs a program to its end, successful or not.
///
/// # Errors
/// If it cannot be started.
pub fn output(command: &mut Command) -> Result<Output> {
    let shown = shown(command);
    command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{shown}`"))
}

/// Builds the release program and returns its path.
///
/// # Errors
/// If it does not build.
pub fn seekless() -> Result<PathBuf> {
    run(cargo().args(["build", "--quiet", "--release", "--package", "seekless"]))?;
    Ok(target().join("release").join("seekless"))
}

/// Builds the program as it is given away, with fat LTO, and returns its path. Benchmarks measure
/// this one.
///
/// # Errors
/// If it does not build.
pub fn distributed() -> Result<PathBuf> {
    run(cargo().args(["build", "--quiet", "--profile", "dist", "--package", "seekless"]))?;
    Ok(target().join("dist").join("seekless"))
}

/// Builds the program as tests do, with its assertions and the bugs that can be planted in it, and
/// returns its path. All tests are built with it: the program alone would be built with other
/// features of its dependencies, and all of them once more for the tests.
///
/// # Errors
/// If it does not build.
pub fn asserting() -> Result<PathBuf> {
    run(cargo().args(["test", "--quiet", "--workspace", "--no-run"]))?;
    Ok(target().join("debug").join("seekless"))
}

/// The directory of builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// True if a program of this name can be started.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
