//! Archives whose bytes depend on names and contents only.

use super::{Release, tree};
use crate::run::run;
use anyhow::Result;
use std::path::Path;

/// The tarball for any Linux.
pub(super) fn tarball(release: &Release, out: &Path) -> Result<()> {
    let name = tree::name(release);
    tar(release, &release.work, &name, &out.join(format!("{name}.tar.gz")), true)
}

/// Packs `what` below `dir`: sorted, of one date, of owner 0, readable by all.
pub(super) fn tar(release: &Release, dir: &Path, what: &str, to: &Path, zip: bool) -> Result<()> {
    let mut tar = release.command("tar");
    tar.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--mode=u+rw,go+r,go-w,a+X"]);
    tar.arg(format!("--mtime=@{}", release.epoch));
    if zip {
        // Without the name and the date of the input.
        tar.args(["--use-compress-program", "gzip -9 --no-name"]);
    }
    run(tar.arg("--directory").arg(dir).arg("--file").arg(to).arg(what))
}
