//! Kernel file systems against the models of them: random sequences of calls, of fresh seeds.
//!
//! Each tree that a crash of the kernel leaves must be one that the model allows. What was found
//! earlier is stored, and the tests of `seekless-calls` replay it without a kernel.

use crate::explore::fresh_seed;
use crate::run::{asserting, capture, cargo, installed, root, run, target};
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;

/// Seconds for each model.
const SECONDS: u64 = 300;
/// The program that makes the sequences and runs them.
const SEQUENCES: &str = "crates/calls/calibrate/sequences.py";
/// The models that kernels are compared with, and the program that makes the file system of each.
const KERNELS: [(&str, &str); 3] =
    [("ext4", "mkfs.ext4"), ("xfs", "mkfs.xfs"), ("btrfs", "mkfs.btrfs")];
/// Where programs are that make file systems, if not in `PATH`.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Searches for trees that a model forbids, for so many seconds each. What the machine lacks is
/// said and left out.
///
/// # Errors
/// If a kernel leaves a tree that its model forbids, or `seconds` is not a number.
pub fn models(seconds: Option<&str>) -> Result<()> {
    let seconds = match seconds {
        Some(text) => text.parse().with_context(|| format!("`{text}` is not a number"))?,
        None => SECONDS,
    };
    if let Some(lack) = lack()? {
        eprintln!("models: skipped: {lack}");
        return Ok(());
    }
    let seekless = asserting()?;
    run(cargo().args(["build", "--quiet", "--package", "seekless-calls", "--example", "trees"]))?;
    let trees = target().join("debug").join("examples").join("trees");
    let seed = fresh_seed()?;
    println!("models: seed {seed}, {seconds} s for each model");
    let mut failed = Vec::new();
    for (model, mkfs) in KERNELS {
        if !installed(mkfs) && !SYSTEM.iter().any(|dir| Path::new(dir).join(mkfs).is_file()) {
            eprintln!("models: {model}: skipped: {mkfs} is not installed");
            continue;
        }
        let out = target().join("models").join(format!("{model}-{seed}"));
        let mut search = Command::new("python3");
        search.arg(root().join(SEQUENCES)).arg("search").arg("--tune");
        search.arg("--seekless").arg(&seekless).arg("--trees").arg(&trees).arg("--out").arg(&out);
        search.args(["--fs", model, "--seed", &seed.to_string()]);
        search.args(["--seconds", &seconds.to_string()]);
        if let Err(error) = run(&mut search) {
            failed.push(format!("{model}: {error:#}; the results are in {}", out.display()));
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

/// What the machine lacks for all of them.
fn lack() -> Result<Option<String>> {
    if capture(Command::new("id").arg("-u"))?.trim() != "0" {
        return Ok(Some("this user is not root, and mounts nothing".to_owned()));
    }
    let missing =
        ["/dev/fuse", "/dev/loop-control"].into_iter().find(|path| !Path::new(path).exists());
    Ok(match missing {
        Some(device) => Some(format!("there is no {device}")),
        None if !installed("python3") => Some("python3 is not installed".to_owned()),
        None => None,
    })
}
