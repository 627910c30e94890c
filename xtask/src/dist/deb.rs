//! The Debian package. A static program needs no other package.

use super::{Release, tree};
use crate::run::{root, run};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Where Debian has completions, in the order of [`tree::SHELLS`].
const COMPLETIONS: [&str; 3] = [
    "usr/share/bash-completion/completions/seekless",
    "usr/share/zsh/vendor-completions/_seekless",
    "usr/share/fish/vendor_completions.d/seekless.fish",
];
const UNITS: [&str; 2] = ["seekless@.service", "seekless@.socket"];

pub(super) fn deb(release: &Release, out: &Path) -> Result<()> {
    let dir = release.scratch("deb")?;
    let from = tree::dir(release);
    tree::copy(&release.program, &dir.join("usr/bin/seekless"))?;
    for ((_, name), to) in tree::SHELLS.iter().zip(COMPLETIONS) {
        tree::copy(&from.join("completions").join(name), &dir.join(to))?;
    }
    for unit in UNITS {
        let source = root().join("packages/debian").join(unit);
        tree::copy(&source, &dir.join("usr/lib/systemd/system").join(unit))?;
    }
    pages(&from.join("man"), &dir.join("usr/share/man/man1"))?;
    documents(release, &from, &dir.join("usr/share/doc/seekless"))?;
    control(release, &dir)?;
    let mut build = release.command("dpkg-deb");
    // One thread: the blocks of several would depend on the machine.
    build.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(&dir);
    let name = format!("seekless_{}_amd64.deb", release.version);
    run(build.stdout(std::process::Stdio::null()).arg(out.join(name)))
}

/// Copies the manual pages, compressed.
fn pages(from: &Path, to: &Path) -> Result<()> {
    for name in super::files(from)? {
        zip(&from.join(&name), &to.join(name))?;
    }
    Ok(())
}

/// Compresses a file without its name and date.
fn zip(from: &Path, to: &Path) -> Result<()> {
    tree::copy(from, to)?;
    run(Command::new("gzip").args(["-9", "--no-name"]).arg(to))
}

/// The licences, in the form that Debian wants, and the change log.
fn documents(release: &Release, from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    std::fs::write(to.join("copyright"), copyright(from)?)?;
    tree::copy(&from.join(tree::NOTICES), &to.join(tree::NOTICES))?;
    run(Command::new("gzip").args(["-9", "--no-name"]).arg(to.join(tree::NOTICES)))?;
    tree::copy(&from.join("README.md"), &to.join("README.md"))?;
    let log = to.join("changelog");
    tree::copy(&from.join("CHANGELOG.md"), &log)?;
    run(release.command("gzip").args(["-9", "--no-name"]).arg(&log))
}

/// The page of Debian with the text of the MIT licence in its place. A paragraph is indented, and
/// an empty line is a point.
fn copyright(from: &Path) -> Result<String> {
    let page = std::fs::read_to_string(root().join("packages/debian/copyright"))?;
    let licence = std::fs::read_to_string(from.join("LICENSE-MIT"))?;
    let indented = |line: &str| if line.is_empty() { " .".into() } else { format!(" {line}") };
    let lines: Vec<String> = licence.trim_end().lines().map(indented).collect();
    Ok(page.replace("@MIT@", &lines.join("\n")))
}

fn control(release: &Release, dir: &Path) -> Result<()> {
    let template = std::fs::read_to_string(root().join("packages/debian/control"))?;
    let mut kilobytes = 0;
    sum(&dir.join("usr"), &mut kilobytes)?;
    let text = template.replace("@VERSION@", &release.version);
    let text = text.replace("@SIZE@", &kilobytes.to_string());
    let to = dir.join("DEBIAN");
    std::fs::create_dir(&to)?;
    std::fs::write(to.join("control"), text)?;
    Ok(())
}

/// Adds the kilobytes that the files below a directory take, each rounded up.
fn sum(dir: &Path, kilobytes: &mut u64) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sum(&entry.path(), kilobytes)?,
            false => *kilobytes += entry.metadata()?.len().div_ceil(1024),
        }
    }
    Ok(())
}
