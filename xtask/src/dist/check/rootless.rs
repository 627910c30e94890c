//! The tarball in an empty directory, as a user without any rights: no library, no /etc, no /tmp.

use super::{Outcome, lack};
use crate::dist::{Release, found, tree};
use crate::run::{capture, run};
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// User and group without rights.
const USER: &str = "--userspec=65534:65534";
/// What a stranger tries first.
const COMMANDS: [&str; 3] = [
    "--version",
    "sim --layout inplace,vlog --disk st19101 --requests 200",
    "prove --layout vlog --states 500 --jobs 1",
];
/// How often the program is started to time that.
const STARTS: u32 = 100;

pub(super) fn empty_root(release: &Release, out: &Path) -> Result<Outcome> {
    if let Some(why) = lack(true, &["chroot"])? {
        return Ok(Outcome::Skipped(why));
    }
    let (unpacked, root) = (release.scratch("unpacked")?, release.scratch("root")?);
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--directory").arg(&unpacked).arg("--file");
    run(tar.arg(found(out, ".tar.gz")?))?;
    tree::copy(&unpacked.join(tree::name(release)).join("seekless"), &root.join("seekless"))?;
    let inside = || {
        let mut command = Command::new("chroot");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin").arg(USER).arg(&root).arg("/seekless");
        command
    };
    let started = Instant::now();
    for _ in 0..STARTS {
        let version = capture(inside().arg("--version"))?;
        ensure!(version.contains(&release.version), "the program is {version}");
    }
    let start = started.elapsed() / STARTS;
    for command in COMMANDS {
        capture(inside().args(command.split(' ')))?;
    }
    serves(inside())?;
    Ok(Outcome::Passed(format!(
        "it starts in {:.1} ms, chroot included",
        start.as_secs_f64() * 1e3
    )))
}

/// A server listens on `localhost`, though no file says what that is, and ends in order.
fn serves(mut command: Command) -> Result<()> {
    command.args(["serve", "--memory", "8M", "--layout", "vlog", "--listen", "localhost:0"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().context("cannot start the server")?;
    let mut uri = String::new();
    let output = server.stdout.take().context("a pipe")?;
    BufReader::new(output).read_line(&mut uri)?;
    run(Command::new("kill").arg(server.id().to_string()))?;
    let ended = server.wait()?;
    ensure!(uri.starts_with("nbd://127.0.0.1:"), "the server said `{uri}`");
    ensure!(ended.success(), "the server ended with {ended}");
    Ok(())
}
