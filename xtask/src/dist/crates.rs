//! The crates as a registry gets them: each is packed, and built from its package alone.

use super::{Release, tree};
use crate::run::{cargo, root, run};
use anyhow::{Result, ensure};

/// Files that each crate has for its page in the registry.
const FILES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// The structure of a stranger.
const STRANGER: &str = "crates/prove/tests/suite/stranger.rs";

/// Does all of `cargo publish` but the upload, in the order that dependencies give.
pub(super) fn package(release: &Release) -> Result<()> {
    for entry in std::fs::read_dir(root().join("crates"))? {
        let dir = entry?.path();
        for file in FILES {
            ensure!(dir.join(file).is_file(), "{} has no {file}", dir.display());
        }
    }
    let mut publish = cargo();
    publish.args(["publish", "--dry-run", "--workspace", "--locked", "--allow-dirty", "--quiet"]);
    run(&mut publish)?;
    stranger(release)
}

/// A crate outside the workspace proves a structure of its own.
fn stranger(release: &Release) -> Result<()> {
    let dir = release.scratch("stranger")?;
    tree::copy(&root().join(STRANGER), &dir.join("tests/stranger.rs"))?;
    // The same libraries, so that nothing has to be fetched.
    tree::copy(&root().join("Cargo.lock"), &dir.join("Cargo.lock"))?;
    let prove = root().join("crates/prove");
    let manifest = format!(
        "[package]\nname = \"stranger\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dependencies]\nseekless-prove = {{ path = {prove:?} }}\n\
         [workspace]\n"
    );
    std::fs::write(dir.join("Cargo.toml"), manifest)?;
    std::fs::create_dir(dir.join("src"))?;
    std::fs::write(dir.join("src/lib.rs"), "")?;
    let mut test = cargo();
    test.args(["test", "--quiet", "--offline", "--test", "stranger", "--target-dir"]);
    test.arg(release.work.join("stranger-target")).arg("--manifest-path");
    run(test.arg(dir.join("Cargo.toml")))
}
