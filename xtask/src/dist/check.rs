//! Tests of what is in `dist/`: each package is used as its users would.
//!
//! A test whose tool is missing is skipped and says so.

mod container;
mod debian;
mod figures;
mod python;
mod rootless;

use super::{Release, SUMS};
use crate::run::{capture, installed, run};
use crate::stages::Stages;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// What a test came to.
enum Outcome {
    Passed(String),
    /// Why it could not be run.
    Skipped(String),
}

/// Tests all packages.
pub(super) fn all(stages: &mut Stages, release: &Release, out: &Path) -> Result<()> {
    let mut test = |name: &str, outcome: &dyn Fn() -> Result<Outcome>| {
        stages.run(name, || {
            match outcome()? {
                Outcome::Passed(what) => println!("dist: {name}: {what}"),
                Outcome::Skipped(why) => println!("dist: {name}: skipped: {why}"),
            }
            Ok(())
        })
    };
    test("sums", &|| sums(out))?;
    test("empty root", &|| rootless::empty_root(release, out))?;
    test("figures", &|| figures::same(&release.program))?;
    test("wheel", &|| python::wheel(release, out))?;
    test("debian package", &|| debian::package(release, out))?;
    test("container image", &|| container::image(release, out))
}

fn sums(out: &Path) -> Result<Outcome> {
    run(Command::new("sha256sum").current_dir(out).args(["--check", "--strict", "--quiet", SUMS]))?;
    Ok(Outcome::Passed("every file has its digest".to_owned()))
}

/// Why this machine cannot do what only root may, with these programs.
fn lack(needs_root: bool, programs: &[&str]) -> Result<Option<String>> {
    if needs_root && capture(Command::new("id").arg("-u"))?.trim() != "0" {
        return Ok(Some("this user is not root".to_owned()));
    }
    let missing = programs.iter().find(|program| !installed(program));
    Ok(missing.map(|program| format!("{program} is not installed")))
}
