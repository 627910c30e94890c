//! The wheel: the static program and the Python packages.

use super::{Release, tree};
use crate::run::{root, run};
use anyhow::{Result, ensure};
use std::path::Path;

/// Bytes that it may have: it is downloaded by every job of a build server.
const MOST_BYTES: u64 = 7 << 20;

pub(super) fn wheel(release: &Release, out: &Path) -> Result<()> {
    let mut python = release.command("python3");
    python.arg(root().join("scripts/wheel.py")).arg(&release.program).arg(out);
    run(python.arg(tree::dir(release).join(tree::NOTICES)))?;
    let bytes = super::found(out, ".whl")?.metadata()?.len();
    ensure!(bytes <= MOST_BYTES, "the wheel has {bytes} bytes, and may have {MOST_BYTES}");
    Ok(())
}
