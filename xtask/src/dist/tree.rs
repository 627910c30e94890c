//! What every package is made from: the program with its pages, completions and licences.
//!
//! The directory is that of the tarball. The Debian package takes its files from there.

use super::{Release, notices};
use crate::run::{capture, root, run};
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;

/// Shells, and the names of their completions.
pub(super) const SHELLS: [(&str, &str); 3] =
    [("bash", "seekless.bash"), ("zsh", "_seekless"), ("fish", "seekless.fish")];
/// Pages of the repository that go along.
const PAGES: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// The licences of what is linked.
pub(super) const NOTICES: &str = "THIRD-PARTY.txt";

/// The directory of the tree.
pub(super) fn dir(release: &Release) -> PathBuf {
    release.work.join(name(release))
}

/// The name of the tree, which the tarball begins with.
pub(super) fn name(release: &Release) -> String {
    format!("seekless-{}-x86_64-linux", release.version)
}

/// Puts the tree together.
pub(super) fn stage(release: &Release) -> Result<()> {
    let dir = release.scratch(&name(release))?;
    copy(&release.program, &dir.join("seekless"))?;
    for page in PAGES {
        copy(&root().join(page), &dir.join(page))?;
    }
    std::fs::write(dir.join(NOTICES), notices::notices()?)?;
    run(Command::new(&release.program).arg("man").arg(dir.join("man")))?;
    let completions = dir.join("completions");
    std::fs::create_dir(&completions)?;
    for (shell, name) in SHELLS {
        let script = capture(Command::new(&release.program).args(["completions", shell]))?;
        std::fs::write(completions.join(name), script)?;
    }
    Ok(())
}

/// Copies a file with its permissions.
pub(super) fn copy(from: &std::path::Path, to: &std::path::Path) -> Result<()> {
    let failed = || format!("cannot copy {} to {}", from.display(), to.display());
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).with_context(failed)?;
    }
    std::fs::copy(from, to).map(drop).with_context(failed)
}
