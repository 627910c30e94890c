//! The static program.

use crate::run::{capture, cargo, root, run, target};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Linked with musl, which is made for static programs.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// A panic ends the program, and without symbols a backtrace would tell nothing.
const UNWINDING: &str = "-Cforce-unwind-tables=no";

/// Builds the program, or takes `given`, and writes it to `to` without symbols.
pub(super) fn program(given: Option<&Path>, to: &Path) -> Result<()> {
    let built = match given {
        Some(path) => path.to_owned(),
        None => build()?,
    };
    run(Command::new("strip").arg("-o").arg(to).arg(&built))?;
    check_static(to)
}

fn build() -> Result<PathBuf> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("packages are made on x86-64 only");
    }
    let sysroot = capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET);
    ensure!(library.is_dir(), "run `rustup target add {TARGET}` first");
    ensure!(crate::run::installed("musl-gcc"), "musl-gcc is missing; Debian has it in musl-tools");
    let mut command = cargo();
    command.args(["build", "--quiet", "--locked", "--profile", "dist", "--target", TARGET]);
    command.args(["--package", "seekless", "--bin", "seekless"]);
    // Panics name source files. Their paths must not depend on the machine.
    command.env("RUSTFLAGS", remapped()?);
    run(&mut command).context("the static program")?;
    Ok(target().join(TARGET).join("dist").join("seekless"))
}

/// Options that replace the places of sources by names, and leave tables of unwinding out.
fn remapped() -> Result<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let home = home.context("there is no home directory")?;
    let option = |from: &Path, to| format!("--remap-path-prefix={}={to}", from.display());
    Ok([option(&home, "/cargo"), option(root(), "/seekless"), UNWINDING.to_owned()].join(" "))
}

/// A static program asks for no interpreter and for no library.
fn check_static(program: &Path) -> Result<()> {
    let mut readelf = Command::new("readelf");
    let headers = capture(readelf.args(["--wide", "--program-headers", "--dynamic"]).arg(program))?;
    for word in ["INTERP", "(NEEDED)"] {
        ensure!(!headers.contains(word), "{} is not static: {word}", program.display());
    }
    Ok(())
}
