//! `cargo xtask dist`: builds what is given away, writes it to `dist/`, and tests each file of it.
//!
//! Everything comes from one static program, so that every machine with a Linux kernel runs the
//! same bytes. Archives have the date of the commit, sorted names and owner 0: a second run writes
//! the same bytes. Nothing is published.

mod archive;
mod build;
mod check;
mod crates;
mod deb;
mod notices;
mod oci;
mod tree;
mod version;
mod wheel;

use crate::run::{capture, root, target};
use crate::stages::{AfterFailure, Stages};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file with the digests of all others.
const SUMS: &str = "SHA256SUMS";

/// A release: its version, its date, the program, and where things are put together.
#[derive(Debug)]
struct Release {
    version: String,
    /// Seconds of the date of everything in an archive.
    epoch: String,
    /// The static program, without symbols.
    program: PathBuf,
    /// What is packed, and scratch space.
    work: PathBuf,
}

impl Release {
    /// A command whose archives have the date of the release.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", &self.epoch).env("LC_ALL", "C");
        command
    }

    /// A directory below that of the work, empty.
    fn scratch(&self, name: &str) -> Result<PathBuf> {
        let dir = self.work.join(name);
        empty(&dir)?;
        Ok(dir)
    }
}

/// Builds, packs and tests. `--program` packs a static program that is there already.
///
/// # Errors
/// If the versions disagree, something cannot be built, or a test fails.
pub fn dist(args: &[&str]) -> Result<()> {
    let program = match args {
        [] => None,
        ["--program", path] => Some(PathBuf::from(path)),
        _ => bail!("dist takes --program PATH, or nothing"),
    };
    let mut stages = Stages::new(AfterFailure::Stop);
    let version = version::agreed()?;
    let work = target().join("packages");
    std::fs::create_dir_all(&work)?;
    let mut release = Release { version, epoch: epoch()?, program: work.join("seekless"), work };
    stages.run("build", || build::program(program.as_deref(), &release.program))?;
    release.program = release.program.canonicalize()?;
    let out = root().join("dist");
    stages.run("pack", || {
        tree::stage(&release)?;
        pack(&release, &out)
    })?;
    stages.run("same bytes", || same_bytes(&release, &out))?;
    check::all(&mut stages, &release, &out)?;
    stages.run("crates", || crates::package(&release))?;
    print!("{}{}", stages.table(), sizes(&out)?);
    Ok(())
}

/// Writes every package to a directory, which is emptied first.
fn pack(release: &Release, out: &Path) -> Result<()> {
    empty(out)?;
    archive::tarball(release, out)?;
    wheel::wheel(release, out)?;
    deb::deb(release, out)?;
    oci::image(release, out)?;
    let mut sums = Command::new("sha256sum");
    sums.current_dir(out).arg("--").args(files(out)?);
    std::fs::write(out.join(SUMS), capture(&mut sums)?)?;
    Ok(())
}

/// Packs once more and compares.
fn same_bytes(release: &Release, out: &Path) -> Result<()> {
    let again = release.scratch("again")?;
    pack(release, &again)?;
    let read = |dir: &Path| std::fs::read_to_string(dir.join(SUMS));
    let (first, second) = (read(out)?, read(&again)?);
    ensure!(first == second, "a second run packs other bytes:\n{first}\n{second}");
    Ok(())
}

/// The date of the release: that of the environment, or of the commit.
fn epoch() -> Result<String> {
    if let Ok(set) = std::env::var("SOURCE_DATE_EPOCH") {
        set.parse::<u64>().with_context(|| format!("SOURCE_DATE_EPOCH: `{set}` is no time"))?;
        return Ok(set);
    }
    let mut log = Command::new("git");
    let date = capture(log.current_dir(root()).args(["log", "-1", "--format=%ct"]))?;
    Ok(date.trim().to_owned())
}

/// Makes a directory, or empties it.
fn empty(dir: &Path) -> Result<()> {
    let failed = || format!("cannot empty {}", dir.display());
    if dir.exists() {
        std::fs::remove_dir_all(dir).with_context(failed)?;
    }
    std::fs::create_dir_all(dir).with_context(failed)
}

/// The names of the files of a directory, sorted.
fn files(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| name != SUMS);
    names.sort();
    Ok(names)
}

/// The one file of a directory whose name ends like this.
fn found(dir: &Path, suffix: &str) -> Result<PathBuf> {
    let name = files(dir)?.into_iter().find(|name| name.ends_with(suffix));
    Ok(dir.join(name.with_context(|| format!("{} has no {suffix}", dir.display()))?))
}

/// A table of the files and their sizes.
fn sizes(out: &Path) -> Result<String> {
    let mut table = String::new();
    for name in files(out)? {
        let bytes = out.join(&name).metadata()?.len() as f64;
        table += &format!("{:>8.2} MB  {name}\n", bytes / 1e6);
    }
    Ok(table)
}
