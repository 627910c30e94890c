//! `seekless fs sync`: makes a mounted file system durable.
//!
//! The kernel sends no `sync` and no `syncfs` to a file system in user space. So this first has the
//! kernel hand on what it keeps (`mount --kernel-cache`), and then asks the process behind the
//! mount.

use crate::commands::status::find;
use crate::failure::{Exit, Failure, Outcome};
use seekless_serve::control::ask_within;
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Arguments of `seekless fs sync`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless fs sync /mnt
  cp -r site /mnt && seekless fs sync /mnt && echo 'the copy is durable'

It returns when everything is durable that programs had written before. `sync` and `syncfs` return
at once: the kernel does not pass them on to a file system in user space. `fsync` reaches it.")]
pub struct Args {
    /// The directory that it is mounted at.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Syncs.
///
/// # Errors
/// If nothing of this user is mounted there, or the file system cannot be made durable.
pub fn run(args: &Args) -> Outcome {
    let dir = &args.dir;
    let found = find(dir)?.filter(|found| found.report.file_system.is_some());
    let Some(found) = found else {
        let cause = format!("{}: no file system of yours is mounted there", dir.display());
        return Err(Failure::failed(cause).hint("name the directory of a `seekless mount`"));
    };
    // What is named may be the image.
    hand_on(Path::new(&found.report.at))?;
    let answer = ask_within(&found.socket, &json!({ "command": "sync" }), None);
    let answer = answer.map_err(|error| {
        let cause = format!("{}: the process of the mount did not answer: {error}", dir.display());
        Failure::failed(cause).hint("it has ended: run `seekless fsck`")
    })?;
    if answer["ok"] == true {
        return Ok(());
    }
    let why = answer["error"].as_str().unwrap_or("the answer is invalid");
    Err(not_durable(format!("{}: {why}", dir.display())))
}

/// The volume below failed.
fn not_durable(cause: String) -> Failure {
    Failure::new(Exit::Backing, cause).hint("unmount, and run `seekless fsck --repair`")
}

/// Has the kernel hand on what it keeps of files.
fn hand_on(dir: &Path) -> Outcome {
    let opened = File::open(dir).and_then(|file| Ok(rustix::fs::syncfs(file)?));
    opened.map_err(|error| not_durable(format!("{}: {error}", dir.display())))
}
