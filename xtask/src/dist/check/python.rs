//! The wheel in a fresh environment, without an index of packages.

use super::{Outcome, lack};
use crate::dist::{Release, found};
use crate::run::{capture, root, run};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

/// What uses the package.
const TEST: &str = "packages/python/tests/test_reports.py";

/// What runs the templates for build servers.
const TEMPLATES: &str = "scripts/run-templates.py";

pub(super) fn wheel(release: &Release, out: &Path) -> Result<Outcome> {
    if let Some(why) = lack(false, &["python3"])? {
        return Ok(Outcome::Skipped(why));
    }
    let dir = release.scratch("venv")?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
    let python = dir.join("bin/python");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]);
    run(pip.arg(found(out, ".whl")?))?;
    let version = capture(Command::new(dir.join("bin/seekless")).arg("--version"))?;
    ensure!(version.contains(&release.version), "the program of the wheel is {version}");
    // The search path has no other program, and none is named.
    let mut test = Command::new(&python);
    test.env_remove("SEEKLESS").env("PATH", "/usr/bin:/bin").arg(root().join(TEST));
    run(&mut test)?;
    // The templates for build servers install it from here; the hook finds it on the search path.
    let path = std::env::var("PATH").unwrap_or_default();
    let mut templates = Command::new("python3");
    templates.env("PATH", format!("{}:{path}", dir.join("bin").display()));
    run(templates.arg(root().join(TEMPLATES)).arg("--wheels").arg(out))?;
    Ok(Outcome::Passed("installed without an index, and used; templates as well".to_owned()))
}
